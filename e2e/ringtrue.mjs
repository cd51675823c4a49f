// Starts `ringtrue dev` for a test, with its own data folder and port.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

// `settings` are environment variables (`RINGTRUE_SECTION__NAME`).
export async function startRingtrue(settings = {}) {
  const binary = process.env.BINARY_UNDER_TEST;
  if (!binary) throw new Error('BINARY_UNDER_TEST is not set: run `make e2e`');
  const data = await mkdtemp(join(tmpdir(), 'ringtrue-e2e-'));
  const child = spawn(binary, ['dev', '--data', data, '--listen', '127.0.0.1:0'], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  // The banner ends with how to stop; dev.json is written before it.
  const banner = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('Ctrl+C')) resolve(text);
    });
    ended.then((code) => reject(new Error(`ringtrue exited with ${code} before it was ready:\n${text}`)));
  });
  const dev = JSON.parse(await readFile(join(data, 'dev.json'), 'utf8'));
  return {
    ...dev,
    // Single-use sign-in link.
    console_link: banner.match(/Console\s+(\S+)/)[1],
    // Runs an operator command and returns its JSON output.
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
