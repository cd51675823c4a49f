// Callbacks of the real service, received with the frameworks.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MemoryDeduplicator } from '@ringtrue/server';
import { callbackHandler as expressHandler } from '@ringtrue/server/express';
import { callbackPlugin } from '@ringtrue/server/fastify';
import { callbackHandler as webHandler } from '@ringtrue/server/next';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { Hono } from 'hono';
import { completeCheck, replay, startRecorder, withHeader } from './callbacks.mjs';
import { startService } from './service.mjs';

const folder = fileURLToPath(new URL('..', import.meta.url));

let service;
let ringtrue;
let recorder;
before(async () => {
  service = await startService();
  ringtrue = service.client();
  recorder = await startRecorder();
});
after(async () => {
  await recorder.stop();
  await service.stop();
});

async function listen(server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () => new Promise((resolve) => server.close(resolve).closeAllConnections());
  return { port: server.address().port, stop };
}

/** Serves a function of `Request` and `Response` with `node:http`, as adapters of runtimes do. */
function serveWeb(handle) {
  return createServer(async (request, response) => {
    const url = `http://${request.headers.host}${request.url}`;
    const headers = new Headers();
    for (let at = 0; at < request.rawHeaders.length; at += 2) headers.append(...request.rawHeaders.slice(at, at + 2));
    const hasBody = request.method !== 'GET';
    const result = await handle(
      new Request(url, { method: request.method, headers, ...(hasBody && { body: request, duplex: 'half' }) }),
    );
    response.writeHead(result.status);
    response.end(await result.text());
  });
}

/** Servers that pass verified events to `listener` and rejections to `onRejected`. */
const SERVERS = {
  'Express 5': (listener, options) => {
    const app = express();
    const router = express.Router();
    router.post('/call%2Fbacks', expressHandler(ringtrue, listener, options));
    app.use('/mounted', router);
    app.use(express.json());
    app.use((_error, _request, response, _next) => response.status(500).end());
    return listen(createServer(app));
  },
  'Express 4, with express.raw': (listener, options) => {
    const app = express4();
    app.use(express4.raw({ type: '*/*', limit: '1mb' }));
    app.post('/mounted/call%2Fbacks', expressHandler(ringtrue, listener, options));
    app.use((_error, _request, response, _next) => response.status(500).end());
    return listen(createServer(app));
  },
  'node:http': (listener, options) => listen(createServer(expressHandler(ringtrue, listener, options))),
  Fastify: async (listener, options) => {
    const app = fastify();
    app.post('/json', async (request) => request.body);
    await app.register(callbackPlugin(ringtrue, listener, { ...options, path: '/mounted/*' }));
    await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address();
    const parsed = await fetch(`http://127.0.0.1:${port}/json`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
    assert.deepEqual(await parsed.json(), { a: 1 }, 'other routes keep their parsers');
    return { port, stop: () => app.close() };
  },
  Hono: (listener, options) => {
    const handler = webHandler(ringtrue, listener, options);
    const app = new Hono();
    app.post('/mounted/*', (context) => handler(context.req.raw));
    app.onError((_error, context) => context.text('', 500));
    return listen(serveWeb(app.fetch));
  },
};

for (const [name, start] of Object.entries(SERVERS)) {
  test(`${name}: callbacks are received, rejected and deduplicated`, async (context) => {
    // An adapter without a framework reports failed listeners here.
    context.mock.method(console, 'error', () => {});
    const events = [];
    const rejections = [];
    let waiting;
    let isBroken = false;
    const listener = async (event) => {
      if (isBroken) throw new Error('the database is down');
      events.push(event);
      waiting?.(event);
    };
    const options = { deduplicator: new MemoryDeduplicator(), onRejected: ({ reason }) => rejections.push(reason) };
    const { port, stop } = await start(listener, options);
    try {
      const received = new Promise((resolve) => {
        waiting = resolve;
      });
      const url = `http://127.0.0.1:${port}/mounted/call%2Fbacks?order=7&note=%C3%A9`;
      const id = await completeCheck(ringtrue, '+990400000000', url);
      const event = await received;
      assert.deepEqual([event.id, event.kind, event.data.match], [id, 'reverse_sms', true]);

      // The next one is recorded, and sent with changes.
      const path = '/mounted/call%2Fbacks?order=7&note=%C3%A9';
      const recordedUrl = recorder.url.replace(/\/call.*/, path);
      const nextId = await completeCheck(ringtrue, '+990400000002', recordedUrl);
      const recorded = await recorder.next();
      isBroken = true;
      assert.equal((await replay(recorded, port)).status, 500, 'a failed listener');
      isBroken = false;
      const modified = { ...recorded, body: Buffer.from(recorded.body.toString().replace('true', 'fals')) };
      assert.deepEqual(await replay(modified, port), { status: 401, text: 'digest_mismatch' });
      assert.equal((await replay(withHeader(recorded, 'date'), port)).status, 401);
      assert.equal((await replay({ ...recorded, body: Buffer.alloc(300_000) }, port)).status, 413);
      assert.equal((await replay({ ...recorded, body: Buffer.alloc(0) }, port)).status, 401);
      assert.deepEqual(rejections, ['digest_mismatch', 'header_missing', 'body_too_large', 'digest_mismatch']);
      for (let times = 0; times < 3; times++) assert.deepEqual(await replay(recorded, port), { status: 200, text: '' });
      assert.deepEqual(
        events.map((one) => one.id),
        [id, nextId],
        'processed once',
      );
    } finally {
      await stop();
    }
  });
}

test('Express: a body that was parsed before is reported to the developer', async () => {
  const app = express();
  app.use(express.json());
  app.post(
    '/callbacks',
    expressHandler(ringtrue, () => {}),
  );
  let reported;
  app.use((error, _request, response, _next) => {
    reported = error;
    response.status(500).end();
  });
  const { port, stop } = await listen(createServer(app));
  try {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${port}/callbacks`, { method: 'POST', headers, body: '{}' });
    assert.equal(response.status, 500);
    assert.match(reported.message, /before express\.json\(\)/);
  } finally {
    await stop();
  }
});

test('CommonJS: the adapters work with the client', async () => {
  const require = createRequire(import.meta.url);
  const { Ringtrue } = require('@ringtrue/server');
  const { callbackHandler } = require('@ringtrue/server/express');
  const { client_id: clientId, client_secret: clientSecret } = service.project;
  const client = new Ringtrue({ url: service.url, clientId, clientSecret, allowSandbox: true });
  const events = [];
  const { port, stop } = await listen(createServer(callbackHandler(client, (event) => void events.push(event))));
  try {
    await completeCheck(client, '+990400000004', recorder.url);
    const recorded = await recorder.next();
    assert.equal((await replay(recorded, port)).status, 200);
    assert.equal((await replay(withHeader(recorded, 'digest'), port)).status, 401);
    assert.equal(events.length, 1);
    assert.equal(typeof require('@ringtrue/server/fastify').callbackPlugin, 'function');
    assert.equal(typeof require('@ringtrue/server/next').callbackHandler, 'function');
  } finally {
    await stop();
  }
});

test('Next.js: a route handler receives callbacks', async () => {
  // Inside this folder, because Next.js does not follow links to packages outside its root.
  await mkdir(join(folder, 'node_modules/.cache'), { recursive: true });
  const app = await mkdtemp(join(folder, 'node_modules/.cache/next-'));
  const { client_id, client_secret } = service.project;
  try {
    await mkdir(join(app, 'app/callbacks'), { recursive: true });
    await mkdir(join(app, 'node_modules/@ringtrue'), { recursive: true });
    await symlink(folder, join(app, 'node_modules/@ringtrue/server'));
    await writeFile(join(app, 'package.json'), '{ "private": true }');
    await writeFile(join(app, 'next.config.mjs'), `export default { turbopack: { root: ${JSON.stringify(folder)} } };`);
    const layout = 'export default ({ children }) => <html lang="en"><body>{children}</body></html>;';
    await writeFile(join(app, 'app/layout.jsx'), layout);
    const route = `
      import { appendFile } from 'node:fs/promises';
      import { Ringtrue } from '@ringtrue/server';
      import { callbackHandler } from '@ringtrue/server/next';
      const ringtrue = new Ringtrue({ allowSandbox: true });
      export const POST = callbackHandler(ringtrue, (event) => appendFile('events', event.id + '\\n'));
    `;
    await writeFile(join(app, 'app/callbacks/route.js'), route);
    const env = {
      ...process.env,
      NEXT_TELEMETRY_DISABLED: '1',
      RINGTRUE_URL: service.url,
      RINGTRUE_CLIENT_ID: client_id,
      RINGTRUE_CLIENT_SECRET: client_secret,
    };
    const next = join(folder, 'node_modules/next/dist/bin/next');
    const child = spawn('node', [next, 'dev', '--port', '0', '--hostname', '127.0.0.1'], {
      cwd: app,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    try {
      const port = await new Promise((resolve, reject) => {
        let text = '';
        child.stdout.on('data', (chunk) => {
          text += chunk;
          const found = /127\.0\.0\.1:(\d+)/.exec(text);
          if (found && text.includes('Ready')) resolve(Number(found[1]));
        });
        ended.then(() => reject(new Error(text)));
      });
      const id = await completeCheck(ringtrue, '+990400000006', recorder.url.replace(/\/call.*/, '/callbacks?order=7'));
      const recorded = await recorder.next();
      assert.deepEqual(await replay(recorded, port), { status: 200, text: '' });
      assert.equal((await replay(withHeader(recorded, 'date'), port)).status, 401);
      assert.equal(await readFile(join(app, 'events'), 'utf8'), `${id}\n`);
    } finally {
      child.kill('SIGTERM');
      await ended;
    }
  } finally {
    await rm(app, { recursive: true, force: true });
  }
});
