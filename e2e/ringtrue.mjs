// Starts the real binary for a test, as a newcomer does: `ringtrue dev`, with a data folder and a port of its own.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

// `settings`: what is set otherwise than by default, as in the environment (`RINGTRUE_SECTION__NAME`).
export async function startRingtrue(settings = {}) {
  const binary = process.env.BINARY_UNDER_TEST;
  if (!binary) throw new Error('BINARY_UNDER_TEST is not set: run `make e2e`');
  const data = await mkdtemp(join(tmpdir(), 'ringtrue-e2e-'));
  const child = spawn(binary, ['dev', '--data', data, '--listen', '127.0.0.1:0'], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  // The greeting ends with a curl; by then dev.json is written.
  const greeting = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('curl')) resolve(text);
    });
    ended.then((code) => reject(new Error(`ringtrue ended with ${code} before it was ready:\n${text}`)));
  });
  const dev = JSON.parse(await readFile(join(data, 'dev.json'), 'utf8'));
  return {
    ...dev,
    // Signs in to the console, once.
    console_link: greeting.match(/Console\s+(\S+)/)[1],
    // A command of whoever runs this deployment; what it says as JSON.
    async run(...command) {
      const env = {
        ...process.env,
        RINGTRUE_BASE_URL: dev.base_url,
        RINGTRUE_STORE__URL: `sqlite:${join(data, 'ringtrue.db')}`,
        RINGTRUE_KEYS__MASTER_KEY_FILE: join(data, 'master.key'),
      };
      const { stdout } = await promisify(execFile)(binary, [...command, '--output', 'json'], { env });
      return JSON.parse(stdout);
    },
    async stop() {
      child.kill('SIGTERM');
      const code = await ended;
      await rm(data, { recursive: true, force: true });
      return code;
    },
  };
}
