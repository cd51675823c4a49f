// Tokens, retries, time-outs and cancellation, with the real service and with a stub.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import {
  AuthenticationError,
  ConfigurationError,
  ConnectionError,
  RateLimitError,
  Ringtrue,
  RingtrueError,
  SandboxRefusedError,
} from '@ringtrue/server';
import { startService } from './service.mjs';
import { problem, sendJson, startStub } from './stub.mjs';

const CHECK = {
  check_id: '01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b',
  status: 'ACCEPTED',
  created_at: '2026-11-14T09:30:00.123Z',
};

let service;
before(async () => {
  service = await startService();
});
after(() => service.stop());

/** A `fetch` that records the path of each call. */
function recordingFetch() {
  const calls = [];
  const record = (url, init) => {
    calls.push({ path: new URL(url).pathname, authorization: init.headers.authorization });
    return fetch(url, init);
  };
  return { calls, fetch: record };
}

/** Runs a test with a stub. */
async function withStub(respond, run) {
  const stub = await startStub(respond);
  try {
    await run(stub);
  } finally {
    await stub.stop();
  }
}

test('fifty calls at once request one token for each scope', async () => {
  const recorder = recordingFetch();
  const client = service.client({ fetch: recorder.fetch });
  const reads = Array.from({ length: 25 }, () => [client.verifications.list().page(), client.simSwap.list().page()]);
  await Promise.all(reads.flat());
  assert.equal(recorder.calls.filter(({ path }) => path === '/oauth2/token').length, 2);
  assert.equal(recorder.calls.length, 52);
});

test('a revoked token is renewed once for all calls', async () => {
  const recorder = recordingFetch();
  const client = service.client({ fetch: recorder.fetch });
  await client.verifications.list().page();
  const token = recorder.calls.at(-1).authorization.slice('Bearer '.length);
  const { client_id, client_secret } = service.project;
  const revoked = await fetch(`${service.url}/oauth2/revoke`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ token }),
  });
  assert.equal(revoked.status, 200);
  await Promise.all(Array.from({ length: 10 }, () => client.verifications.list().page()));
  assert.equal(recorder.calls.filter(({ path }) => path === '/oauth2/token').length, 2);
});

test('a second 401 is the error', async () => {
  const respond = (_, response) => sendJson(response, 401, problem(401, 'unauthorized'));
  await withStub(respond, async ({ client, requests }) => {
    await assert.rejects(client().verifications.list().page(), AuthenticationError);
    assert.equal(requests.length, 2);
  });
});

test('a wrong secret is reported once, without the secret', async () => {
  const recorder = recordingFetch();
  const client = service.client({ clientSecret: 'rts_wrong', fetch: recorder.fetch });
  const error = await client.simSwap
    .list()
    .page()
    .catch((thrown) => thrown);
  assert.ok(error instanceof AuthenticationError && error instanceof RingtrueError);
  assert.equal(error.status, 401);
  assert.equal(recorder.calls.length, 1);
  assert.ok(!inspect(error, { depth: 9 }).includes('rts_wrong'));
});

test('secrets and tokens are not shown with the client', async () => {
  const client = service.client();
  await client.simSwap.list().page();
  const shown = inspect(client, { depth: 9, showHidden: true }) + JSON.stringify(client) + String(client);
  assert.doesNotMatch(shown, /rts_|eyJ|Basic|Bearer/);
});

test('a missing option names the variable', () => {
  assert.throws(() => new Ringtrue({ clientId: 'a', clientSecret: 'b' }), { message: /RINGTRUE_URL is not set/ });
  assert.throws(() => new Ringtrue({ url: service.url, clientSecret: 'b' }), /RINGTRUE_CLIENT_ID is not set/);
  assert.throws(() => new Ringtrue({ url: service.url, clientId: 'a' }), /RINGTRUE_CLIENT_SECRET is not set/);
  for (const url of ['example.com', 'ftp://example.com', 'https://a b', 'https://example.com/?a', '']) {
    assert.throws(() => new Ringtrue({ url, clientId: 'a', clientSecret: 'b' }), ConfigurationError);
  }
});

test('options come from the environment', async () => {
  const names = ['RINGTRUE_URL', 'RINGTRUE_CLIENT_ID', 'RINGTRUE_CLIENT_SECRET'];
  const { client_id, client_secret } = service.project;
  for (const [at, value] of [`${service.url}/`, client_id, client_secret].entries()) process.env[names[at]] = value;
  try {
    await new Ringtrue({ allowSandbox: true }).verifications.list().page();
  } finally {
    for (const name of names) delete process.env[name];
  }
});

test('a sandbox project is refused unless allowed, and so is a response without a mode', async () => {
  const client = service.client({ allowSandbox: false });
  await assert.rejects(client.verifications.create({ phone_number: '+990160000000' }), SandboxRefusedError);
  await assert.rejects(client.simSwap.list().page(), /the project is in sandbox mode/);
  const respond = (_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end('{}');
  };
  await withStub(respond, async (stub) => {
    await assert.rejects(stub.client().simSwap.get(CHECK.check_id), /no X-Project-Mode/);
  });
});

test('429 is retried after Retry-After', async () => {
  const limited = await startService({ RINGTRUE_RATE_LIMITS__CREATE: '2' });
  try {
    const recorder = recordingFetch();
    const client = limited.client({ fetch: recorder.fetch, maxRetries: 10 });
    const create = (_, at) => client.simSwap.create({ phone_number: `+9901700000${at}0` });
    const checks = await Promise.all(Array.from({ length: 6 }, create));
    assert.equal(new Set(checks.map(({ check_id }) => check_id)).size, 6);
    assert.ok(recorder.calls.length > 7, 'some were refused at first');
    const hasty = limited.client({ maxRetries: 0 });
    const results = await Promise.allSettled(
      Array.from({ length: 6 }, (_, at) => hasty.simSwap.create({ phone_number: `+9901800000${at}0` })),
    );
    const errors = results.flatMap(({ reason }) => reason ?? []);
    assert.ok(errors.length > 0);
    for (const error of errors) assert.ok(error instanceof RateLimitError && error.retryAfter >= 1, String(error));
  } finally {
    await limited.stop();
  }
});

test('the service is killed and restarted in mid-call: one check is created', async () => {
  const killed = await startService();
  try {
    let restarted;
    const interrupted = killed.client({
      maxRetries: 30,
      async fetch(url, init) {
        if (restarted || !String(url).endsWith('-checks')) return fetch(url, init);
        // The request is processed, and the response is lost.
        const response = await fetch(url, init);
        assert.equal(response.status, 201);
        await killed.kill();
        restarted = killed.restart();
        throw new TypeError('fetch failed');
      },
    });
    const check = await interrupted.reverseSms.create({ phone_number: '+990190000000' });
    await restarted;
    const listed = await killed.client().reverseSms.list().toArray();
    assert.deepEqual(
      listed.map(({ check_id }) => check_id),
      [check.check_id],
    );
  } finally {
    await killed.stop();
  }
});

test('failures are retried with the same idempotency key', async (context) => {
  // The shortest backoff.
  context.mock.method(Math, 'random', () => 0);
  const respond = (request, response, count) => {
    if (count === 1) return sendJson(response, 503, problem(503, 'service_unavailable'), { 'retry-after': '0' });
    if (count === 2) return request.socket.destroy();
    if (count === 3) return sendJson(response, 502, {});
    if (count === 4) return sendJson(response, 409, problem(409, 'idempotency_in_progress'));
    // Cut off in the middle of the body.
    if (count === 5) {
      response.writeHead(201, { 'content-length': '1000', 'x-project-mode': 'live' });
      response.write('{');
      return setImmediate(() => request.socket.destroy());
    }
    return sendJson(response, 201, CHECK);
  };
  await withStub(respond, async ({ client, requests }) => {
    const check = await client({ maxRetries: 5 }).reverseSms.create({ phone_number: '+990100000000' });
    assert.deepEqual(check, CHECK);
    assert.equal(requests.length, 6);
    assert.equal(new Set(requests.map(({ headers }) => headers['idempotency-key'])).size, 1);
    assert.match(requests[0].headers['idempotency-key'], /^[0-9a-f-]{36}$/);
    assert.equal(new Set(requests.map(({ body }) => body)).size, 1);
  });
});

test('the number of retries is limited', async () => {
  const respond = (_, response) => sendJson(response, 503, problem(503, 'service_unavailable'), { 'retry-after': '0' });
  await withStub(respond, async ({ client, requests }) => {
    await assert.rejects(client().simSwap.get(CHECK.check_id), { status: 503, retryAfter: 0 });
    assert.equal(requests.length, 3);
    await assert.rejects(client().simSwap.get(CHECK.check_id, { maxRetries: 0 }), { status: 503 });
    assert.equal(requests.length, 4);
  });
});

test('a long Retry-After is the error at once', async () => {
  const respond = (_, response) => sendJson(response, 429, problem(429, 'too_many_requests'), { 'retry-after': '600' });
  await withStub(respond, async ({ client, requests }) => {
    await assert.rejects(client().simSwap.get(CHECK.check_id), { name: 'RateLimitError', retryAfter: 600 });
    assert.equal(requests.length, 1);
  });
});

test('other errors are not retried', async () => {
  for (const status of [400, 403, 404, 409, 410, 422, 500, 501]) {
    const respond = (_, response) => sendJson(response, status, problem(status, 'some_error'));
    await withStub(respond, async ({ client, requests }) => {
      await assert.rejects(client().simSwap.create({ phone_number: '+990100000000' }), { status });
      assert.equal(requests.length, 1);
    });
  }
});

test('calls that must not be repeated are retried after 429 only', async () => {
  const respond = (request, response, count) => {
    if (count === 1) return sendJson(response, 429, problem(429, 'too_many_requests'), { 'retry-after': '0' });
    return request.socket.destroy();
  };
  const calls = [
    (client) => client.secureSna.redeemCode(CHECK.check_id, 'code'),
    (client) => client.management.projects.update('w', 'p', { name: 'x' }),
    (client) => client.management.allowedNetworks.replace('w', 'p', {}),
    (client) => client.management.workspaceCredentials.delete('w', 'c'),
    (client) => client.sandbox.sendSms({ from: '+990100000000', to: '+990100000001', body: 'x' }),
  ];
  for (const call of calls) {
    await withStub(respond, async ({ client, requests }) => {
      await assert.rejects(call(client()), ConnectionError);
      assert.equal(requests.length, 2);
    });
  }
});

test('a response that takes too long is a connection error', async () => {
  await withStub(
    () => {},
    async ({ client, requests }) => {
      const error = await client({ timeout: 50, maxRetries: 1 })
        .simSwap.get(CHECK.check_id)
        .catch((thrown) => thrown);
      assert.ok(error instanceof ConnectionError && error.timedOut);
      assert.equal(error.message, 'GET /v1/sim-swap-checks/{check_id}: timed out');
      assert.equal(requests.length, 2);
    },
  );
});

test('calls that ask an operator have more time, unless the caller set one', async (context) => {
  const ended = { verification_id: 'v', status: 'COMPLETED', match: true, steps: [] };
  const respond = (_, response) => sendJson(response, 200, ended);
  const timers = context.mock.method(globalThis, 'setTimeout');
  const LIMITS = [3_456, 4_567, 10_000, 20_000];
  /** The time-outs of the calls. Timers of the platform have other lengths. */
  const timesOf = async (client, options) => {
    const times = [];
    const calls = [
      () => client.verifications.redeem('v', { verification_id: 'v', code: 'x' }, options),
      () => client.simSwap.create({ phone_number: '+990100000000' }, options),
      () => client.simSwap.get('v', options),
    ];
    // The tokens come first, because their requests have a time-out, too.
    for (const call of calls) await call();
    for (const call of calls) {
      timers.mock.resetCalls();
      await call();
      times.push(timers.mock.calls.map(({ arguments: [, time] }) => time).filter((time) => LIMITS.includes(time)));
    }
    return times;
  };
  await withStub(respond, async ({ client }) => {
    assert.deepEqual(await timesOf(client()), [[20_000], [20_000], [10_000]]);
    assert.deepEqual(await timesOf(client({ timeout: 3_456 })), [[3_456], [3_456], [3_456]]);
    assert.deepEqual(await timesOf(client({ timeout: 3_456 }), { timeout: 4_567 }), [[4_567], [4_567], [4_567]]);
  });
});

test('a refused connection names its cause, and no URL', async () => {
  const stub = await startStub(() => {});
  await stub.stop();
  const error = await stub
    .client({ maxRetries: 0 })
    .eligibility.ofNumber('+990100000000')
    .catch((thrown) => thrown);
  assert.equal(error.message, 'POST /oauth2/token: connection failed: ECONNREFUSED');
  assert.equal(error.timedOut, false);
});

test('a failed call with a number in its URL does not show it', async () => {
  const client = service.client({
    maxRetries: 0,
    fetch: (url, init) =>
      String(url).includes('eligibility') ? Promise.reject(new TypeError(`cannot fetch ${url}`)) : fetch(url, init),
  });
  const error = await client.eligibility.ofNumber('+990100000000').catch((thrown) => thrown);
  assert.ok(error instanceof ConnectionError);
  assert.ok(!inspect(error, { depth: 9 }).includes('990100000000'));
});

test('a signal cancels the call, its retries and the wait for a token', async () => {
  const respond = (_, response) =>
    sendJson(response, 503, problem(503, 'service_unavailable'), { 'retry-after': '20' });
  await withStub(respond, async ({ client, requests }) => {
    const controller = new AbortController();
    const waiting = client().simSwap.get(CHECK.check_id, { signal: controller.signal });
    const reason = new Error('the user left');
    setTimeout(() => controller.abort(reason), 100);
    await assert.rejects(waiting, reason);
    assert.equal(requests.length, 1);
    const aborted = client().simSwap.get(CHECK.check_id, { signal: AbortSignal.abort(reason) });
    await assert.rejects(aborted, reason);
    assert.equal(requests.length, 1);
  });
  await withStub(
    () => {},
    async ({ client }) => {
      const hanging = client().simSwap.get(CHECK.check_id, { signal: AbortSignal.timeout(100) });
      await assert.rejects(hanging, { name: 'TimeoutError' });
    },
  );
});

test('a cancelled call does not cancel the token request of others', async () => {
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  const client = service.client({
    async fetch(url, init) {
      if (String(url).endsWith('/oauth2/token')) await held;
      return fetch(url, init);
    },
  });
  const controller = new AbortController();
  const first = client.simSwap.list({ signal: controller.signal }).page();
  const second = client.simSwap.list().page();
  controller.abort();
  await assert.rejects(first, { name: 'AbortError' });
  release();
  assert.ok(await second);
});

test('a token is renewed shortly before its end', async () => {
  const lives = [1, 3600];
  const tokens = [];
  const client = service.client({
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (!String(url).endsWith('/oauth2/token')) return response;
      tokens.push(1);
      return Response.json({ ...(await response.json()), expires_in: lives.shift() });
    },
  });
  await client.simSwap.list().page();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await client.simSwap.list().page();
  await client.simSwap.list().page();
  assert.equal(tokens.length, 2);
});

test('redirects are not followed', async () => {
  const respond = (_, response) => {
    response.writeHead(307, { location: 'http://127.0.0.1:9/' });
    response.end();
  };
  await withStub(respond, async ({ client }) => {
    await assert.rejects(client().simSwap.get(CHECK.check_id), { name: 'ApiError', status: 307 });
  });
});

test('a malformed response is not quoted', async () => {
  const respond = (_, response) => {
    response.writeHead(200, { 'x-project-mode': 'live' });
    response.end('eyJ-token');
  };
  await withStub(respond, async ({ client }) => {
    const error = await client()
      .simSwap.get(CHECK.check_id)
      .catch((thrown) => thrown);
    assert.equal(error.message, 'GET /v1/sim-swap-checks/{check_id}: the response is not JSON');
    assert.ok(error instanceof ConnectionError && !inspect(error).includes('eyJ'));
  });
});

test('an invalid idempotency key fails before a call', async () => {
  const create = service.client().simSwap.create({ phone_number: '+990100000000' }, { idempotencyKey: 'a b' });
  await assert.rejects(create, TypeError);
});

test('a body that is no problem still gives a typed error', async () => {
  for (const body of ['<html>', 'null', '[]']) {
    const respond = (_, response) => {
      response.writeHead(404);
      response.end(body);
    };
    await withStub(respond, async ({ client }) => {
      const error = await client()
        .simSwap.get(CHECK.check_id)
        .catch((thrown) => thrown);
      assert.deepEqual([error.name, error.status, error.errorCode], ['NotFoundError', 404, 'unknown_error']);
    });
  }
});
