// Starts `ringtrue dev` with its own data folder, and restarts it on the same port.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ringtrue } from '@ringtrue/server';

// Tests that are not about limits must not meet them.
const NO_LIMITS = {
  RINGTRUE_RATE_LIMITS__READ: '1000000',
  RINGTRUE_RATE_LIMITS__CREATE: '1000000',
  RINGTRUE_RATE_LIMITS__TOKEN: '1000000',
  RINGTRUE_RATE_LIMITS__MANAGEMENT: '1000000',
};

/** `settings` are environment variables (`RINGTRUE_SECTION__NAME`). */
export async function startService(settings = {}) {
  const binary = process.env.BINARY_UNDER_TEST;
  if (!binary) throw new Error('BINARY_UNDER_TEST is not set');
  const data = await mkdtemp(join(tmpdir(), 'ringtrue-sdk-'));
  const port = await freePort();
  const env = { ...process.env, ...NO_LIMITS, ...settings };
  let running = await launch(binary, data, port, env);
  const { base_url, project, workspace } = JSON.parse(await readFile(join(data, 'dev.json'), 'utf8'));
  return {
    url: base_url,
    project,
    workspace,
    /** A client of the sandbox project. */
    client: (options) => new Ringtrue({ ...clientOptions(base_url, project), ...options }),
    /** A client for Management. */
    manager: (options) => new Ringtrue({ ...clientOptions(base_url, workspace), ...options }),
    /** Runs an operator command. */
    async run(...command) {
      const storage = {
        RINGTRUE_BASE_URL: base_url,
        RINGTRUE_STORE__URL: `sqlite:${join(data, 'ringtrue.db')}`,
        RINGTRUE_KEYS__MASTER_KEY_FILE: join(data, 'master.key'),
      };
      await promisify(execFile)(binary, command, { env: { ...env, ...storage } });
    },
    async kill() {
      running.child.kill('SIGKILL');
      await running.ended;
    },
    async restart() {
      running = await launch(binary, data, port, env);
    },
    async stop() {
      running.child.kill('SIGTERM');
      await running.ended;
      await rm(data, { recursive: true, force: true });
    },
  };
}

function clientOptions(url, { client_id, client_secret }) {
  return { url, clientId: client_id, clientSecret: client_secret, allowSandbox: true };
}

async function launch(binary, data, port, env) {
  const child = spawn(binary, ['dev', '--data', data, '--listen', `127.0.0.1:${port}`], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  // The banner ends with how to stop.
  await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('Ctrl+C')) resolve();
    });
    ended.then((code) => reject(new Error(`ringtrue exited with ${code} before it was ready:\n${text}`)));
  });
  return { child, ended };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
