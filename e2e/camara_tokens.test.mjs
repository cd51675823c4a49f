// Tokens for CAMARA's APIs, by every flow of the security profile, and their errors.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import {
  ASSERTION_TYPE, CHECK, CIBA, CamaraClient, JWT_BEARER, OTHER_PURPOSE, PURPOSE, SHARE, SIM_SWAP, VERIFY,
  createCamaraClient, scoped,
} from './camara/api-client.mjs';
import { assertApiError, assertOAuthError } from './camara/assertions.mjs';
import { SETTINGS, startWithPast } from './camara/deployment.mjs';
import { Phone } from './camara/phone.mjs';
import { claimsOf, configure, createClient, keyPair, manage, nextNumber } from './sign-in.mjs';

/** Addresses of the sandbox: mobile; mobile without products, not mobile, unknown. */
const MOBILE_DATA = '203.0.113.7';
const OTHER_ADDRESSES = ['203.0.113.200', '198.51.100.7', '192.0.2.7'];
/** SIM of a simulated phone that names none. */
const DEFAULT_SIM = '+99000000010';

let ringtrue;
let client;
let past;

before(async () => {
  // The proxy in front of the deployment tells the address of the phone.
  const settings = { ...SETTINGS, RINGTRUE_HTTP__TRUSTED_PROXIES: '["127.0.0.0/8"]' };
  ringtrue = await startWithPast(beginWhatExpires, settings);
  past = ringtrue.issued;
  past.client.clockOffset = 0;
  client = await createCamaraClient(ringtrue);
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Begins the flows that take time. */
async function beginWhatExpires(deployment, clockOffset) {
  const own = await createCamaraClient(deployment, { clockOffset });
  const number = nextNumber();
  const { code, verifier, hops } = await own.networkAuthentication(scoped(VERIFY), number);
  const started = await own.backchannel({ scope: scoped(CHECK), login_hint: `tel:${number}` });
  return { client: own, code, verifier, lastHop: hops.at(-1).url, auth_req_id: started.body.auth_req_id };
}

const verify = (token, number) => client.call('phoneNumberVerify', token, { phoneNumber: number });
const share = (token) => client.call('phoneNumberShare', token);
const accessToken = async (tokens) => (await tokens).access_token;

describe('authorization code with network authentication', () => {
  test('a code yields a token, and the token one verification', async () => {
    const number = nextNumber();
    const { code, verifier, nonce, hops } = await client.networkAuthentication(`openid ${scoped(VERIFY)}`, number);
    assert.ok(hops.length >= 2, 'the phone visits its operator');
    const { status, headers, body } = await client.redeem(code, verifier);
    assert.equal(status, 200);
    assert.match(headers.get('cache-control'), /no-store/);
    assert.equal(body.token_type.toLowerCase(), 'bearer');
    assert.ok(body.expires_in > 0 && body.expires_in <= 300, `${body.expires_in}`);
    assert.equal(body.refresh_token, undefined);
    assert.deepEqual(new Set(body.scope.split(' ')), new Set(['openid', PURPOSE, VERIFY]));
    const claims = claimsOf(body.id_token);
    assert.deepEqual([claims.iss, claims.aud, claims.nonce], [ringtrue.base_url, client.client_id, nonce]);
    for (const text of [body.id_token, JSON.stringify(claims), atob(body.access_token.split('.')[1] ?? '')]) {
      assert.ok(!text.includes(number.slice(1)), 'no token tells the number');
    }
    const answer = await verify(body.access_token, number);
    assert.deepEqual([answer.status, answer.body], [200, { devicePhoneNumberVerified: true }]);
  });

  test('the phone sees redirects alone, which no cache repeats', async () => {
    for (const ending of ['00', '95']) {
      const { hops } = await client.networkAuthentication(scoped(VERIFY), nextNumber(ending));
      // The profile demands 302 (appendix A).
      assert.deepEqual(hops.map(({ url, status }) => [url.pathname, status]), hops.map(({ url }) => [url.pathname, 302]));
      for (const { url, headers } of hops) assert.match(headers['cache-control'], /no-store/, url.pathname);
    }
  });

  test('without `openid`, there is no ID token', async () => {
    const tokens = await client.tokensByNetwork(scoped(VERIFY), nextNumber());
    assert.equal(tokens.id_token, undefined);
  });

  test('`prompt=none` is implied, and no prompt shows a page', async () => {
    for (const prompt of [undefined, 'login', 'consent']) {
      const answer = await client.networkAuthentication(scoped(VERIFY), nextNumber(), { prompt });
      if (prompt === undefined) assert.ok(answer.code, answer.error_description);
      else assert.ok(answer.code || answer.error, 'the phone returns');
    }
  });

  test('hints and unknown parameters are ignored', async () => {
    const number = nextNumber();
    const more = { login_hint: `tel:${nextNumber()}`, acr_values: '3', binding_message: 'x', unknown: 'x' };
    const { code, verifier } = await client.networkAuthentication(scoped(SHARE), number, more);
    const { body } = await client.redeem(code, verifier);
    assert.deepEqual((await share(body.access_token)).body, { devicePhoneNumber: number });
  });

  test('the network decides, by the address of the phone', async () => {
    const from = (address) => new Phone({ insert: () => ({ 'x-forwarded-for': address }) });
    const authorize = (address) => {
      const { verifier, parameters } = client.newAuthorization(scoped(SHARE));
      return client.authorize(client.authorizeUrl(parameters), from(address)).then((answer) => ({ ...answer, verifier }));
    };
    const { code, verifier } = await authorize(MOBILE_DATA);
    const { body } = await client.redeem(code, verifier);
    assert.deepEqual((await share(body.access_token)).body, { devicePhoneNumber: DEFAULT_SIM });
    for (const address of OTHER_ADDRESSES) {
      const answer = await authorize(address);
      assert.deepEqual([answer.error, answer.code], ['login_required', undefined], address);
    }
  });

  test('what the operator says decides the error', async () => {
    for (const [ending, scope, error] of [
      ['01', SHARE, 'login_required'],
      ['95', VERIFY, 'temporarily_unavailable'],
      ['95', SHARE, 'temporarily_unavailable'],
    ]) {
      const answer = await client.networkAuthentication(scoped(scope), nextNumber(ending));
      assert.deepEqual([answer.error, answer.code], [error, undefined], `${ending} ${scope}`);
      assert.ok(answer.error_description.length > 0);
    }
    for (const scope of [VERIFY, SHARE]) {
      const { error } = await client.networkAuthentication(scoped(scope), nextNumber('99'));
      assert.ok(['server_error', 'temporarily_unavailable'].includes(error), error);
    }
  });

  test('a phone whose operator never answers does not return', async () => {
    const { parameters } = client.newAuthorization(scoped(VERIFY));
    const { url, response } = await new Phone({ sim: nextNumber('98') })
      .follow(client.authorizeUrl(parameters), client.redirectUri);
    assert.equal(url, undefined);
    assert.equal(response.status, 503);
  });

  test('a signed request is accepted, and its parameters are those of the object alone', async () => {
    const number = nextNumber();
    for (const aud of [`${ringtrue.base_url}/oauth2/authorize`, ringtrue.base_url]) {
      const { verifier, parameters } = client.newAuthorization(scoped(VERIFY));
      const outside = { state: 'outside', nonce: 'outside', code_challenge: 'x'.repeat(43), login_hint: 'x' };
      const url = await client.signedAuthorizeUrl(parameters, { claims: { aud }, outside });
      const answer = await client.authorize(url, new Phone({ sim: number }));
      assert.equal(answer.state, parameters.state);
      const { status, body } = await client.redeem(answer.code, verifier);
      assert.equal(status, 200, JSON.stringify(body));
      assert.deepEqual((await verify(body.access_token, number)).body, { devicePhoneNumberVerified: true });
    }
  });

  test('a request object that is not as the profile demands is refused', async () => {
    const foreign = await keyPair('ES256');
    const { now } = client;
    const cases = {
      expired: { claims: { iat: now - 400, exp: now - 200 } },
      'issued in the future': { claims: { iat: now + 120, exp: now + 200 } },
      'longer than 300 seconds': { claims: { iat: now, exp: now + 301 } },
      'longer than 300 seconds, from the past': { claims: { iat: now - 200, exp: now + 200 } },
      'without iss': { claims: { iss: undefined } },
      'of another issuer': { claims: { iss: 'somebody' } },
      'without aud': { claims: { aud: undefined } },
      'for somebody else': { claims: { aud: 'https://operator.example' } },
      'without iat': { claims: { iat: undefined } },
      'without exp': { claims: { exp: undefined } },
      'without jti': { claims: { jti: undefined } },
      'with sub, so that it could authenticate the client': { claims: { sub: client.client_id } },
      'of another key': { signer: { ...foreign, kid: client.signer.kid } },
      'with another scope outside': { outside: { scope: scoped(SHARE) } },
      'without the scope outside': { outside: { scope: undefined } },
      'without response_type outside': { outside: { response_type: undefined } },
      'that is no JWT': { outside: { request: 'x.y.z' } },
    };
    for (const [name, options] of Object.entries(cases)) {
      const { parameters } = client.newAuthorization(scoped(VERIFY));
      const url = await client.signedAuthorizeUrl(parameters, options);
      const { error, code } = await client.authorize(url, new Phone({ sim: nextNumber() }));
      assert.equal(code, undefined, name);
      // Parameters that are missing outside make the request invalid, whatever the object says.
      const isOutside = name.startsWith('without') && name.endsWith('outside');
      assert.ok(error === 'invalid_request_object' || (isOutside && error === 'invalid_request'), `${name}: ${error}`);
    }
  });

  test('PKCE with S256 is required, and kept', async () => {
    for (const more of [
      { code_challenge: undefined, code_challenge_method: undefined },
      { code_challenge_method: 'plain' },
      { code_challenge_method: undefined },
      { code_challenge: 'short' },
    ]) {
      const answer = await client.networkAuthentication(scoped(VERIFY), nextNumber(), more);
      assert.deepEqual([answer.error, answer.code], ['invalid_request', undefined], JSON.stringify(more));
    }
    const { code, verifier } = await client.networkAuthentication(scoped(VERIFY), nextNumber());
    for (const wrong of [undefined, randomBytes(32).toString('base64url')]) {
      assertOAuthError(await client.redeem(code, wrong), 400, 'invalid_grant');
    }
    assert.equal((await client.redeem(code, verifier)).status, 200, 'a wrong verifier does not use up the code');
  });

  test('without a proven client and redirect URI, the phone stays', async () => {
    const other = await createCamaraClient(ringtrue);
    for (const more of [
      { client_id: 'unknown' },
      { client_id: undefined },
      { redirect_uri: 'https://attacker.example/' },
      { redirect_uri: undefined },
      { client_id: other.client_id, redirect_uri: `${client.redirectUri}&x=1` },
    ]) {
      const { parameters } = client.newAuthorization(scoped(VERIFY), more);
      const { hops, response } = await new Phone({ sim: nextNumber() }).follow(client.authorizeUrl(parameters), 'http');
      assert.deepEqual([hops.length, response?.status], [1, 400], JSON.stringify(more));
    }
  });

  test('requests that are malformed or ask for something else return with the error', async () => {
    for (const [more, error] of [
      [{ response_type: 'token' }, 'unsupported_response_type'],
      [{ response_type: undefined }, 'invalid_request'],
      [{ response_mode: 'fragment' }, 'invalid_request'],
      [{ request_uri: 'https://client.example/request' }, 'request_uri_not_supported'],
      [{ scope: undefined }, 'invalid_request'],
    ]) {
      const { error: returned, code } = await client.networkAuthentication(scoped(VERIFY), nextNumber(), more);
      assert.deepEqual([returned, code], [error, undefined], JSON.stringify(more));
    }
    const { parameters } = client.newAuthorization(scoped(VERIFY));
    const twice = client.authorizeUrl(parameters);
    twice.searchParams.append('nonce', 'other');
    assert.equal((await client.authorize(twice, new Phone({ sim: nextNumber() }))).error, 'invalid_request');
  });

  test('a code works once, and its second use ends the token', async () => {
    const number = nextNumber();
    const { code, verifier } = await client.networkAuthentication(scoped(CHECK), number);
    const first = await client.redeem(code, verifier);
    assert.equal(first.status, 200);
    assert.equal((await client.call('checkSimSwap', first.body.access_token, {})).status, 200);
    assertOAuthError(await client.redeem(code, verifier), 400, 'invalid_grant');
    assertApiError(await client.call('checkSimSwap', first.body.access_token, {}), 401, 'UNAUTHENTICATED');
  });

  test('many redeem a code at the same time, and one gets a token', async () => {
    const { code, verifier } = await client.networkAuthentication(scoped(VERIFY), nextNumber());
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.redeem(code, verifier)));
    const statuses = answers.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [200, ...Array(7).fill(400)]);
  });

  test('a code belongs to its client and its redirect URI', async () => {
    const thief = await createCamaraClient(ringtrue);
    const number = nextNumber();
    const { code, verifier } = await client.networkAuthentication(scoped(VERIFY), number);
    assertOAuthError(await thief.redeem(code, verifier), 400, 'invalid_grant');
    for (const redirect_uri of ['http://127.0.0.1:9/other', undefined]) {
      const { status, body } = await client.redeem(code, verifier, { redirect_uri });
      assert.equal(status, 400, JSON.stringify(body));
    }
    const { status, body } = await client.redeem(code, verifier);
    assert.equal(status, 200);
    assert.equal((await verify(body.access_token, number)).status, 200);
  });

  test('a code and a return that have expired are worth nothing', async () => {
    assertOAuthError(await past.client.redeem(past.code, past.verifier), 400, 'invalid_grant');
    const { url } = await new Phone().follow(past.lastHop, client.redirectUri);
    assert.equal(url?.searchParams.get('code') ?? null, null);
  });

  test('the return of a phone yields one code, which is worth one token', async () => {
    const { code, verifier, hops } = await client.networkAuthentication(scoped(VERIFY), nextNumber());
    // A lost response is repeated, by this phone or another.
    const codes = [code];
    for (const phone of [new Phone(), new Phone({ address: '127.0.0.9' })]) {
      const { url } = await phone.follow(hops.at(-1).url, client.redirectUri);
      codes.push(url?.searchParams.get('code'));
    }
    const answers = await Promise.all(codes.filter(Boolean).map((each) => client.redeem(each, verifier)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  });

  test('one token may permit both operations of Number Verification, and one call', async () => {
    const number = nextNumber();
    for (const [first, second] of [[verify, share], [share, verify]]) {
      const { access_token } = await client.tokensByNetwork(scoped(VERIFY, SHARE), number);
      assert.equal((await first(access_token, number)).status, 200);
      assertApiError(await second(access_token, number), 401, 'UNAUTHENTICATED');
    }
  });
});

describe('scopes and purposes', () => {
  /** Requests a token for a scope by each flow, and returns the errors. */
  async function errorsOf(own, scope) {
    const number = nextNumber();
    const { error } = await own.networkAuthentication(scope, number);
    const others = [
      await own.backchannel({ scope, login_hint: `tel:${number}` }),
      await own.exchange(own.grantClaims(scope, number)),
      await own.requestToken({ grant_type: 'client_credentials', scope }),
    ];
    for (const { status, body } of others) assert.equal(status, 400, JSON.stringify(body));
    return [error, ...others.map(({ body }) => body.error)];
  }

  test('exactly one purpose is declared, one of those that the project may declare', async () => {
    for (const scope of [
      CHECK,
      `${PURPOSE} ${OTHER_PURPOSE} ${CHECK}`,
      `dpv:Marketing ${CHECK}`,
      `dpv: ${CHECK}`,
      `${PURPOSE.toLowerCase()} ${CHECK}`,
      `${PURPOSE}#${CHECK}`,
      PURPOSE,
      `openid ${PURPOSE}`,
    ]) {
      assert.deepEqual(await errorsOf(client, scope), Array(4).fill('invalid_scope'), scope);
    }
    for (const purpose of [PURPOSE, OTHER_PURPOSE]) {
      const { scope } = await client.tokensByCredentials(`${CHECK} ${purpose}`);
      assert.deepEqual(new Set(scope.split(' ')), new Set([CHECK, purpose]));
    }
  });

  test('unknown scopes beside are refused', async () => {
    for (const scope of ['email', 'sim_swap', 'management', 'sim-swap:', 'device-swap:check', 'number-verification']) {
      assert.deepEqual(await errorsOf(client, scoped(CHECK, scope)), Array(4).fill('invalid_scope'), scope);
    }
  });

  test('a project without purposes gets no token', async () => {
    const own = await createCamaraClient(ringtrue, { configuration: { camara: {} } });
    const assertRefused = async () => {
      // The scope is wrong, or the client as such.
      for (const error of await errorsOf(own, scoped(CHECK))) {
        assert.ok(['invalid_scope', 'unauthorized_client'].includes(error), error);
      }
    };
    await assertRefused();
    await configure(ringtrue, own, { camara: { purposes: [PURPOSE] } });
    assert.equal((await own.tokensByCredentials(scoped(CHECK))).token_type.toLowerCase(), 'bearer');
    await configure(ringtrue, own, { camara: { purposes: null } });
    await assertRefused();
  });

  test('a project gets tokens for its products only', async () => {
    const own = await createCamaraClient(ringtrue);
    const products = (...names) => manage(ringtrue, 'PATCH', `/projects/${own.project_id}`, { products: names });
    for (const [scope, product] of [[VERIFY, 'secure_sna'], [SHARE, 'discovery']]) {
      await products('sim_swap', product === 'secure_sna' ? 'discovery' : 'secure_sna');
      assert.equal((await own.networkAuthentication(scoped(scope), nextNumber())).error, 'invalid_scope', scope);
      await products(product);
      assert.ok((await own.networkAuthentication(scoped(scope), nextNumber())).code, 'no other product is needed');
    }
    await products('discovery', 'secure_sna');
    assert.deepEqual(await errorsOf(own, scoped(CHECK)), Array(4).fill('invalid_scope'));
    await products('sim_swap');
    assert.equal((await own.tokensByCredentials(scoped(CHECK))).expires_in > 0, true);
  });

  test('a product that a project loses ends with its tokens', async () => {
    const own = await createCamaraClient(ringtrue);
    const { access_token } = await own.tokensByCredentials(scoped(CHECK));
    const body = { phoneNumber: nextNumber() };
    assert.equal((await own.call('checkSimSwap', access_token, body)).status, 200);
    await manage(ringtrue, 'PATCH', `/projects/${own.project_id}`, { products: ['secure_sna'] });
    assertApiError(await own.call('checkSimSwap', access_token, body), 403, 'PERMISSION_DENIED');
  });

  test('invalid purposes cannot be registered', async () => {
    for (const purposes of [
      ['FraudPreventionAndDetection'], ['dpv:'], ['dpv:fraud prevention'], ['dpv:A#sim-swap'], [''], [1], PURPOSE,
    ]) {
      const configuration = { camara: { purposes } };
      await assert.rejects(createCamaraClient(ringtrue, { configuration }), /400/, `${purposes}`);
    }
  });

  test('scopes of Ringtrue’s own API stay as they are, and apart', async () => {
    const { access_token } = await client.tokensByCredentials('sim_swap');
    const number = nextNumber();
    const path = `${ringtrue.base_url}/v1/sim-swap-checks`;
    const create = (token) => fetch(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ phone_number: number }),
    });
    assert.equal((await create(access_token)).status, 201);
    assertApiError(await client.call('checkSimSwap', access_token, { phoneNumber: number }), 401, 'UNAUTHENTICATED');
    for (const token of [
      await accessToken(client.tokensByCredentials(scoped(SIM_SWAP))),
      await accessToken(client.tokensByCiba(scoped(SIM_SWAP), number)),
    ]) {
      assert.equal((await create(token)).status, 401);
      const headers = { authorization: `Bearer ${token}` };
      assert.equal((await fetch(`${ringtrue.base_url}/oauth2/userinfo`, { headers })).status, 401);
    }
  });
});

describe('CIBA', () => {
  const start = (own, fields, number = nextNumber()) =>
    own.backchannel({ scope: scoped(CHECK), login_hint: `tel:${number}`, ...fields });

  test('a request is accepted, and its first poll yields the token', async () => {
    const number = nextNumber('01');
    const started = await start(client, { scope: `openid ${scoped(CHECK)}` }, number);
    assert.equal(started.status, 200, JSON.stringify(started.body));
    assert.match(started.headers.get('cache-control'), /no-store/);
    const { auth_req_id, expires_in, interval } = started.body;
    // CIBA, section 7.3.
    assert.match(auth_req_id, /^[\w.-]{22,}$/);
    assert.ok(Number.isInteger(expires_in) && expires_in > 0 && expires_in <= 300);
    assert.ok(Number.isInteger(interval) && interval > 0);
    const { status, body } = await client.poll(auth_req_id);
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.refresh_token, undefined);
    assert.ok(body.expires_in > 0);
    assert.equal(claimsOf(body.id_token).aud, client.client_id);
    assert.deepEqual((await client.call('checkSimSwap', body.access_token, {})).body, { swapped: true });
  });

  test('hints that name no number here are unknown users', async () => {
    for (const login_hint of [
      'ipport:80.90.34.2:16790', 'ipport:80.90.34.2', 'ipport:[2001:db8::1]:8080', 'ipport:[2001:db8::1]',
      'operatortoken:abc', 'tel:+99912345678',
    ]) {
      assertOAuthError(await start(client, { login_hint }), 400, 'unknown_user_id');
    }
  });

  test('exactly one hint, and a well-formed one', async () => {
    const number = nextNumber();
    for (const fields of [
      { login_hint: undefined },
      { login_hint: undefined, login_hint_token: 'x' },
      { login_hint: undefined, id_token_hint: 'x' },
      { id_token_hint: 'x' },
      { login_hint_token: 'x' },
      { login_hint: 'tel:' },
      { login_hint: number },
      { login_hint: `tel:${number.slice(1)}` },
      { login_hint: `tel:${number.slice(0, 4)}-${number.slice(4)}` },
      { login_hint: `TEL ${number}` },
      { login_hint: 'mailto:a@b.example' },
      { login_hint: 'ipport:' },
    ]) {
      const answer = await start(client, fields, number);
      assert.equal(answer.status, 400, JSON.stringify(fields));
      const { error } = answer.body;
      assert.ok(['invalid_request', 'unknown_user_id'].includes(error), `${JSON.stringify(fields)}: ${error}`);
      if (!fields.login_hint) assert.equal(answer.body.error, 'invalid_request', JSON.stringify(fields));
    }
  });

  test('what is not implemented is ignored', async () => {
    const more = { binding_message: 'W4SCT', user_code: '1234', requested_expiry: '60', acr_values: '3', unknown: 'x' };
    assert.equal((await start(client, more)).status, 200);
  });

  test('the client authenticates', async () => {
    const fields = { scope: scoped(CHECK), login_hint: `tel:${nextNumber()}` };
    const foreign = await keyPair('ES256');
    const signer = { ...foreign, kid: client.signer.kid };
    for (const authentication of [
      {},
      { client_id: client.client_id },
      { client_id: client.client_id, client_secret: client.client_secret },
      await client.asserted('/oauth2/bc-authorize', {}, signer),
      await client.asserted('/oauth2/bc-authorize', { iat: client.now - 300, exp: client.now - 60 }),
    ]) {
      const answer = await client.post('/oauth2/bc-authorize', { ...fields, ...authentication });
      assertOAuthError(answer, 401, 'invalid_client');
    }
    for (const path of ['/oauth2/bc-authorize', '']) {
      const authentication = await client.asserted(path);
      assert.equal((await client.post('/oauth2/bc-authorize', { ...fields, ...authentication })).status, 200, path);
    }
  });

  test('a signed request is accepted, and its parameters are those of the object', async () => {
    const number = nextNumber('01');
    const sign = (more, signer) => client.sign(client.claims({
      aud: `${ringtrue.base_url}/oauth2/bc-authorize`, scope: scoped(CHECK), login_hint: `tel:${number}`, ...more,
    }), {}, signer);
    for (const aud of [`${ringtrue.base_url}/oauth2/bc-authorize`, ringtrue.base_url]) {
      const started = await client.backchannel({ request: await sign({ aud }) });
      assert.equal(started.status, 200, JSON.stringify(started.body));
      const { body } = await client.poll(started.body.auth_req_id);
      assert.deepEqual((await client.call('checkSimSwap', body.access_token, {})).body, { swapped: true });
    }
    const foreign = await keyPair('ES256');
    const { now } = client;
    for (const [name, request] of Object.entries({
      expired: await sign({ iat: now - 400, exp: now - 200 }),
      'issued in the future': await sign({ iat: now + 120, exp: now + 200 }),
      'longer than 300 seconds': await sign({ exp: now + 301 }),
      'without jti': await sign({ jti: undefined }),
      'without aud': await sign({ aud: undefined }),
      'without exp': await sign({ exp: undefined }),
      'without iat': await sign({ iat: undefined }),
      'for the authorization endpoint of somebody else': await sign({ aud: 'https://operator.example' }),
      'of another client': await sign({ iss: 'somebody' }),
      'of another key': await sign({}, { ...foreign, kid: client.signer.kid }),
      'that is no JWT': 'x',
    })) {
      const answer = await client.backchannel({ request });
      assert.equal(answer.body.error, 'invalid_request_object', `${name}: ${JSON.stringify(answer.body)}`);
      assert.equal(answer.status, 400);
    }
  });

  test('a request yields one token, to its client', async () => {
    const other = await createCamaraClient(ringtrue);
    const { body: { auth_req_id } } = await start(client);
    assertOAuthError(await other.poll(auth_req_id), 400, 'invalid_grant');
    assert.equal((await client.poll(auth_req_id)).status, 200);
    assertOAuthError(await client.poll(auth_req_id), 400, 'invalid_grant');
    for (const unknown of ['unknown', `${auth_req_id}x`]) {
      assertOAuthError(await client.poll(unknown), 400, 'invalid_grant');
    }
    assertOAuthError(await client.requestToken({ grant_type: CIBA }), 400, 'invalid_request');
  });

  test('many poll at the same time, and one gets the token', async () => {
    const { body: { auth_req_id } } = await start(client);
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.poll(auth_req_id)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    for (const { status } of answers) assert.ok(status === 200 || status === 400);
  });

  test('a request that has expired', async () => {
    assertOAuthError(await past.client.poll(past.auth_req_id), 400, 'expired_token');
  });
});

describe('JWT bearer', () => {
  test('an assertion authenticates the client, and yields a token for its number', async () => {
    const number = nextNumber('01');
    const { status, headers, body } = await client.exchange(client.grantClaims(scoped(CHECK), number));
    assert.equal(status, 200, JSON.stringify(body));
    assert.match(headers.get('cache-control'), /no-store/);
    assert.equal(body.refresh_token, undefined);
    assert.ok(body.expires_in > 0 && body.expires_in <= 300, 'short-lived');
    assert.deepEqual((await client.call('checkSimSwap', body.access_token, {})).body, { swapped: true });
  });

  test('an assertion that is not as the profile demands is refused', async () => {
    const { now } = client;
    const number = nextNumber();
    for (const [name, more] of Object.entries({
      expired: { iat: now - 400, exp: now - 200 },
      'that expires later than in 300 seconds': { iat: now, exp: now + 400 },
      'longer than 300 seconds, from the past': { iat: now - 200, exp: now + 200 },
      'issued in the future': { iat: now + 120, exp: now + 200 },
      'without exp': { exp: undefined },
      'without iat': { iat: undefined },
      'without jti': { jti: undefined },
      'without aud': { aud: undefined },
      'for another endpoint': { aud: `${ringtrue.base_url}/oauth2/bc-authorize` },
      'for the issuer': { aud: ringtrue.base_url },
      'for somebody else': { aud: 'https://operator.example/token' },
      'without sub': { sub: undefined },
      'for itself': { sub: client.client_id },
      'with another kind of subject': { sub: 'ipport:80.90.34.2' },
      'with a number that is none': { sub: 'tel:+1' },
      'with an operator token': { sub: 'operatortoken:abc' },
      'with a number of no country': { sub: 'tel:+99912345678' },
    })) {
      const answer = await client.exchange(client.grantClaims(scoped(CHECK), number, more));
      const { error, error_description } = answer.body;
      assert.deepEqual([answer.status, error], [400, 'invalid_grant'], `${name}: ${error_description}`);
    }
  });

  test('an assertion of nobody, or of another key', async () => {
    const foreign = await keyPair('ES256');
    const claims = () => client.grantClaims(scoped(CHECK), nextNumber());
    for (const answer of [
      await client.exchange({ ...claims(), iss: 'somebody' }),
      await client.exchange({ ...claims(), iss: undefined }),
      await client.exchange(claims(), { signer: { ...foreign, kid: client.signer.kid } }),
      await client.exchange(claims(), { signer: foreign }),
      await client.post('/oauth2/token', { grant_type: JWT_BEARER, assertion: 'x' }),
    ]) {
      // The assertion is both: a grant (RFC 7523, section 3.1), and the authentication of the client.
      const error = `${answer.status} ${answer.body.error}`;
      assert.ok(['400 invalid_grant', '401 invalid_client'].includes(error), error);
    }
    const none = await client.post('/oauth2/token', { grant_type: JWT_BEARER });
    assertOAuthError(none, 400, 'invalid_request');
  });

  test('an assertion works once', async () => {
    const claims = client.grantClaims(scoped(CHECK), nextNumber());
    assert.equal((await client.exchange(claims)).status, 200);
    assertOAuthError(await client.exchange(claims), 400, 'invalid_grant');
    const other = client.grantClaims(scoped(CHECK), nextNumber());
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.exchange(other)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  });

  test('the scope is in the assertion, and nowhere else', async () => {
    const number = nextNumber();
    const fields = { scope: scoped(CHECK) };
    const withField = await client.exchange(client.grantClaims(scoped(CHECK), number), { fields });
    assertOAuthError(withField, 400, 'invalid_request');
    const without = await client.exchange(client.grantClaims(undefined, number));
    assert.equal(without.status, 400);
    assert.ok(['invalid_scope', 'invalid_grant'].includes(without.body.error), JSON.stringify(without.body));
  });

  test('an assertion for a client is no grant, and a grant authenticates nobody elsewhere', async () => {
    const forClient = await client.clientAssertion('/oauth2/token', { scope: scoped(CHECK) });
    const answer = await client.post('/oauth2/token', { grant_type: JWT_BEARER, assertion: forClient });
    assertOAuthError(answer, 400, 'invalid_grant');
    const grant = await client.sign(client.grantClaims(scoped(CHECK), nextNumber()));
    const asAuthentication = await client.post('/oauth2/token', {
      grant_type: 'client_credentials',
      scope: scoped(CHECK),
      client_assertion_type: ASSERTION_TYPE,
      client_assertion: grant,
    });
    assertOAuthError(asAuthentication, 401, 'invalid_client');
  });

  test('a client without keys cannot use it', async () => {
    const registered = await createClient(ringtrue, {}, { camara: { purposes: [PURPOSE] } });
    const own = new CamaraClient(ringtrue, registered, await keyPair('ES256'));
    const { status, body } = await own.exchange(own.grantClaims(scoped(CHECK), nextNumber()));
    const error = `${status} ${body.error}`;
    assert.ok(['400 invalid_grant', '400 unauthorized_client', '401 invalid_client'].includes(error), error);
  });
});

describe('client credentials', () => {
  test('a token that identifies nobody', async () => {
    const { token_type, expires_in, refresh_token, id_token, scope } = await client.tokensByCredentials(scoped(CHECK));
    assert.equal(token_type.toLowerCase(), 'bearer');
    assert.ok(expires_in > 0);
    assert.deepEqual([refresh_token, id_token], [undefined, undefined]);
    assert.deepEqual(new Set(scope.split(' ')), new Set([PURPOSE, CHECK]));
  });

  test('a scope is required', async () => {
    assertOAuthError(await client.requestToken({ grant_type: 'client_credentials' }), 400, 'invalid_request');
  });
});

describe('client authentication', () => {
  const request = (own, authentication, headers) =>
    own.post('/oauth2/token', { grant_type: 'client_credentials', scope: scoped(CHECK), ...authentication }, headers);

  test('by an assertion for the endpoint or the issuer', async () => {
    for (const path of ['/oauth2/token', '']) {
      assert.equal((await request(client, await client.asserted(path))).status, 200, path);
    }
    // `iat` should be there (profile, "Client Authentication"), and need not.
    assert.equal((await request(client, await client.asserted('/oauth2/token', { iat: undefined }))).status, 200);
  });

  test('not by an assertion that is not as the profile demands', async () => {
    const { now } = client;
    const foreign = await keyPair('ES256');
    const used = await client.asserted('/oauth2/token');
    assert.equal((await request(client, used)).status, 200);
    const sign = (claims, signer) => client.asserted('/oauth2/token', claims, signer);
    const cases = {
      'used before': used,
      expired: await sign({ iat: now - 400, exp: now - 200 }),
      'that expires later than in 300 seconds': await sign({ iat: undefined, exp: now + 400 }),
      'longer than 300 seconds, from the past': await sign({ iat: now - 200, exp: now + 200 }),
      'without exp': await sign({ exp: undefined }),
      'without jti': await sign({ jti: undefined }),
      'for somebody else': await client.asserted('/elsewhere'),
      'of another key': await sign({}, { ...foreign, kid: client.signer.kid }),
      'of another subject': await sign({ sub: 'somebody' }),
    };
    for (const [name, authentication] of Object.entries(cases)) {
      const answer = await request(client, authentication);
      assert.deepEqual([answer.status, answer.body.error], [401, 'invalid_client'], name);
    }
  });

  test('by a secret, where the project is registered so', async () => {
    const registered = await createClient(ringtrue, {}, { camara: { purposes: [PURPOSE] } });
    const own = new CamaraClient(ringtrue, registered);
    assert.ok((await own.tokensByCredentials(scoped(CHECK))).access_token);
    assert.ok((await own.tokensByCiba(scoped(CHECK), nextNumber())).access_token);
    const number = nextNumber();
    const { access_token } = await own.tokensByNetwork(scoped(VERIFY), number);
    const { body } = await own.call('phoneNumberVerify', access_token, { phoneNumber: number });
    assert.deepEqual(body, { devicePhoneNumberVerified: true });
    const keyed = { client_id: client.client_id, client_secret: client.client_secret };
    assertOAuthError(await request(client, keyed), 401, 'invalid_client');
  });
});
