// Returns of browsers to a shop, with the hosted page of the real service.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ForeignReturnError, SandboxRefusedError } from '@ringtrue/server';
import { Browser, openSilently, sendSms } from './phone.mjs';
import { startService } from './service.mjs';
import { problem, sendJson, startStub } from './stub.mjs';

const redirect_url = 'http://127.0.0.1:9/verified';

let service;
let ringtrue;
before(async () => {
  service = await startService();
  ringtrue = service.client();
});
after(() => service.stop());

/** Starts a verification and runs its silent check. Returns the URL with which the browser comes back. */
async function comeBackSilently(phone_number, input = {}) {
  const created = await ringtrue.verifications.create({ phone_number, redirect_url, ...input });
  return { created, back: new URL(await new Browser().checkSilently(created.url, redirect_url)) };
}

test('a match verifies the number, also when the page is reloaded', async () => {
  const { created, back } = await comeBackSilently('+990200000000');
  const outcome = await ringtrue.verifications.redeem(created.verification_id, back);
  assert.deepEqual([outcome.verified, outcome.open, outcome.reason], [true, false, undefined]);
  assert.equal(outcome.verification.method, 'secure_sna');
  let replayed;
  const onResponse = ({ headers }) => {
    replayed = headers.get('idempotent-replayed');
  };
  const again = await ringtrue.verifications.redeem(created.verification_id, back, { onResponse });
  assert.deepEqual(again, outcome);
  assert.equal(replayed, 'true');
});

test('the query is accepted in all forms of frameworks', async () => {
  const { created, back } = await comeBackSilently('+990200000002');
  const query = Object.fromEntries(back.searchParams);
  const forms = [
    back,
    back.href,
    back.searchParams,
    back.search,
    back.search.slice(1),
    query,
    `/verified${back.search}#x`,
  ];
  for (const form of forms) assert.ok((await ringtrue.verifications.redeem(created, form)).verified, String(form));
});

test('a mismatch does not verify', async () => {
  const { created, back } = await comeBackSilently('+990200000001');
  const outcome = await ringtrue.verifications.redeem(created, back.searchParams);
  assert.deepEqual([outcome.verified, outcome.open, outcome.reason], [false, false, 'no_match']);
});

test('a return of another session is refused before any call', async () => {
  const { created, back } = await comeBackSilently('+990200000004');
  const calls = [];
  const client = service.client({
    fetch: (...call) => {
      calls.push(call);
      return fetch(...call);
    },
  });
  const other = '01a1d9b0-3c4d-7e5f-9061-7b8c9d0e1f2a';
  const twice = `${back.search}&verification_id=${created.verification_id}`;
  const foreign = [
    [other, back],
    [undefined, back],
    [null, back],
    ['', '?verification_id=&code=x'],
    ['', back],
    [created, '?code=x'],
    [created, {}],
    [created, { verification_id: [created.verification_id], code: 'x' }],
    [created, twice],
  ];
  for (const [session, query] of foreign) {
    await assert.rejects(client.verifications.redeem(session, query), ForeignReturnError);
  }
  assert.equal(calls.length, 0);
});

test('a wrong code does not verify, and does not spoil the right one', async () => {
  const { created, back } = await comeBackSilently('+990200000006');
  const query = { verification_id: created.verification_id, code: 'forged' };
  const outcome = await ringtrue.verifications.redeem(created, query);
  assert.deepEqual([outcome.verified, outcome.open, outcome.reason], [false, false, 'code_invalid']);
  assert.ok((await ringtrue.verifications.redeem(created, back)).verified);
  // Also not after the end.
  assert.equal((await ringtrue.verifications.redeem(created, query)).reason, 'code_invalid');
});

test('a return without the code does not verify, whatever has become of the verification', async () => {
  const phone_number = '+990200000008';
  const created = await ringtrue.verifications.create({ phone_number, methods: ['reverse_sms'], redirect_url });
  const query = { verification_id: created.verification_id };
  const open = await ringtrue.verifications.redeem(created, { ...query, error: 'no_match' });
  assert.deepEqual([open.verified, open.open, open.url], [false, true, created.url]);
  const browser = new Browser();
  await sendSms(ringtrue, phone_number, created.next_step);
  const back = await browser.returnLink(created.url, redirect_url);
  const outcome = await ringtrue.verifications.redeem(created, query);
  assert.equal(outcome.verification.match, true);
  assert.deepEqual([outcome.verified, outcome.reason], [false, 'code_missing']);
  assert.ok((await ringtrue.verifications.redeem(created, back)).verified, 'with the code it does');
});

test('reasons come from the service', async () => {
  for (const [form, reason] of [
    ['give_up', 'given_up'],
    ['wrong_number', 'wrong_number'],
  ]) {
    const created = await ringtrue.verifications.create({ phone_number: '+990200000196', redirect_url });
    const browser = new Browser();
    const response = await browser.submit(`${created.url}/end`, { reason: form });
    assert.equal(response.status, 303);
    const back = new URL(await browser.returnLink(created.url, redirect_url));
    assert.equal(back.searchParams.get('error'), reason);
    back.searchParams.set('error', 'expired');
    const outcome = await ringtrue.verifications.redeem(created, back);
    assert.deepEqual([outcome.verified, outcome.open, outcome.reason], [false, false, reason]);
    back.searchParams.set('code', 'forged');
    assert.equal((await ringtrue.verifications.redeem(created, back)).verified, false);
  }
  const created = await ringtrue.verifications.create({ phone_number: '+990200000010', redirect_url });
  await ringtrue.verifications.cancel(created.verification_id);
  const query = { verification_id: created.verification_id, error: 'cancelled' };
  assert.equal((await ringtrue.verifications.redeem(created, query)).reason, 'cancelled');
});

test('a verification that goes on after a mismatch has the URL of its page', async () => {
  const { management } = service.manager();
  const set = (fall_back_on_mismatch) =>
    management.projects.update(service.workspace.workspace_id, service.project.project_id, {
      configuration: { verification: { fall_back_on_mismatch } },
    });
  await set(true);
  try {
    const { created, back } = await comeBackSilently('+990200000003');
    const outcome = await ringtrue.verifications.redeem(created, back);
    assert.deepEqual([outcome.verified, outcome.open, outcome.url], [false, true, created.url]);
    assert.equal(outcome.verification.next_step.method, 'reverse_sms');
  } finally {
    await set(null);
  }
});

test('the result about a SIM change is there', async () => {
  const { created, back } = await comeBackSilently('+990200000012', { sim_swap_period: 1440 });
  const outcome = await ringtrue.verifications.redeem(created, back);
  assert.deepEqual([outcome.verified, outcome.verification.no_sim_change], [true, true]);
});

test('a sandbox project is refused unless allowed', async () => {
  const { created, back } = await comeBackSilently('+990200000014');
  const strict = service.client({ allowSandbox: false });
  await assert.rejects(strict.verifications.redeem(created, back), SandboxRefusedError);
  const query = { verification_id: created.verification_id };
  await assert.rejects(strict.verifications.redeem(created, query), SandboxRefusedError);
  await assert.rejects(strict.verifications.redeem(created, { ...query, code: 'x' }), SandboxRefusedError);
});

const VERIFICATION = {
  verification_id: '01a1d9b0-3c4d-7e5f-9061-7b8c9d0e1f2a',
  methods: ['secure_sna'],
  expires_at: '2026-11-14T09:30:00.123Z',
  created_at: '2026-11-14T09:30:00.123Z',
};
const ASKING = {
  ...VERIFICATION,
  status: 'PENDING',
  url: 'https://verify.example.com/v/x',
  steps: [
    { method: 'secure_sna', status: 'COMPLETED', match: true },
    { method: 'sim_swap', status: 'PENDING' },
  ],
};
const QUERY = { verification_id: VERIFICATION.verification_id, code: 'x' };

test('an open question about a SIM change is awaited', async () => {
  const steps = [ASKING.steps[0], { method: 'sim_swap', status: 'COMPLETED' }];
  const ended = { ...VERIFICATION, status: 'COMPLETED', match: true, method: 'secure_sna', no_sim_change: true, steps };
  const stub = await startStub((_, response, count) => sendJson(response, 200, count < 3 ? ASKING : ended));
  try {
    const outcome = await stub.client().verifications.redeem(VERIFICATION, QUERY);
    assert.ok(outcome.verified);
    assert.deepEqual(
      stub.requests.map(({ method }) => method),
      ['POST', 'GET', 'GET'],
    );
  } finally {
    await stub.stop();
  }
});

for (const [name, query, refusal] of [
  ['without a code', { verification_id: VERIFICATION.verification_id }, undefined],
  ['after a refused code', QUERY, 'check_not_ready'],
]) {
  test(`an open question about a SIM change is awaited ${name}`, async () => {
    const ended = { ...VERIFICATION, status: 'COMPLETED', match: true, steps: [ASKING.steps[0]] };
    let reads = 0;
    const stub = await startStub((request, response) => {
      if (request.method === 'POST') return sendJson(response, 409, problem(409, refusal));
      return sendJson(response, 200, ++reads < 3 ? ASKING : ended);
    });
    try {
      const outcome = await stub.client().verifications.redeem(VERIFICATION, query);
      assert.deepEqual([outcome.verified, outcome.open, reads], [false, false, 3]);
      assert.equal(outcome.reason, refusal ? 'code_invalid' : 'code_missing');
    } finally {
      await stub.stop();
    }
  });
}

test('a code is redeemed without a session, and again', async () => {
  const created = await ringtrue.verifications.create({ phone_number: '+990200000016' });
  const { code } = await openSilently(created.next_step.url);
  for (let attempt = 1; attempt <= 2; attempt++) {
    const verification = await ringtrue.verifications.redeemCode(created.verification_id, code);
    assert.deepEqual([verification.status, verification.match], ['COMPLETED', true]);
  }
  const wrong = ringtrue.verifications.redeemCode(created.verification_id, 'wrong');
  await assert.rejects(wrong, { errorCode: 'code_invalid' });
});

test('a signal ends the wait', async () => {
  const stub = await startStub((_, response) => sendJson(response, 200, ASKING));
  try {
    const signal = AbortSignal.timeout(200);
    await assert.rejects(stub.client().verifications.redeem(VERIFICATION, QUERY, { signal }), { name: 'TimeoutError' });
  } finally {
    await stub.stop();
  }
});

test('other errors of the redemption are thrown', async () => {
  const stub = await startStub((_, response) => sendJson(response, 500, problem(500, 'internal_error')));
  try {
    await assert.rejects(stub.client().verifications.redeem(VERIFICATION, QUERY), { status: 500 });
  } finally {
    await stub.stop();
  }
});

test('an expired verification', async () => {
  const expired = { ...VERIFICATION, status: 'EXPIRED', error_code: 'check_expired', steps: [] };
  const stub = await startStub((request, response) => {
    if (request.method === 'POST') return sendJson(response, 410, problem(410, 'check_expired'));
    return sendJson(response, 200, expired);
  });
  try {
    const outcome = await stub.client().verifications.redeem(VERIFICATION, QUERY);
    assert.deepEqual([outcome.verified, outcome.reason], [false, 'expired']);
  } finally {
    await stub.stop();
  }
});
