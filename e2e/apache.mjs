// Debian's Apache for tests: a server of our own on a loopback port, in a temporary folder.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BINARY = '/usr/sbin/apache2';
const MODULES = '/usr/lib/apache2/modules';

/** Starts Apache, and waits until it serves. `prepare` gets its folder and its origin, writes what it needs into the
 * folder, and returns the names of modules and the directives. */
export async function startApache(prepare) {
  const folder = await mkdtemp(join(tmpdir(), 'apache-'));
  // Apache gives up root's rights.
  await chmod(folder, 0o755);
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const { modules, directives } = await prepare(folder, origin);
  const isRoot = process.getuid() === 0;
  const configuration = join(folder, 'apache2.conf');
  await writeFile(configuration, `
ServerRoot ${folder}
ServerName 127.0.0.1
PidFile ${folder}/apache2.pid
DefaultRuntimeDir ${folder}
Listen 127.0.0.1:${port}
ErrorLog ${folder}/error.log
LogLevel notice
${isRoot ? 'User www-data\nGroup www-data' : ''}
${['mpm_event', 'authz_core', 'dir', ...modules].map((name) => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`).join('\n')}
${directives}
`);
  await writeFile(join(folder, 'error.log'), '');
  execFileSync(BINARY, ['-f', configuration, '-t'], { stdio: 'pipe' });
  const child = spawn(BINARY, ['-f', configuration, '-D', 'FOREGROUND'], { stdio: 'inherit' });
  const ended = once(child, 'exit');
  // Its last message before it serves.
  const log = spawn('tail', ['--follow', '--lines=+1', join(folder, 'error.log')], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  const ready = new Promise((resolve) => {
    log.stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('resuming normal operations')) resolve(true);
    });
  });
  const isReady = await Promise.race([ready, ended.then(() => false)]);
  log.kill();
  assert.ok(isReady, `apache2 exited before it was ready:\n${text}`);
  return {
    origin,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
