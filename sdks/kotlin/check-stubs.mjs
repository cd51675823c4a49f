// Compares the compiled Android stubs with TypeScript declarations that NativeScript generates from the real SDK, so
// that a stub cannot promise a member that Android does not have. Usage: check-stubs.mjs FOLDER_OF_STUB_CLASSES
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

// The README names Android 7.0 as the minimum.
const MIN_SDK = 24;
// The code asks for the version before it calls the first, overrides the second without relying on the call, and has
// the third's value compiled in.
const NEWER = new Set([
  'android.telephony.TelephonyManager.isDataEnabled(): boolean',
  'android.net.ConnectivityManager.NetworkCallback.onUnavailable(): void',
  'android.os.Build.VERSION_CODES.O: 26',
]);

const packageFolder = dirname(createRequire(import.meta.url).resolve('@nativescript/types-android/package.json'));
const declarations = join(packageFolder, 'lib/android/android-platform-21-37-merged.d.ts');

// Signature, such as `android.net.Network.getAllByName(string): Array<java.net.InetAddress>`, to the API level.
const known = new Map();
const path = [];
let since = 1;
for (const line of readFileSync(declarations, 'utf8').split('\n')) {
  const depth = line.match(/^\t*/)[0].length;
  const text = line.trim();
  const scope = text.match(/^(?:declare |export )(?:abstract )?(?:module|class|interface) (\w+)/);
  if (scope) path.splice(depth, path.length, scope[1]);
  const member = text.match(/^public (?:static )?(?:abstract )?(\w+)(?:\((.*)\))?(?:: (.*))?;$/);
  if (member && path[0] === 'android') {
    const [, name, parameters, type] = member;
    const types = parameters?.split(', ').filter(Boolean).map((parameter) => parameter.replace(/^\w+\??: /, ''));
    const signature = `${path.slice(0, depth).join('.')}.${name}${types ? `(${types.join(', ')})` : ''}: ${type}`;
    known.set(signature.replaceAll(' | null', '').replaceAll('androidNative.', '').replace(/: undefined$/, ''), since);
  }
  since = Number(text.match(/@since (\d+)/)?.[1] ?? (text.startsWith('/**') || text.startsWith('*') ? since : 1));
}

const TYPES = { 'java.lang.String': 'string', 'java.lang.Object': 'any', int: 'number' };

function translate(type) {
  if (type.endsWith('[]')) return `Array<${translate(type.slice(0, -2))}>`;
  return TYPES[type] ?? type.replaceAll('$', '.');
}

const folder = process.argv[2];
const classes = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.class'));
const files = classes.map((file) => join(folder, file));
const output = execFileSync('javap', ['-public', '-constants', ...files], { encoding: 'utf8' });
const problems = [];
let compared = 0;
let current = '';
let isAbstract = false;
for (const line of output.split('\n')) {
  const declaration = line.match(/^public (.*)class (\S+)/);
  if (declaration) [isAbstract, current] = [declaration[1].includes('abstract'), declaration[2].replaceAll('$', '.')];
  const member = line
    .replace(/ throws [^;]*/, '')
    .match(/^ {2}public (?:static |final |abstract )*(?:(\S+) )?([\w.$]+)(?:\((.*)\))?(?: = (.*))?;$/);
  if (!member) continue;
  const [, type, name, parameters, value] = member;
  // A constructor of an abstract class is the compiler's.
  if (type === undefined && isAbstract) continue;
  const types = parameters?.split(', ').filter(Boolean).map(translate);
  const signature = type === undefined
    ? `${current}.constructor(${types.join(', ')})`
    : `${current}.${name}${types ? `(${types.join(', ')})` : ''}: ${value ?? translate(type)}`;
  const level = known.get(signature) ?? known.get(`${signature}: undefined`);
  compared++;
  if (level === undefined) problems.push(`not in the Android SDK: ${signature}`);
  else if (level > MIN_SDK && !NEWER.has(signature)) problems.push(`since API level ${level}: ${signature}`);
}
if (compared === 0) problems.push('no stubs were found');
for (const problem of problems) console.error(`android-stubs: ${problem}`);
process.exit(problems.length ? 1 : 0);
