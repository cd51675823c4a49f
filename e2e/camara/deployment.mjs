// Deployments besides a plain `ringtrue dev`: `ringtrue serve` with a configuration file, and `ringtrue dev` with tokens
// that have expired.
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { manage } from '../sign-in.mjs';

/** Settings of every deployment of these tests. They send more requests than the limits of one user permit. */
export const SETTINGS = {
  RINGTRUE_CAMARA__ENABLED: 'true',
  RINGTRUE_RATE_LIMITS__CREATE: '1000',
  RINGTRUE_RATE_LIMITS__READ: '1000',
  RINGTRUE_RATE_LIMITS__MANAGEMENT: '1000',
  RINGTRUE_RATE_LIMITS__TOKEN: '1000',
  RINGTRUE_RATE_LIMITS__TOKEN_PER_WORKSPACE: '1000',
  RINGTRUE_RATE_LIMITS__DEVICE: '1000',
  RINGTRUE_RATE_LIMITS__FAILED_LOGINS: '1000',
  RINGTRUE_RATE_LIMITS__CONSOLE_PER_SESSION: '1000',
  RINGTRUE_RATE_LIMITS__CONSOLE_PER_WORKSPACE: '1000',
};

/** Of the Debian package `faketime`. The loader expands `$LIB`. */
const FAKETIME_LIBRARY = '/usr/$LIB/faketime/libfaketime.so.1';
/** Longer than any token, code or request lives: a token of the client alone is valid for an hour. */
const PAST_SECONDS = 4_000;

function binary() {
  const path = process.env.BINARY_UNDER_TEST;
  if (!path) throw new Error('BINARY_UNDER_TEST is not set: run `make e2e`');
  return path;
}

/** Starts a process, and waits for the line of its output that `isReady` recognises. */
async function launch(args, env, isReady) {
  const child = spawn(binary(), args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const seen = [];
  const waiting = new Set();
  lines.on('line', (line) => {
    seen.push(line);
    for (const check of waiting) check(line);
  });
  const waitForLine = (accepts) => new Promise((resolve, reject) => {
    const check = (line) => {
      if (!accepts(line)) return;
      waiting.delete(check);
      resolve(line);
    };
    waiting.add(check);
    exited.then(([code]) => reject(new Error(`ringtrue exited with ${code}:\n${seen.slice(-20).join('\n')}`)));
  });
  await waitForLine(isReady);
  return {
    lines: seen,
    waitForLine,
    signal: (name) => child.kill(name),
    async stop() {
      child.kill('SIGTERM');
      const [code] = await exited;
      return code;
    },
  };
}

/** Starts `ringtrue serve` with the sections `toml` of a configuration file, and one workspace. */
export async function startServer(toml, settings = {}) {
  const data = await mkdtemp(join(tmpdir(), 'ringtrue-e2e-'));
  const config = join(data, 'ringtrue.toml');
  const env = {
    RINGTRUE_MASTER_KEY: randomBytes(32).toString('base64'),
    RINGTRUE_STORE__URL: `sqlite:${join(data, 'ringtrue.db')}`,
    RINGTRUE_HTTP__LISTEN: '127.0.0.1:0',
    RINGTRUE_METRICS__LISTEN: 'off',
    ...SETTINGS,
    ...settings,
  };
  const run = (...args) =>
    promisify(execFile)(binary(), [...args, '--config', config], { env: { ...process.env, ...env } });
  await writeFile(config, toml);
  await run('migrate');
  const { stdout } = await run('workspaces', 'create', 'Demo', '--output', 'json');
  const server = await launch(['serve', '--config', config], env, (line) => parse(line).message === 'ready');
  const { base_url } = server.lines.map(parse).find(({ message }) => message === 'ready');
  return {
    base_url,
    workspace: JSON.parse(stdout),
    /** Replaces the sections of the configuration file, of which networks and connectors take effect at once. */
    async reload(changed) {
      await writeFile(config, changed);
      const answered = server.waitForLine((line) => /configuration/.test(parse(line).message));
      server.signal('SIGHUP');
      const { level, message, ...details } = parse(await answered);
      if (level !== 'INFO') throw new Error(`${message}: ${JSON.stringify(details)}`);
    },
    async stop() {
      const code = await server.stop();
      await rm(data, { recursive: true, force: true });
      return code;
    },
  };
}

function parse(line) {
  try {
    const { fields, ...entry } = JSON.parse(line);
    return { ...entry, ...fields };
  } catch {
    return { message: line };
  }
}

/** Starts `ringtrue dev` in the past, has `issue` obtain what is to expire, and starts it again in the present. `issue`
 * gets the deployment and the offset of its clock, in seconds. */
export async function startWithPast(issue, settings = SETTINGS) {
  const data = await mkdtemp(join(tmpdir(), 'ringtrue-e2e-'));
  const start = async (listen, env) => {
    const args = ['dev', '--data', data, '--listen', listen];
    // The banner ends with how to stop; dev.json is written before it.
    const server = await launch(args, env, (line) => line.includes('Ctrl+C'));
    const dev = JSON.parse(await readFile(join(data, 'dev.json'), 'utf8'));
    const [, console_link] = server.lines.join('\n').match(/Console\s+(\S+)/);
    return { ...dev, console_link, stop: server.stop };
  };
  const past = { LD_PRELOAD: FAKETIME_LIBRARY, FAKETIME: `-${PAST_SECONDS}` };
  const before = await start('127.0.0.1:0', { ...settings, ...past });
  let issued;
  try {
    issued = await issue(before, -PAST_SECONDS);
  } finally {
    await before.stop();
  }
  // At the same address, because it is the issuer.
  const now = await start(new URL(before.base_url).host, settings);
  return {
    ...now,
    issued,
    async stop() {
      const code = await now.stop();
      await rm(data, { recursive: true, force: true });
      return code;
    },
  };
}

/** Creates a live project, and permits it all networks. Returns its credential and its id. */
export async function createLiveProject(deployment, { configuration = {}, products }) {
  const project = await manage(deployment, 'POST', '/projects', {
    name: `Live ${randomBytes(4).toString('hex')}`,
    mode: 'live',
    configuration,
    products,
  });
  const networks = [{ network_id: '*', products: ['secure_sna', 'discovery', 'sim_swap'] }];
  await manage(deployment, 'PUT', `/projects/${project.project_id}/allowed-networks`, { networks });
  const [{ client_id, client_secret }] = project.credentials;
  return { client_id, client_secret, project_id: project.project_id };
}
