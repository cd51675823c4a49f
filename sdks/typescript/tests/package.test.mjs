// The library as it would be published: its runtimes, its size, and the sign-up of the README.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { copyFile, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import vm from 'node:vm';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { completeCheck, startRecorder } from './callbacks.mjs';
import { Browser } from './phone.mjs';
import { startService } from './service.mjs';

const run = promisify(execFile);
const folder = fileURLToPath(new URL('..', import.meta.url));
const runtimes = join(folder, 'tests/runtimes/node_modules');
const MAX_CORE_BYTES = 15_000;

let service;
let project;
let environment;
before(async () => {
  service = await startService();
  project = await mkdtemp(join(tmpdir(), 'ringtrue-package-'));
  // `test` has built the library. The project is empty except for the packed file.
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', project], { cwd: folder });
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }');
  const [file] = (await readdir(project)).filter((name) => name.endsWith('.tgz'));
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', `./${file}`], { cwd: project });
  await copyFile(join(folder, 'tests/smoke.mjs'), join(project, 'smoke.mjs'));

  const recorder = await startRecorder();
  await completeCheck(service.client(), '+990500000002', recorder.url);
  const { headers, body } = await recorder.next();
  await recorder.stop();
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]]] : []));
  // A `Request` sets these itself.
  const signed = pairs.filter(([name]) => !/^(connection|content-length)$/i.test(name));
  environment = {
    PATH: process.env.PATH,
    HOME: project,
    RINGTRUE_URL: service.url,
    RINGTRUE_CLIENT_ID: service.project.client_id,
    RINGTRUE_CLIENT_SECRET: service.project.client_secret,
    SMOKE_CALLBACK: JSON.stringify({ url: recorder.url, recorded: { headers: signed, body: body.toString() } }),
    DENO_NO_UPDATE_CHECK: '1',
    DO_NOT_TRACK: '1',
  };
});
after(async () => {
  await rm(project, { recursive: true, force: true });
  await service.stop();
});

test('the package contains what it needs, and nothing else', async () => {
  const installed = join(project, 'node_modules/@ringtrue/server');
  const files = (await readdir(installed, { recursive: true })).filter((name) => !name.startsWith('dist/'));
  assert.deepEqual(files.sort(), ['LICENSE', 'README.md', 'dist', 'package.json']);
  const { dependencies } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  assert.equal(dependencies, undefined);
});

// The programs of the platform's packages: those of `bun` need an install script.
const bunPackage = `@oven/bun-linux-${process.arch === 'arm64' ? 'aarch64' : 'x64'}`;
const node18 = `${runtimes}/node18-${process.arch}/bin/node`;
const RUNTIMES = {
  'Node.js': ['node', 'smoke.mjs'],
  'Node.js 18': [node18, 'smoke.mjs'],
  Bun: [`${runtimes}/${bunPackage}/bin/bun`, 'smoke.mjs'],
  Deno: [`${runtimes}/.bin/deno`, 'run', '--allow-net=127.0.0.1', '--allow-env', '--allow-read', 'smoke.mjs'],
};

for (const [name, [program, ...parameters]] of Object.entries(RUNTIMES)) {
  test(`${name} runs the packed library`, async () => {
    const { stdout } = await run(program, parameters, { cwd: project, env: environment });
    assert.equal(stdout.trim(), 'ok');
  });
}

test('Node.js 18 runs the packed library as CommonJS', async () => {
  const program = `
    const { Ringtrue } = require('@ringtrue/server');
    new Ringtrue({ allowSandbox: true }).simSwap.create({ phone_number: '+990500000004' })
      .then(({ status }) => console.log(status));
  `;
  await writeFile(join(project, 'program.cjs'), program);
  const { stdout } = await run(node18, ['program.cjs'], { cwd: project, env: environment });
  assert.equal(stdout.trim(), 'COMPLETED');
});

/** Bundles modules of the packed library. */
async function bundle(contents, format) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: project },
    bundle: true,
    minify: true,
    platform: 'neutral',
    format,
    write: false,
    mainFields: [],
  });
  return outputFiles[0].text;
}

test('the core runs with web globals only', async () => {
  const smoke = await readFile(join(project, 'smoke.mjs'), 'utf8');
  const [imports, body] = smoke.split('\n\nconst ringtrue');
  const program = `${imports}\nglobalThis.finished = (async () => {\nconst ringtrue${body}\n})();`;
  const lines = [];
  const globals = {
    // The parameters of the program, not the object of Node.js.
    process: { env: environment },
    console: { log: (line) => lines.push(line) },
    ...{ AbortController, AbortSignal, Headers, Request, Response, TextDecoder, TextEncoder, URL, URLSearchParams },
    ...{ atob, btoa, clearTimeout, crypto, fetch, performance, setTimeout },
  };
  const context = vm.createContext(globals);
  vm.runInContext(await bundle(program, 'iife'), context);
  await context.finished;
  assert.deepEqual(lines, ['ok']);
  assert.equal(vm.runInContext('typeof Buffer + typeof require', context), 'undefinedundefined');
});

test('the core is small', async (context) => {
  for (const [name, path] of [
    ['core', ''],
    ['express', '/express'],
    ['fastify', '/fastify'],
    ['next', '/next'],
  ]) {
    const text = await bundle(`export * from '@ringtrue/server'; export * from '@ringtrue/server${path}';`, 'esm');
    const size = gzipSync(text, { level: 9 }).length;
    context.diagnostic(`${name === 'core' ? 'core' : `core and ${name}`}: ${text.length} bytes, ${size} with gzip`);
    assert.ok(size < MAX_CORE_BYTES);
  }
});

test('the sign-up of the README works, in at most 15 lines', async () => {
  const readme = await readFile(join(folder, 'README.md'), 'utf8');
  const [, code] = /```js\n(.*?)```/s.exec(readme);
  assert.ok(code.trim().split('\n').length <= 15);
  const port = await freePort();
  const shop = `http://127.0.0.1:${port}`;
  const program = code
    .replace('https://shop.example.com', shop)
    .replace('listen(3000)', `listen(${port}, '127.0.0.1')`);
  await writeFile(join(project, 'shop.mjs'), program);
  for (const name of ['express', 'cookie-session']) {
    await symlink(join(folder, 'node_modules', name), join(project, 'node_modules', name));
  }
  const env = { ...environment, NODE_ENV: 'development', SESSION_SECRET: 'not so secret' };
  const child = spawn('node', ['shop.mjs'], { cwd: project, env, stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    await untilReachable(shop, ended);
    for (const [phone_number, expected] of [
      ['+990500000006', '/welcome'],
      ['+990500000007', '/sign-up?failed'],
    ]) {
      const browser = new Browser();
      const signedUp = await browser.submit(`${shop}/sign-up`, { phone_number });
      assert.equal(signedUp.status, 303);
      const back = await browser.checkSilently(signedUp.location, shop);
      assert.equal((await browser.send(back)).location, expected);
      assert.equal((await browser.send(back)).location, expected, 'reloaded');
      assert.equal((await new Browser().send(back)).status, 500, 'another session');
    }
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
});

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Waits until a server responds. */
async function untilReachable(url, ended) {
  let hasEnded = false;
  ended.then(() => {
    hasEnded = true;
  });
  const deadline = Date.now() + 20_000;
  for (;;) {
    try {
      return await fetch(url);
    } catch (error) {
      if (hasEnded || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
