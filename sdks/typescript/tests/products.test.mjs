// All products, lists and filters.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ApiError, CodeInvalidError, field, NotFoundError } from '@ringtrue/server';
import { openSilently, sendSms } from './phone.mjs';
import { startService } from './service.mjs';

let service;
let ringtrue;
before(async () => {
  service = await startService();
  ringtrue = service.client();
});
after(() => service.stop());

test('reverse SMS', async () => {
  const phone_number = '+990100000000';
  const created = await ringtrue.reverseSms.create({ phone_number, reference_id: 'one' });
  assert.equal(created.status, 'ACCEPTED');
  await sendSms(ringtrue, phone_number, created);
  const check = await ringtrue.reverseSms.get(created.check_id);
  assert.deepEqual([check.status, check.match, check.reference_id], ['COMPLETED', true, 'one']);
  assert.deepEqual(await ringtrue.reverseSms.list().toArray(), [check]);
});

test('secure SNA', async () => {
  const created = await ringtrue.secureSna.create({ phone_number: '+990100000001' });
  const { code } = await openSilently(created.url);
  await assert.rejects(ringtrue.secureSna.redeemCode(created.check_id, 'wrong'), CodeInvalidError);
  const check = await ringtrue.secureSna.redeemCode(created.check_id, code);
  assert.deepEqual([check.status, check.match], ['COMPLETED', false]);
  assert.deepEqual(await ringtrue.secureSna.get(created.check_id), check);
  assert.deepEqual((await ringtrue.secureSna.list().page()).content, [check]);
});

test('discovery', async () => {
  const created = await ringtrue.discovery.create();
  const { code } = await openSilently(`${created.url}&sim=%2B990100000002`);
  const check = await ringtrue.discovery.redeemCode(created.check_id, code);
  assert.equal(check.phone_number, '+990100000002');
  assert.equal((await ringtrue.discovery.get(created.check_id)).status, 'COMPLETED');
  assert.equal((await ringtrue.discovery.list().toArray()).length, 1);
});

test('SIM swap', async () => {
  const check = await ringtrue.simSwap.create({ phone_number: '+990100000003', period: 10080 });
  assert.deepEqual([check.status, check.no_sim_change], ['COMPLETED', false]);
  assert.deepEqual(await ringtrue.simSwap.get(check.check_id), check);
  assert.deepEqual(await ringtrue.simSwap.list({ search: field('no_sim_change').eq(false) }).toArray(), [check]);
});

test('eligibility of a number and of addresses', async () => {
  const { products } = await ringtrue.eligibility.ofNumber('+990100000004');
  assert.ok(products.some(({ product_id }) => product_id === 'secure_sna'));
  assert.ok((await ringtrue.eligibility.ofAddress('203.0.113.7')).network);
  await assert.rejects(ringtrue.eligibility.ofAddress('198.51.100.7'), { status: 412, errorCode: 'not_mobile_ip' });
  await assert.rejects(ringtrue.eligibility.ofAddress('2001:db8::1'), NotFoundError);
});

test('verifications: next, cancel, list', async () => {
  const created = await ringtrue.verifications.create({ phone_number: '+990 1000-00006', reference_id: 'next' });
  assert.equal(created.next_step.method, 'secure_sna');
  const skipped = await ringtrue.verifications.next(created.verification_id, { method: 'secure_sna' });
  assert.equal(skipped.next_step.method, 'reverse_sms');
  const again = await ringtrue.verifications.next(created.verification_id, { method: 'secure_sna' });
  assert.equal(again.next_step.method, 'reverse_sms', 'a step is skipped once');
  const cancelled = await ringtrue.verifications.cancel(created.verification_id);
  assert.deepEqual([cancelled.status, cancelled.error_code], ['ERROR', 'cancelled']);
  assert.equal((await ringtrue.verifications.cancel(created.verification_id)).error_code, 'cancelled');
  const listed = await ringtrue.verifications.list({ search: 'reference_id==next' }).toArray();
  assert.deepEqual(
    listed.map((item) => item.verification_id),
    [created.verification_id],
  );
});

test('a callback cannot be resent before the end', async () => {
  const callback_url = 'http://127.0.0.1:9/callbacks';
  const phone_number = '+990100000008';
  const { verification_id } = await ringtrue.verifications.create({ phone_number, callback_url });
  await assert.rejects(ringtrue.verifications.resendCallback(verification_id), { errorCode: 'check_still_open' });
  for (const checks of [ringtrue.reverseSms, ringtrue.secureSna, ringtrue.discovery]) {
    const input = checks === ringtrue.discovery ? { callback_url } : { phone_number, callback_url };
    const { check_id } = await checks.create(input);
    await assert.rejects(checks.resendCallback(check_id), { status: 409, errorCode: 'check_still_open' });
  }
});

test('the idempotency key of the caller is sent', async () => {
  const input = { phone_number: '+990100000010' };
  const headers = [];
  const options = { idempotencyKey: 'key-1', onResponse: (response) => headers.push(response.headers) };
  const first = await ringtrue.reverseSms.create(input, options);
  const second = await ringtrue.reverseSms.create(input, options);
  assert.deepEqual(second, first);
  assert.deepEqual(
    headers.map((one) => one.get('idempotent-replayed')),
    [null, 'true'],
  );
  const other = ringtrue.reverseSms.create({ phone_number: '+990100000012' }, options);
  await assert.rejects(other, { status: 422, errorCode: 'idempotency_key_reused' });
});

test('errors have the members of the problem, and neither secrets nor numbers in their text', async () => {
  const error = await ringtrue.reverseSms.create({ phone_number: '+990100000097' }).catch((thrown) => thrown);
  assert.ok(error instanceof ApiError);
  assert.deepEqual([error.status, error.errorCode, error.name], [400, 'mno_not_supported', 'ApiError']);
  assert.ok(error.title && error.detail && error.requestId && error.type.endsWith('/errors/mno_not_supported'));
  assert.ok(error.message.includes(error.requestId) && error.message.includes(error.detail));
  const missing = '01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b';
  const texts = [
    error,
    await ringtrue.eligibility.ofNumber('+990100000094').catch((thrown) => thrown),
    await ringtrue.verifications.create({ phone_number: '0990 100000094' }).catch((thrown) => thrown),
    await ringtrue.reverseSms.get(missing).catch((thrown) => thrown),
  ].map((thrown) => `${thrown.stack}`);
  for (const text of texts) assert.doesNotMatch(text, /10000009|rts_|Bearer|eyJ/);
  assert.match(texts[3], /reverse-sms-checks\/\{check_id\}: 404 check_not_found/);
});

test('invalid ids fail before a call', async () => {
  for (const id of ['', '..', undefined]) {
    await assert.rejects(async () => ringtrue.verifications.get(id), TypeError);
  }
  await assert.rejects(ringtrue.verifications.get('a/../b'), { status: 400 }, 'ids are encoded');
});

test('a list is read lazily, page by page', async () => {
  for (let at = 0; at < 7; at++) {
    await ringtrue.simSwap.create({ phone_number: `+99012000${at}00`, reference_id: `page-${at}` });
  }
  const paths = [];
  const counting = service.client({
    fetch: (url, init) => {
      paths.push(new URL(url).pathname);
      return fetch(url, init);
    },
  });
  const list = counting.simSwap.list({ search: field('reference_id').startsWith('page-'), size: 3 });
  assert.equal(paths.length, 0, 'nothing is fetched before');
  const references = [];
  for await (const { reference_id } of list) {
    references.push(reference_id);
    if (references.length === 1) assert.equal(paths.length, 2, 'a token and one page');
  }
  assert.deepEqual(references, ['page-6', 'page-5', 'page-4', 'page-3', 'page-2', 'page-1', 'page-0']);
  assert.equal(paths.length, 4);
  const { content, page } = await list.page(3);
  assert.deepEqual(page, { size: 3, number: 3, total_pages: 3, total_elements: 7 });
  assert.equal(content[0].reference_id, 'page-0');
  assert.equal((await list.toArray(4)).length, 4);
  assert.deepEqual(await list.toArray(0), []);
  assert.deepEqual(await ringtrue.simSwap.list({ search: field('reference_id').eq('none') }).toArray(), []);
});

const TEXTS = [
  ...[
    'two words',
    "it's",
    '"quoted"',
    `both ' and "`,
    'back\\slash',
    'a\\"b',
    'ends in \\',
    'a,b;c',
    '(x)',
    'a=b',
    '!~<>',
  ],
  ...['%_', 'and', 'ü漢🙂', '12', 'with*star', '*', 'a+b&c', '\\*'],
];

test('filters find values with special characters, and only these', async () => {
  const byReference = (search) => ringtrue.simSwap.list({ search }).toArray();
  for (const [at, text] of TEXTS.entries()) {
    const phone_number = `+9901300${String(at).padStart(3, '0')}00`;
    await ringtrue.simSwap.create({ phone_number, reference_id: `q ${text}` });
  }
  for (const text of TEXTS) {
    const value = `q ${text}`;
    const expected = [value];
    const filters = [field('reference_id').eq(value), field('reference_id').in([value, 'none'])];
    filters.push(field('reference_id').ge(value).and(field('reference_id').le(value)));
    for (const filter of filters) {
      const found = (await byReference(filter)).map(({ reference_id }) => reference_id);
      assert.deepEqual(found, expected, String(filter));
    }
  }
  assert.equal((await byReference(field('reference_id').startsWith('q *'))).length, 1, 'a literal star');
  assert.equal((await byReference(field('reference_id').like('q *'))).length, TEXTS.length);
  const withoutA = field('reference_id').like('q *').and(field('reference_id').notLike('q a*'));
  assert.equal((await byReference(withoutA)).length, TEXTS.filter((text) => !text.startsWith('a')).length);
  const others = field('reference_id')
    .like('q *')
    .and(field('reference_id').out(['q 12', 'q *']));
  assert.equal((await byReference(others)).length, TEXTS.length - 2);
});

test('filters combine, and accept dates and truth values', async () => {
  const now = new Date();
  await ringtrue.reverseSms.create({ phone_number: '+990140000000', reference_id: 'combined' });
  const count = async (search) => (await ringtrue.reverseSms.list({ search }).page()).page.total_elements;
  const isOne = field('reference_id').eq('combined');
  const minute = 60_000;
  const [past, future] = [new Date(now.getTime() - 60 * minute), new Date(now.getTime() + 60 * minute)];
  assert.equal(await count(isOne.and(field('created_at').gt(past), field('created_at').lt(future))), 1);
  assert.equal(await count(isOne.and(field('created_at').gt(future))), 0);
  assert.equal(await count(isOne.and(field('verified').eq(true))), 0);
  const isOpenOrVerified = field('status').in(['ACCEPTED', 'PENDING']).or(field('verified').eq(true));
  assert.equal(await count(isOpenOrVerified.and(isOne)), 1);
  assert.equal(await count(isOne.and(isOpenOrVerified)), 1);
  const text = '(status=in=("ACCEPTED","PENDING"),verified=="true");reference_id=="combined"';
  assert.equal(String(isOpenOrVerified.and(isOne)), text);
  await assert.rejects(count('status=='), { errorCode: 'search_invalid' });
  assert.throws(() => field('status==a;x'), TypeError);
  assert.throws(() => field('status').in([]), TypeError);
});
