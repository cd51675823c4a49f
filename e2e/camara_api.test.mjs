// Ringtrue as a CAMARA operator: Number Verification and SIM Swap. The same behaviour as in CAMARA's test definitions, which
// camara_features.test.mjs runs where they exist. camara_tokens.test.mjs has the tokens.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  CHECK, CIBA, CamaraClient, JWT_BEARER, NOT_BY_NETWORK, OPERATIONS, RETRIEVE_DATE, SHARE, SIM_SWAP, VERIFY,
  createCamaraClient, hash, read, scoped,
} from './camara/api-client.mjs';
import { assertApiError, assertOAuthError } from './camara/assertions.mjs';
import { startWithPast } from './camara/deployment.mjs';
import { Handset } from './camara/handset.mjs';
import { startRingtrue } from './ringtrue.mjs';
import { claimsOf, manage, nextNumber } from './sign-in.mjs';

/** Flows whose tokens identify a number. */
const FLOWS = ['network', 'ciba', 'assertion'];
const HOUR_MS = 3_600_000;

let ringtrue;
let client;
let past;

before(async () => {
  ringtrue = await startWithPast(issueTokens);
  past = ringtrue.issued;
  past.client.clockOffset = 0;
  client = await createCamaraClient(ringtrue);
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Obtains tokens that expire, and shows that they work before. */
async function issueTokens(deployment, clockOffset) {
  const own = await createCamaraClient(deployment, { clockOffset });
  const number = nextNumber();
  const tokens = {};
  for (const [name, obtain, operation, body] of [
    ['verify', () => own.tokensByNetwork(scoped(VERIFY), number), 'phoneNumberVerify', { phoneNumber: number }],
    ['share', () => own.tokensByNetwork(scoped(SHARE), number), 'phoneNumberShare', undefined],
    ['user', () => own.tokensByCiba(scoped(CHECK), number), 'checkSimSwap', {}],
    ['client', () => own.tokensByCredentials(scoped(CHECK)), 'checkSimSwap', { phoneNumber: number }],
  ]) {
    const [tried, kept] = [(await obtain()).access_token, (await obtain()).access_token];
    assert.equal((await own.call(operation, tried, body)).status, 200);
    tokens[name] = { operation, body, token: kept };
  }
  return { client: own, tokens };
}

const verify = (own, token, number, headers) => own.call('phoneNumberVerify', token, { phoneNumber: number }, headers);
const share = (own, token) => own.call('phoneNumberShare', token);
const accessToken = async (tokens) => (await tokens).access_token;

describe('deployments', () => {
  test('without the setting, there is neither API nor metadata', async () => {
    const plain = await startRingtrue();
    try {
      for (const { method, path } of [...Object.values(OPERATIONS), { method: 'POST', path: '/oauth2/bc-authorize' }]) {
        const { status } = await fetch(`${plain.base_url}${path}`, { method });
        assert.equal(status, 404, path);
      }
      const metadata = await discover(plain);
      assert.equal(metadata.backchannel_authentication_endpoint, undefined);
      assert.equal(metadata.backchannel_token_delivery_modes_supported, undefined);
      for (const grant of [CIBA, JWT_BEARER]) {
        assert.ok(!metadata.grant_types_supported.includes(grant), grant);
      }
      for (const { scope } of Object.values(OPERATIONS)) assert.ok(!metadata.scopes_supported.includes(scope), scope);
      const own = await createCamaraClient(plain);
      const assertion = await own.sign(own.grantClaims(scoped(CHECK), nextNumber()));
      for (const fields of [{ grant_type: CIBA, auth_req_id: 'x' }, { grant_type: JWT_BEARER, assertion }]) {
        assertOAuthError(await own.requestToken(fields), 400, 'unsupported_grant_type');
      }
      const byCredentials = await own.requestToken({ grant_type: 'client_credentials', scope: scoped(CHECK) });
      assertOAuthError(byCredentials, 400, 'invalid_scope');
    } finally {
      assert.equal(await plain.stop(), 0);
    }
  });

  test('the metadata lists what the profile needs', async () => {
    const metadata = await discover(ringtrue);
    assert.equal(metadata.backchannel_authentication_endpoint, `${ringtrue.base_url}/oauth2/bc-authorize`);
    assert.deepEqual(metadata.backchannel_token_delivery_modes_supported, ['poll']);
    assert.equal(metadata.request_parameter_supported, true);
    assert.equal(metadata.authorization_response_iss_parameter_supported, true);
    for (const [name, ...values] of [
      ['grant_types_supported', 'authorization_code', 'client_credentials', CIBA, JWT_BEARER],
      ['token_endpoint_auth_methods_supported', 'private_key_jwt'],
      ['token_endpoint_auth_signing_alg_values_supported', 'ES256', 'RS256'],
      ['request_object_signing_alg_values_supported', 'ES256', 'RS256'],
      ['backchannel_authentication_request_signing_alg_values_supported', 'ES256', 'RS256'],
      ['code_challenge_methods_supported', 'S256'],
      ['scopes_supported', 'openid', SIM_SWAP, ...Object.values(OPERATIONS).map(({ scope }) => scope)],
      ['subject_types_supported', 'pairwise'],
    ]) {
      for (const value of values) assert.ok(metadata[name]?.includes(value), `${name}: ${value}`);
    }
  });

  test('a limit is 429 in the form of CAMARA', async () => {
    const limited = await startRingtrue({ RINGTRUE_CAMARA__ENABLED: 'true', RINGTRUE_RATE_LIMITS__CREATE: '1' });
    try {
      const own = await createCamaraClient(limited);
      const { access_token } = await own.tokensByCredentials(scoped(CHECK));
      const call = (correlator) =>
        own.call('checkSimSwap', access_token, { phoneNumber: nextNumber() }, { 'x-correlator': correlator });
      const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => call(`call-${index}`)));
      const refused = answers.filter(({ status }) => status !== 200);
      assert.ok(refused.length > 0, 'the limit is one call in a second');
      for (const response of refused) {
        assertApiError(response, 429, 'TOO_MANY_REQUESTS');
        assert.ok(Number(response.headers.get('retry-after')) >= 1);
        assert.match(response.headers.get('x-correlator'), /^call-\d$/);
      }
    } finally {
      assert.equal(await limited.stop(), 0);
    }
  });
});

const discover = async ({ base_url }) => (await fetch(`${base_url}/.well-known/openid-configuration`)).json();

describe('Number Verification', () => {
  test('a number matches, plain and hashed', async () => {
    const [number, other] = [nextNumber(), nextNumber()];
    for (const [body, verified] of [
      [{ phoneNumber: number }, true],
      [{ phoneNumber: other }, false],
      [{ hashedPhoneNumber: hash(number) }, true],
      [{ hashedPhoneNumber: hash(number).toUpperCase() }, true],
      [{ hashedPhoneNumber: hash(other) }, false],
      [{ hashedPhoneNumber: hash(number.slice(1)) }, false],
    ]) {
      const { access_token } = await client.tokensByNetwork(scoped(VERIFY), number);
      const answer = await client.call('phoneNumberVerify', access_token, body);
      const expected = [200, { devicePhoneNumberVerified: verified }];
      assert.deepEqual([answer.status, answer.body], expected, JSON.stringify(body));
      assert.equal(answer.headers.get('content-type'), 'application/json');
    }
  });

  test('an odd SIM is not the one of its number', async () => {
    const number = nextNumber('01');
    const { access_token } = await client.tokensByNetwork(scoped(VERIFY), number);
    assert.deepEqual((await verify(client, access_token, number)).body, { devicePhoneNumberVerified: false });
  });

  test('the number of the phone is returned', async () => {
    for (const number of [nextNumber(), nextNumber('96')]) {
      const { access_token } = await client.tokensByNetwork(scoped(SHARE), number);
      const answer = await share(client, access_token);
      assert.deepEqual([answer.status, answer.body], [200, { devicePhoneNumber: number }]);
    }
  });

  test('a number that the service does not apply to', async () => {
    for (const ending of ['97', '94']) {
      const number = nextNumber(ending);
      const { code, verifier, error } = await client.networkAuthentication(scoped(VERIFY), number);
      // The operator may say so at once, or when it is asked about the number.
      if (error) {
        assert.ok(['access_denied', 'login_required'].includes(error), error);
        continue;
      }
      const { body } = await client.redeem(code, verifier);
      assertApiError(await verify(client, body.access_token, number), 422, 'SERVICE_NOT_APPLICABLE');
    }
  });

  test('bodies that do not comply with the schema', async () => {
    const number = nextNumber();
    for (const body of [
      undefined, '', '{}', '{', 'null', '[]', JSON.stringify(number), '{"phoneNumber":"+1"',
      { additional_property: 'foo_value' },
      { phoneNumber: number, hashedPhoneNumber: hash(number) },
      { phoneNumber: number, more: 1 },
      { phoneNumber: null },
      { phoneNumber: Number(number) },
      { phoneNumber: {} },
      { phoneNumber: '' },
      { phoneNumber: number.slice(1) },
      { phoneNumber: `00${number.slice(1)}` },
      { phoneNumber: `tel:${number}` },
      { phoneNumber: `${number} ` },
      { phoneNumber: '+0990123456' },
      { phoneNumber: '+1234' },
      { phoneNumber: '+1234567890123456' },
      { hashedPhoneNumber: hash(number).slice(1) },
      { hashedPhoneNumber: `${hash(number)}0` },
      { hashedPhoneNumber: 'g'.repeat(64) },
      { hashedPhoneNumber: 1 },
      { hashedPhoneNumber: null },
      `{"phoneNumber":"${number}","phoneNumber":"${number}"}`,
      `{"phoneNumber":"${number}"} {}`,
    ]) {
      const { access_token } = await client.tokensByNetwork(scoped(VERIFY), number);
      const headers = { 'content-type': 'application/json', 'x-correlator': 'invalid-body' };
      const answer = await client.call('phoneNumberVerify', access_token, body, headers);
      assertApiError(answer, 400, 'INVALID_ARGUMENT');
      assert.equal(answer.headers.get('x-correlator'), 'invalid-body');
    }
  });

  test('a token works once', async () => {
    const number = nextNumber();
    const { access_token } = await client.tokensByNetwork(scoped(VERIFY), number);
    assert.equal((await verify(client, access_token, number)).status, 200);
    assertApiError(await verify(client, access_token, number), 401, 'UNAUTHENTICATED');
    const shown = await client.tokensByNetwork(scoped(SHARE), number);
    assert.equal((await share(client, shown.access_token)).status, 200);
    assertApiError(await share(client, shown.access_token), 401, 'UNAUTHENTICATED');
  });

  test('many use a token at the same time, and one learns the result', async () => {
    for (const [scope, call] of [[VERIFY, verify], [SHARE, share]]) {
      const number = nextNumber();
      const { access_token } = await client.tokensByNetwork(scoped(scope), number);
      const answers = await Promise.all(Array.from({ length: 8 }, () => call(client, access_token, number)));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(7).fill(401)], scope);
    }
  });

  test('a token without the scope is refused, and not used up', async () => {
    const number = nextNumber();
    const verifying = await accessToken(client.tokensByNetwork(scoped(VERIFY), number));
    const sharing = await accessToken(client.tokensByNetwork(scoped(SHARE), number));
    const swapping = await accessToken(client.tokensByNetwork(scoped(SIM_SWAP), number));
    assertApiError(await share(client, verifying), 403, 'PERMISSION_DENIED');
    assertApiError(await verify(client, sharing, number), 403, 'PERMISSION_DENIED');
    assertApiError(await verify(client, swapping, number), 403, 'PERMISSION_DENIED');
    assert.equal((await verify(client, verifying, number)).status, 200);
    assert.equal((await share(client, sharing)).status, 200);
  });

  test('tokens that the network has not authenticated are refused', async () => {
    const number = nextNumber();
    for (const [operation, scope] of [['phoneNumberVerify', VERIFY], ['phoneNumberShare', SHARE]]) {
      const body = operation === 'phoneNumberVerify' ? { phoneNumber: number } : undefined;
      for (const flow of ['ciba', 'assertion']) {
        const { access_token, expires_in } = await client.tokensFor(flow, scoped(scope), number);
        assert.ok(expires_in <= 300);
        assertApiError(await client.call(operation, access_token, body), 403, NOT_BY_NETWORK);
      }
      // None is for the client alone.
      const refused = await client.requestToken({ grant_type: 'client_credentials', scope: scoped(scope) });
      assertOAuthError(refused, 400, 'invalid_scope');
    }
  });

  test('an operator that fails while it is asked', async () => {
    // The operator recognises the phone, and then knows nothing about the other number: only the phone's SIM decides.
    const { access_token } = await client.tokensByNetwork(scoped(VERIFY), nextNumber());
    const answer = await verify(client, access_token, nextNumber('99'));
    assert.deepEqual([answer.status, answer.body], [200, { devicePhoneNumberVerified: false }]);
  });
});

describe('SIM Swap', () => {
  const lastChange = async (token, body) => {
    const { status, text, body: answer } = await client.call('retrieveSimSwapDate', token, body);
    assert.equal(status, 200, text);
    return answer;
  };

  test('works with the tokens of every flow', async () => {
    for (const [ending, swapped] of [['00', false], ['01', true]]) {
      const number = nextNumber(ending);
      const identified = [];
      // The operator recognises no phone with an odd number.
      for (const flow of swapped ? ['ciba', 'assertion'] : FLOWS) {
        identified.push([await client.tokensFor(flow, scoped(SIM_SWAP), number), {}]);
      }
      const all = [...identified, [await client.tokensByCredentials(scoped(SIM_SWAP)), { phoneNumber: number }]];
      for (const [{ access_token, refresh_token }, body] of all) {
        assert.equal(refresh_token, undefined);
        const checked = await client.call('checkSimSwap', access_token, body);
        assert.deepEqual([checked.status, checked.body], [200, { swapped }], number);
        const { latestSimChange } = await lastChange(access_token, body);
        assert.match(latestSimChange, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
        const hours = (Date.now() - Date.parse(latestSimChange)) / HOUR_MS;
        assert.ok(swapped ? hours < 240 : hours > 2400, `${hours} hours`);
      }
    }
  });

  test('`maxAge` decides how far back', async () => {
    const own = await createCamaraClient(ringtrue);
    const handset = await Handset.signIn(ringtrue, own.project_id);
    const number = nextNumber();
    await handset.swap(number, '20d');
    const { access_token } = await own.tokensByCredentials(scoped(CHECK));
    for (const [maxAge, swapped] of [
      [undefined, false], [1, false], [240, false], [479, false], [481, true], [2400, true],
    ]) {
      const answer = await own.call('checkSimSwap', access_token, { phoneNumber: number, maxAge });
      assert.deepEqual([answer.status, answer.body], [200, { swapped }], `${maxAge}`);
    }
    // The default is 240 hours.
    await handset.swap(number, '3d');
    assert.deepEqual((await own.call('checkSimSwap', access_token, { phoneNumber: number })).body, { swapped: true });
  });

  test('`maxAge` outside of the range, or of another type', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(CHECK));
    const phoneNumber = nextNumber();
    for (const [maxAge, code] of [
      [0, 'OUT_OF_RANGE'], [-1, 'OUT_OF_RANGE'], [2401, 'OUT_OF_RANGE'], [100_000, 'OUT_OF_RANGE'],
      [2 ** 40, 'OUT_OF_RANGE'], ['24', 'INVALID_ARGUMENT'], [1.5, 'INVALID_ARGUMENT'], [true, 'INVALID_ARGUMENT'],
      [{}, 'INVALID_ARGUMENT'],
    ]) {
      assertApiError(await client.call('checkSimSwap', access_token, { phoneNumber, maxAge }), 400, code);
    }
  });

  test('the token identifies the number, or the body does, and never both or none', async () => {
    const number = nextNumber();
    for (const operation of ['checkSimSwap', 'retrieveSimSwapDate']) {
      for (const flow of FLOWS) {
        const { access_token } = await client.tokensFor(flow, scoped(SIM_SWAP), number);
        for (const phoneNumber of [number, nextNumber()]) {
          assertApiError(await client.call(operation, access_token, { phoneNumber }), 422, 'UNNECESSARY_IDENTIFIER');
        }
      }
      const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
      assertApiError(await client.call(operation, access_token, {}), 422, 'MISSING_IDENTIFIER');
    }
  });

  test('what the operator says decides the answer', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    for (const [ending, status, code] of [
      ['97', 422, 'SERVICE_NOT_APPLICABLE'],
      ['94', 404, 'IDENTIFIER_NOT_FOUND'],
      ['99', 503, 'UNAVAILABLE'],
      ['95', 504, 'TIMEOUT'],
      ['93', 503, 'UNAVAILABLE'],
    ]) {
      for (const operation of ['checkSimSwap', 'retrieveSimSwapDate']) {
        const body = { phoneNumber: nextNumber(ending) };
        const answer = await client.call(operation, access_token, body, { 'x-correlator': 'c' });
        assertApiError(answer, status, code);
        assert.equal(answer.headers.get('x-correlator'), 'c');
      }
    }
    // No change on record, in a history of limited length.
    const phoneNumber = nextNumber('98');
    assert.deepEqual((await client.call('checkSimSwap', access_token, { phoneNumber })).body, { swapped: false });
    const { latestSimChange, monitoredPeriod } = await lastChange(access_token, { phoneNumber });
    assert.equal(latestSimChange, null);
    assert.ok(Number.isInteger(monitoredPeriod) && monitoredPeriod > 0);
  });

  test('bodies that do not comply with the schema', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    for (const operation of ['checkSimSwap', 'retrieveSimSwapDate']) {
      for (const body of [
        undefined, '', '{', 'null', '[]', '"x"', { phoneNumber: '990123456700' }, { phoneNumber: 1 },
        { phoneNumber: '+1234' }, { phoneNumber: '+1234567890123456' }, { phoneNumber: {} },
      ]) {
        const headers = { 'content-type': 'application/json' };
        assertApiError(await client.call(operation, access_token, body, headers), 400, 'INVALID_ARGUMENT');
      }
    }
  });

  test('a number without a country is not found', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    for (const operation of ['checkSimSwap', 'retrieveSimSwapDate']) {
      const answer = await client.call(operation, access_token, { phoneNumber: '+99912345678' });
      assertApiError(answer, 404, 'IDENTIFIER_NOT_FOUND');
    }
  });

  test('each operation has its scope, and one has both', async () => {
    const phoneNumber = nextNumber();
    for (const [scope, permitted] of [
      [CHECK, ['checkSimSwap']],
      [RETRIEVE_DATE, ['retrieveSimSwapDate']],
      [SIM_SWAP, ['checkSimSwap', 'retrieveSimSwapDate']],
    ]) {
      const { access_token } = await client.tokensByCredentials(scoped(scope));
      for (const operation of ['checkSimSwap', 'retrieveSimSwapDate']) {
        const answer = await client.call(operation, access_token, { phoneNumber });
        if (permitted.includes(operation)) assert.equal(answer.status, 200, answer.text);
        else assertApiError(answer, 403, 'PERMISSION_DENIED');
      }
    }
    const { access_token } = await client.tokensByCiba(scoped(VERIFY), phoneNumber);
    assertApiError(await client.call('checkSimSwap', access_token, {}), 403, 'PERMISSION_DENIED');
  });

  test('a token works for many calls', async () => {
    const { access_token } = await client.tokensByCiba(scoped(SIM_SWAP), nextNumber());
    for (let count = 0; count < 3; count += 1) {
      assert.equal((await client.call('checkSimSwap', access_token, {})).status, 200);
    }
  });
});

describe('access tokens', () => {
  /** A call of each operation, with a body that complies. */
  const calls = () => Object.keys(OPERATIONS).map((operation) =>
    [operation, operation === 'phoneNumberShare' ? undefined : { phoneNumber: nextNumber() }]);

  test('no token, and what is none', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    const { id_token } = await client.tokensByCiba(`openid ${scoped(SIM_SWAP)}`, nextNumber());
    const management = await new CamaraClient(ringtrue, ringtrue.workspace).tokensByCredentials('management');
    for (const [operation, body] of calls()) {
      for (const authorization of [
        undefined, '', 'Bearer', 'Bearer ', 'Bearer invalid', `Bearer ${id_token}`, `Bearer ${access_token}x`,
        `Basic ${btoa(`${client.client_id}:${client.client_secret}`)}`, access_token,
        `Bearer ${management.access_token}`,
      ]) {
        const headers = { 'x-correlator': 'none', ...(authorization !== undefined && { authorization }) };
        const answer = await client.call(operation, undefined, body, headers);
        assertApiError(answer, 401, 'UNAUTHENTICATED');
        assert.equal(answer.headers.get('x-correlator'), 'none');
        assert.match(answer.headers.get('www-authenticate'), /^Bearer\b/);
      }
      const { method, path } = OPERATIONS[operation];
      const inQuery = await fetch(`${ringtrue.base_url}${path}?access_token=${access_token}`, { method });
      assertApiError(await read(inQuery), 401, 'UNAUTHENTICATED');
    }
  });

  test('expired tokens', async () => {
    for (const [name, { operation, token, body }] of Object.entries(past.tokens)) {
      const answer = await past.client.call(operation, token, body);
      assert.equal(answer.status, 401, name);
      assertApiError(answer, 401, 'UNAUTHENTICATED');
    }
  });

  test('revoked tokens, those of a disabled project, and those of a deleted credential', async () => {
    const own = await createCamaraClient(ringtrue);
    const body = { phoneNumber: nextNumber() };
    const tokens = [];
    for (let count = 0; count < 2; count += 1) tokens.push(await accessToken(own.tokensByCredentials(scoped(CHECK))));
    tokens.push(await accessToken(own.tokensByCiba(scoped(CHECK), nextNumber())));
    const check = (index) => own.call('checkSimSwap', tokens[index], index === 2 ? {} : body);
    for (const index of [0, 1, 2]) assert.equal((await check(index)).status, 200);
    for (const index of [0, 2]) {
      const { status } = await own.postAuthenticated('/oauth2/revoke', { token: tokens[index] });
      assert.equal(status, 200);
      assertApiError(await check(index), 401, 'UNAUTHENTICATED');
    }
    assert.equal((await check(1)).status, 200);
    await manage(ringtrue, 'PATCH', `/projects/${own.project_id}`, { disabled: true });
    assertApiError(await check(1), 401, 'UNAUTHENTICATED');
    const another = await own.requestToken({ grant_type: 'client_credentials', scope: scoped(CHECK) });
    assertOAuthError(another, 401, 'invalid_client');
  });

  test('a token of Number Verification is revoked before its use', async () => {
    const number = nextNumber();
    const { access_token } = await client.tokensByNetwork(scoped(VERIFY), number);
    assert.equal((await client.postAuthenticated('/oauth2/revoke', { token: access_token })).status, 200);
    assertApiError(await verify(client, access_token, number), 401, 'UNAUTHENTICATED');
  });

  test('ID tokens name the number to nobody, and stay the same for a client alone', async () => {
    const [other, number] = [await createCamaraClient(ringtrue), nextNumber()];
    const subjectOf = async (own, flow, of) => {
      const { id_token } = await own.tokensFor(flow, `openid ${scoped(SIM_SWAP)}`, of);
      const claims = claimsOf(id_token);
      assert.deepEqual([claims.iss, claims.aud], [ringtrue.base_url, own.client_id]);
      assert.ok(!JSON.stringify(claims).includes(number.slice(1)));
      assert.equal(claims.phone_number, undefined);
      return claims.sub;
    };
    const subjects = [];
    for (const flow of ['network', 'ciba']) subjects.push(await subjectOf(client, flow, number));
    assert.equal(new Set(subjects).size, 1, 'the same user by every flow');
    assert.notEqual(await subjectOf(other, 'ciba', number), subjects[0]);
    assert.notEqual(await subjectOf(client, 'ciba', nextNumber()), subjects[0]);
  });
});

describe('the form of requests and responses', () => {
  test('`x-correlator` is echoed, with success and errors', async () => {
    const number = nextNumber();
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    for (const correlator of ['b4333c46-49c0-4f62-80d7-f0ef930f1c46', 'aZ0-_:;./<>{}', 'x'.repeat(256)]) {
      for (const [token, body, status] of [
        [access_token, { phoneNumber: number }, 200],
        [access_token, {}, 422],
        ['x', {}, 401],
      ]) {
        const answer = await client.call('checkSimSwap', token, body, { 'x-correlator': correlator });
        assert.deepEqual([answer.status, answer.headers.get('x-correlator')], [status, correlator]);
      }
    }
    const tokens = await client.tokensByNetwork(scoped(VERIFY), number);
    const verified = await verify(client, tokens.access_token, number, { 'x-correlator': 'verify' });
    assert.deepEqual([verified.status, verified.headers.get('x-correlator')], [200, 'verify']);
  });

  test('an invalid `x-correlator` is refused, and an empty one is none', async () => {
    const number = nextNumber();
    const { access_token } = await client.tokensByNetwork(scoped(VERIFY), number);
    for (const correlator of ['a b', 'a,b', 'a"b', 'a?', '(a)', 'é', 'x'.repeat(257)]) {
      const answer = await verify(client, access_token, number, { 'x-correlator': correlator });
      assertApiError(answer, 400, 'INVALID_ARGUMENT');
      assert.notEqual(answer.headers.get('x-correlator'), correlator);
    }
    const answer = await verify(client, access_token, number, { 'x-correlator': '' });
    assert.equal(answer.status, 200, 'the refused requests have not used up the token');
  });

  test('wrong methods', async () => {
    for (const { method, path } of Object.values(OPERATIONS)) {
      for (const wrong of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((each) => each !== method)) {
        const response = await fetch(`${ringtrue.base_url}${path}`, { method: wrong, headers: { 'x-correlator': 'm' } });
        const answer = await read(response);
        assertApiError(answer, 405, 'METHOD_NOT_ALLOWED');
        assert.ok(answer.headers.get('allow').split(/, */).includes(method));
        assert.equal(answer.headers.get('x-correlator'), 'm');
      }
    }
  });

  test('paths that do not exist', async () => {
    for (const path of [
      '/number-verification/v2/', '/number-verification/v2/verify/x', '/number-verification/v2/unknown',
      '/sim-swap/v2/unknown', '/sim-swap/v2',
    ]) {
      const answer = await read(await fetch(`${ringtrue.base_url}${path}`, { headers: { 'x-correlator': 'p' } }));
      assertApiError(answer, 404, 'NOT_FOUND');
      assert.equal(answer.headers.get('x-correlator'), 'p');
    }
  });

  test('other content types', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    const body = JSON.stringify({ phoneNumber: nextNumber() });
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml']) {
      const answer = await client.call('checkSimSwap', access_token, body, { 'content-type': type, 'x-correlator': 't' });
      assertApiError(answer, 415, 'UNSUPPORTED_MEDIA_TYPE');
      assert.equal(answer.headers.get('x-correlator'), 't');
    }
    for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON']) {
      assert.equal((await client.call('checkSimSwap', access_token, body, { 'content-type': type })).status, 200, type);
    }
  });

  test('a body that is too large', async () => {
    const { access_token } = await client.tokensByCredentials(scoped(SIM_SWAP));
    const body = JSON.stringify({ phoneNumber: nextNumber(), x: 'x'.repeat(64 * 1024) });
    const answer = await client.call('checkSimSwap', access_token, body);
    assert.ok(answer.status === 400 || answer.status === 413, answer.text);
    assert.deepEqual(Object.keys(answer.body).sort(), ['code', 'message', 'status']);
  });
});

describe('checks and usage', () => {
  async function list(own, scope, path) {
    const { access_token } = await own.tokensByCredentials(scope);
    const response = await fetch(`${ringtrue.base_url}${path}`, { headers: { authorization: `Bearer ${access_token}` } });
    const { content } = await response.json();
    return content;
  }

  test('calls are checks of the products', async () => {
    const own = await createCamaraClient(ringtrue);
    const number = nextNumber();
    for (const claimed of [number, nextNumber()]) {
      await verify(own, await accessToken(own.tokensByNetwork(scoped(VERIFY), number)), claimed);
    }
    await share(own, await accessToken(own.tokensByNetwork(scoped(SHARE), number)));
    const swaps = await accessToken(own.tokensByCiba(scoped(SIM_SWAP), number));
    await own.call('checkSimSwap', swaps, { maxAge: 24 });
    await own.call('retrieveSimSwapDate', swaps, {});

    const verified = await list(own, 'secure_sna', '/v1/number-verification/secure-sna-checks');
    assert.deepEqual(verified.map(({ status, match }) => [status, match]), [['COMPLETED', false], ['COMPLETED', true]]);
    const discovered = await list(own, 'discovery', '/v1/number-verification/discovery-checks');
    assert.deepEqual(discovered.map(({ status, phone_number }) => [status, phone_number]), [['COMPLETED', number]]);
    const swapped = await list(own, 'sim_swap', '/v1/sim-swap-checks');
    const changes = swapped.map(({ status, no_sim_change }) => [status, no_sim_change]);
    assert.deepEqual(changes, Array(2).fill(['COMPLETED', true]));

    const { content } = await manage(ringtrue, 'GET', `/usage?group_by=hour&project_id=${own.project_id}`);
    const counts = {};
    for (const { product, status, count } of content) {
      const name = `${product} ${status}`;
      counts[name] = (counts[name] ?? 0) + count;
    }
    assert.deepEqual(counts, { 'secure_sna COMPLETED': 2, 'discovery COMPLETED': 1, 'sim_swap COMPLETED': 2 });
  });

  test('a call that is refused is none', async () => {
    const own = await createCamaraClient(ringtrue);
    const { access_token } = await own.tokensByCredentials(scoped(SIM_SWAP));
    for (const body of ['{', {}, { phoneNumber: '1' }, { phoneNumber: nextNumber(), maxAge: 0 }]) {
      assert.ok((await own.call('checkSimSwap', access_token, body)).status >= 400);
    }
    assert.deepEqual(await list(own, 'sim_swap', '/v1/sim-swap-checks'), []);
  });
});
