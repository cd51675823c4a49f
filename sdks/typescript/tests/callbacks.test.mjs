// Callbacks of the real service, modified and forged ones, and the cache of public keys.
import assert from 'node:assert/strict';
import { after, before, mock, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { CallbackError, ConfigurationError, MemoryDeduplicator } from '@ringtrue/server';
import { COMPONENTS, completeCheck, header, startForger, startRecorder, withHeader } from './callbacks.mjs';
import { openSilently } from './phone.mjs';
import { startService } from './service.mjs';

let service;
let ringtrue;
let recorder;
let good;
before(async () => {
  service = await startService();
  ringtrue = service.client();
  recorder = await startRecorder();
  await completeCheck(ringtrue, '+990300000000', recorder.url);
  good = await recorder.next();
});
after(async () => {
  await recorder.stop();
  await service.stop();
});

/** Expects a rejection for a reason, and returns it. */
async function rejects(promise, reason, status = 401) {
  const error = await promise.then(
    () => assert.fail(`${reason}: accepted`),
    (thrown) => thrown,
  );
  assert.ok(error instanceof CallbackError, String(error));
  assert.deepEqual([error.reason, error.status], [reason, status], error.message);
}

/** Requests a callback again. The service may still be recording what the receiver has answered. */
async function resend(checks, id) {
  for (;;) {
    try {
      return await checks.resendCallback(id);
    } catch (error) {
      if (error.errorCode !== 'callback_in_progress') throw error;
      await setTimeout(20);
    }
  }
}

test('callbacks of all kinds are verified', async () => {
  const phone_number = '+990300000002';
  const callback_url = recorder.url;
  const event = await ringtrue.callbacks.verify(good);
  assert.deepEqual([event.kind, event.attempt, event.sandbox], ['reverse_sms', 1, true]);
  assert.deepEqual([event.id, event.data.match], [event.data.check_id, true]);

  for (const [kind, checks] of [
    ['secure_sna', ringtrue.secureSna],
    ['discovery', ringtrue.discovery],
  ]) {
    const check = await checks.create(kind === 'discovery' ? { callback_url } : { phone_number, callback_url });
    const { code } = await openSilently(`${check.url}&sim=%2B990300000002`);
    await checks.redeemCode(check.check_id, code);
    const ended = await ringtrue.callbacks.verify(await recorder.next());
    assert.deepEqual([ended.kind, ended.id, ended.data.status], [kind, check.check_id, 'COMPLETED']);
    const resent = await resend(checks, check.check_id);
    assert.equal(resent.check_id, check.check_id);
    assert.equal((await ringtrue.callbacks.verify(await recorder.next())).id, check.check_id);
  }

  const { verification_id } = await ringtrue.verifications.create({ phone_number, callback_url });
  await ringtrue.verifications.cancel(verification_id);
  const cancelled = await ringtrue.callbacks.verify(await recorder.next());
  assert.deepEqual([cancelled.kind, cancelled.id], ['verification', verification_id]);
  assert.equal(cancelled.data.error_code, 'cancelled');
  await resend(ringtrue.verifications, verification_id);
  assert.equal((await ringtrue.callbacks.verify(await recorder.next())).id, verification_id);
});

test('headers are accepted in all forms of frameworks', async () => {
  const pairs = good.headers.flatMap((name, at) => (at % 2 === 0 ? [[name, good.headers[at + 1]]] : []));
  const lower = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  const lists = Object.fromEntries(pairs.map(([name, value]) => [name, [value]]));
  for (const headers of [pairs, lower, lists, new Headers(pairs)]) {
    assert.ok(await ringtrue.callbacks.verify({ ...good, headers }));
  }
  const { method, target, body } = good;
  const url = new URL(target, recorder.url);
  assert.ok(await ringtrue.callbacks.verify(new Request(url, { method, headers: pairs, body })));
  assert.ok(await ringtrue.callbacks.verify({ ...good, body: body.toString() }));
});

/** Replaces one character by another. */
const swap = (text, at) => text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
const changeHeader = (name, change) => withHeader(good, name, change(header(good, name)));
const changeBody = (from, to) => ({ ...good, body: Buffer.from(good.body.toString().replace(from, to)) });

test('modified callbacks are rejected', async () => {
  const authorization = (change) => changeHeader('authorization', change);
  const atSignature = header(good, 'authorization').indexOf('signature="') + 50;
  const emptyDigest = 'SHA-256=RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=';
  const modified = [
    [changeBody('true', 'trUe'), 'digest_mismatch'],
    [changeBody('"match":true', '"match":false'), 'digest_mismatch'],
    [{ ...good, body: good.body.subarray(1) }, 'digest_mismatch'],
    [{ ...withHeader(good, 'digest', emptyDigest), body: Buffer.from('{}') }, 'signature_invalid'],
    [changeHeader('digest', (text) => swap(text, 12)), 'digest_mismatch'],
    [
      changeHeader('date', (text) => text.replace(/\d(?= GMT)/, (digit) => (Number(digit) + 1) % 10)),
      'signature_invalid',
    ],
    [changeHeader('date', () => 'some day'), 'date_out_of_range'],
    [changeHeader('host', () => 'backend.example'), 'signature_invalid'],
    [changeHeader('x-service-callback', () => 'discovery'), 'signature_invalid'],
    [{ ...good, target: good.target.replace('%2F', '/') }, 'signature_invalid'],
    [{ ...good, target: good.target.replace('order=7', 'order=8') }, 'signature_invalid'],
    [{ ...good, target: good.target.split('?')[0] }, 'signature_invalid'],
    [{ ...good, method: 'PUT' }, 'signature_invalid'],
    [authorization((text) => swap(text, atSignature)), 'signature_invalid'],
    [authorization((text) => `${text.slice(0, -3)}!${text.slice(-3)}`), 'signature_invalid'],
    [authorization((text) => `${text.slice(0, -1)} "`), 'signature_invalid'],
    [authorization((text) => text.split(',signature="')[0]), 'authorization_malformed'],
    [authorization((text) => `${text},signature="AAAA"`), 'authorization_malformed'],
    [authorization((text) => text.replaceAll(',', ', ')), 'authorization_malformed'],
    [authorization(() => 'Bearer 1234'), 'authorization_malformed'],
    [authorization((text) => text.replace('rsa-sha256', 'hmac-sha256')), 'algorithm_unsupported'],
    [authorization((text) => text.replace(' digest', '')), 'components_incomplete'],
    [{ ...good, headers: [...good.headers, 'Date', header(good, 'date')] }, 'header_missing'],
    [{ ...good, headers: [...good.headers, 'Host', 'other'] }, 'header_missing'],
    ...['host', 'date', 'digest', 'authorization', 'x-service-callback'].map((name) => [
      withHeader(good, name),
      'header_missing',
    ]),
  ];
  for (const [request, reason] of modified) await rejects(ringtrue.callbacks.verify(request), reason);
  const unknownKey = authorization((text) => swap(text, 'Signature keyId="'.length));
  await rejects(ringtrue.callbacks.verify(unknownKey), 'key_unknown');
  await rejects(ringtrue.callbacks.verify({ ...good, body: Buffer.alloc(65_537) }), 'body_too_large', 413);
  assert.ok(await ringtrue.callbacks.verify(good), 'the original is still valid');
});

test('the date is checked both ways', async () => {
  const minute = 60_000;
  const at = Date.parse(header(good, 'date'));
  for (const [offset, isAccepted] of [
    [-4.9, true],
    [4.9, true],
    [-5.1, false],
    [5.1, false],
  ]) {
    const result = service.client({ now: () => at + offset * minute }).callbacks.verify(good);
    if (isAccepted) assert.ok(await result);
    else await rejects(result, 'date_out_of_range');
  }
});

test('the public URL restores a path that a proxy changed', async () => {
  const [path, query] = good.target.split('?');
  const publicUrl = `http://${header(good, 'host')}${path}`;
  const target = `/internal?${query}`;
  const proxied = { ...withHeader(good, 'host', 'internal:8080'), target };
  assert.ok(await ringtrue.callbacks.verify(proxied, { publicUrl }));
  assert.ok(await ringtrue.callbacks.verify(proxied, { publicUrl, host: 'backend.example' }), 'in place of the host');
  await rejects(ringtrue.callbacks.verify(proxied, { host: publicUrl }), 'signature_invalid');
  for (const other of [`${publicUrl}/`, `http://backend.example${path}`, publicUrl.replace(path, '')]) {
    await rejects(ringtrue.callbacks.verify(proxied, { publicUrl: other }), 'signature_invalid');
  }
  const altered = { ...proxied, target: '/internal?order=8' };
  await rejects(ringtrue.callbacks.verify(altered, { publicUrl }), 'signature_invalid');
  for (const invalid of ['/callbacks', 'shop.example.com', 'ftp://shop.example.com/', 'https://a b/']) {
    await assert.rejects(ringtrue.callbacks.verify(proxied, { publicUrl: invalid }), ConfigurationError);
  }
});

test('the public host replaces the one of a proxy, and refuses callbacks for others', async () => {
  const host = header(good, 'host');
  const proxied = withHeader(good, 'host', 'internal:8080');
  await rejects(ringtrue.callbacks.verify(proxied), 'signature_invalid');
  assert.ok(await ringtrue.callbacks.verify(proxied, { host }));
  assert.ok(await ringtrue.callbacks.verify(proxied, { host: `http://${host}/callbacks` }));
  assert.ok(await ringtrue.callbacks.verify(withHeader(good, 'host'), { host }), 'HTTP/2 has no Host');
  await rejects(ringtrue.callbacks.verify(good, { host: 'backend.example' }), 'signature_invalid');
});

test('sandbox keys are refused unless allowed', async () => {
  const strict = service.client({ allowSandbox: false });
  await rejects(strict.callbacks.verify(good), 'key_refused');
  const forger = await startForger({ use_mode: 'rehearsal' });
  try {
    await rejects(forger.client({ allowSandbox: true }).callbacks.verify(forger.forge()), 'key_refused');
  } finally {
    await forger.stop();
  }
});

test('a rotated key is fetched', async () => {
  const client = service.client();
  assert.ok(await client.callbacks.verify(good), 'caches the keys');
  const readKeys = async () => (await fetch(`${service.url}/.well-known/jwks.json`)).text();
  const before = await readKeys();
  await service.run('keys', 'rotate', '--purpose', 'sandbox_callback', '--emergency');
  const deadline = Date.now() + 30_000;
  while ((await readKeys()) === before && Date.now() < deadline) await setTimeout(100);
  const id = await completeCheck(ringtrue, '+990300000004', recorder.url);
  const rotated = await recorder.next();
  const keyId = (request) => header(request, 'authorization').split('"')[1];
  assert.notEqual(keyId(rotated), keyId(good));
  assert.equal((await client.callbacks.verify(rotated)).id, id);
  await rejects(client.callbacks.verify(good), 'key_unknown');
});

test('a valid signature with invalid parameters is rejected', async () => {
  const forger = await startForger();
  try {
    const { callbacks } = forger.client();
    const { forge } = forger;
    const event = await callbacks.verify(forge());
    assert.deepEqual([event.sandbox, event.attempt], [false, 1]);
    const reversed = COMPONENTS.split(' ').reverse().join(' ');
    await rejects(callbacks.verify(forge({ components: 'date' })), 'components_incomplete');
    await rejects(callbacks.verify(forge({ components: reversed })), 'components_incomplete');
    await rejects(callbacks.verify(forge({ algorithm: 'hs2019' })), 'algorithm_unsupported');
    await rejects(
      callbacks.verify(forge({ date: new Date(Date.now() - 3_600_000).toUTCString() })),
      'date_out_of_range',
    );
    await rejects(callbacks.verify(forge({ kind: 'toString' })), 'kind_unsupported', 400);
    await rejects(callbacks.verify(forge({ body: 'no JSON' })), 'body_malformed', 400);
    await rejects(callbacks.verify(forge({ body: 'null' })), 'body_malformed', 400);
    await rejects(callbacks.verify(forge({ body: '{"verification_id":"x"}' })), 'body_malformed', 400);
  } finally {
    await forger.stop();
  }
});

test('keys are fetched once for many callbacks, and forged key ids cause no flood', async () => {
  const forger = await startForger();
  let now = 1_000_000;
  const clock = mock.method(performance, 'now', () => now);
  try {
    const { callbacks } = forger.client();
    await Promise.all(Array.from({ length: 20 }, () => callbacks.verify(forger.forge())));
    assert.equal(forger.requests.length, 1);
    const forged = () => rejects(callbacks.verify(forger.forge({ keyId: 'forged' })), 'key_unknown');
    await Promise.all(Array.from({ length: 20 }, forged));
    await forged();
    assert.equal(forger.requests.length, 2, 'one request for unknown keys');
    forger.state.keyIds.push('new');
    now += 30_000;
    // All callbacks with the new key wait for the same request.
    const events = Array.from({ length: 5 }, () => callbacks.verify(forger.forge({ keyId: 'new' })));
    assert.equal((await Promise.all(events)).length, 5);
    assert.equal(forger.requests.length, 3);
  } finally {
    clock.mock.restore();
    await forger.stop();
  }
});

test('Cache-Control decides when keys are fetched again, and an outage keeps the cached ones', async () => {
  const forger = await startForger();
  let now = 1_000_000;
  const clock = mock.method(performance, 'now', () => now);
  const shortest = mock.method(Math, 'random', () => 0);
  try {
    const { state, forge, requests } = forger;
    state.headers = { 'cache-control': 'public, max-age=60' };
    state.isUp = false;
    const { callbacks } = forger.client();
    await rejects(callbacks.verify(forge()), 'keys_unavailable', 503);
    const attempts = requests.length;
    await rejects(callbacks.verify(forge()), 'keys_unavailable', 503);
    assert.equal(requests.length, attempts, 'an outage causes no flood');
    state.isUp = true;
    now += 1_000;
    await callbacks.verify(forge());
    const whenUp = requests.length;
    now += 59_000;
    await callbacks.verify(forge());
    assert.equal(requests.length, whenUp);
    state.isUp = false;
    now += 2_000;
    await callbacks.verify(forge());
    assert.ok(requests.length > whenUp, 'the keys were outdated');
    await rejects(callbacks.verify(forge({ keyId: 'new' })), 'keys_unavailable', 503);
    state.isUp = true;
    state.keyIds = ['new'];
    now += 2_000;
    await callbacks.verify(forge({ keyId: 'new' }));
    await rejects(callbacks.verify(forge()), 'key_unknown');
  } finally {
    clock.mock.restore();
    shortest.mock.restore();
    await forger.stop();
  }
});

test('duplicates are processed once, and failures do not count', async () => {
  const deduplicator = new MemoryDeduplicator();
  const runs = [];
  const process = async () => {
    runs.push('run');
    await setTimeout(10);
    if (runs.length === 1) throw new Error('the database is down');
  };
  await assert.rejects(deduplicator.once('a', process), /database/);
  assert.equal(deduplicator.seen('a'), false);
  const results = await Promise.all([deduplicator.once('a', process), deduplicator.once('a', process)]);
  assert.deepEqual(results, [true, false]);
  assert.equal(deduplicator.seen('a'), true);
  assert.equal(runs.length, 2);
});

test('a delivery takes over if another one fails at the same time', async () => {
  const deduplicator = new MemoryDeduplicator();
  const fail = deduplicator.once('a', async () => {
    throw new Error('failed');
  });
  const second = deduplicator.once('a', async () => {});
  await assert.rejects(fail, /failed/);
  assert.equal(await second, true);
});

test('the memory of ids is bounded', async () => {
  let now = 0;
  const clock = mock.method(performance, 'now', () => now);
  try {
    const deduplicator = new MemoryDeduplicator({ ttl: 1000, maxEntries: 2 });
    for (const id of ['a', 'b', 'c']) await deduplicator.once(id, async () => {});
    assert.deepEqual(
      ['a', 'b', 'c'].map((id) => deduplicator.seen(id)),
      [false, true, true],
    );
    now = 1000;
    assert.equal(deduplicator.seen('c'), false);
  } finally {
    clock.mock.restore();
  }
});
