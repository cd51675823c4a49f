// The modules of the OpenID Foundation's conformance plans for providers, OIDCCBasicTestPlan and OIDCCConfigTestPlan,
// under their names. The suite itself needs a Java registry and a database; these tests check what its modules check.
// A module that cannot apply is in `NOT_APPLICABLE` with its reason, which a test prints.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as oauth from 'oauth4webapi';
import { startRingtrue } from './ringtrue.mjs';
import {
  HttpBrowser, REDIRECT_URI, authorizeUrl, claimsOf, createClient, keyPair, nextNumber, redeem, userinfo,
} from './sign-in.mjs';

/** Modules that cannot apply, each with its reason. */
const NOT_APPLICABLE = {
  'oidcc-refresh-token': 'the module is skipped for providers without refresh tokens; the next test shows that there are none',
  'oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported':
    'the module is skipped for providers that do not list `none` for request objects; the next test shows that any other `request_uri` is refused with the right error',
  'oidcc-idtoken-unsigned':
    'the module is for clients registered for unsigned ID tokens; the next test shows that no project can register so',
};

/** Every module of both plans, as the suite lists them. */
const MODULES = [
  'oidcc-alternate-happy-flow', 'oidcc-claims-essential', 'oidcc-claims-locales', 'oidcc-codereuse',
  'oidcc-codereuse-30seconds', 'oidcc-discovery-endpoint-verification', 'oidcc-display-page', 'oidcc-display-popup',
  'oidcc-ensure-post-request-succeeds', 'oidcc-ensure-registered-redirect-uri',
  'oidcc-ensure-request-object-with-redirect-uri', 'oidcc-ensure-request-with-acr-values-succeeds',
  'oidcc-ensure-request-with-unknown-parameter-succeeds', 'oidcc-ensure-request-with-valid-pkce-succeeds',
  'oidcc-ensure-request-without-nonce-succeeds-for-code-flow', 'oidcc-id-token-hint', 'oidcc-idtoken-signature',
  'oidcc-idtoken-unsigned', 'oidcc-login-hint', 'oidcc-max-age-1', 'oidcc-max-age-10000', 'oidcc-prompt-login',
  'oidcc-prompt-none-logged-in', 'oidcc-prompt-none-not-logged-in', 'oidcc-refresh-token',
  'oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported', 'oidcc-response-type-missing',
  'oidcc-scope-address', 'oidcc-scope-all', 'oidcc-scope-email', 'oidcc-scope-phone', 'oidcc-scope-profile',
  'oidcc-server', 'oidcc-server-client-secret-post', 'oidcc-ui-locales',
  'oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported', 'oidcc-userinfo-get',
  'oidcc-userinfo-post-body', 'oidcc-userinfo-post-header',
];

let ringtrue;
/** A client whose browsers stay signed in, as the plan's modules about sessions expect. */
let client;
let metadata;
const tested = new Set();

before(async () => {
  ringtrue = await startRingtrue({ RINGTRUE_RATE_LIMITS__DEVICE: '1000' });
  client = await createClient(ringtrue, { session: 86_400 });
  metadata = await (await fetch(`${ringtrue.base_url}/.well-known/openid-configuration`)).json();
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Defines the test of a module. Several tests may cover one module. */
function module(name, steps) {
  tested.add(name);
  test(name, steps);
}

const newBrowser = () => new HttpBrowser(ringtrue);

/** Signs in and redeems the code. Returns the tokens, the verified claims, and the states of the pages. */
async function signIn(parameters = {}, { browser = newBrowser(), number = nextNumber(), extra = {}, options } = {}) {
  const state = crypto.randomUUID();
  const sent = { state, nonce: 'nonce-1', ...parameters };
  const url = authorizeUrl(ringtrue, client, sent);
  const { url: returned, states } = await browser.signIn(url, number, options);
  const answer = Object.fromEntries(returned.searchParams);
  assert.equal(answer.error, undefined, `${answer.error}: ${answer.error_description}`);
  assert.deepEqual([answer.state, answer.iss], [state, ringtrue.base_url]);
  const { status, body: tokens } = await redeem(ringtrue, client, { code: answer.code, ...extra });
  assert.equal(status, 200, JSON.stringify(tokens));
  const claims = await verifyIdToken(tokens.id_token, sent.nonce);
  return { tokens, claims, states, number, browser, code: answer.code };
}

/** Verifies an ID token with the published keys, and its claims as OpenID Connect Core, section 3.1.3.7 demands. */
async function verifyIdToken(token, nonce, algorithm = 'RS256') {
  const [head, body, signature] = token.split('.');
  const header = JSON.parse(Buffer.from(head, 'base64url'));
  assert.equal(header.alg, algorithm);
  const { keys } = await (await fetch(metadata.jwks_uri)).json();
  const jwk = keys.find(({ kid }) => kid === header.kid);
  assert.ok(jwk, 'the key is published');
  assert.deepEqual([jwk.use, jwk.alg], ['sig', algorithm]);
  const key = await crypto.subtle.importKey('jwk', jwk, { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }, false, ['verify']);
  const signed = Buffer.from(`${head}.${body}`);
  assert.ok(await crypto.subtle.verify('RSASSA-PKCS1-v1_5', key, Buffer.from(signature, 'base64url'), signed));
  const claims = claimsOf(token);
  assert.deepEqual([claims.iss, claims.aud], [ringtrue.base_url, client.client_id]);
  assert.equal(claims.nonce, nonce);
  assert.ok(claims.exp > claims.iat && claims.iat >= claims.auth_time);
  return claims;
}

/** Sends an authorization request that returns at once with an error, or shows a page. */
const open = (parameters, browser = newBrowser()) =>
  browser.open(authorizeUrl(ringtrue, client, { state: 'state-1', ...parameters }));

/** Asserts that the browser returns to the client with this error. */
function assertError({ url }, error) {
  assert.ok(url.href.startsWith(REDIRECT_URI), `${url} is the redirect URI`);
  const answer = Object.fromEntries(url.searchParams);
  assert.deepEqual([answer.error, answer.state, answer.iss, answer.code], [error, 'state-1', ringtrue.base_url, undefined]);
  assert.ok(answer.error_description.length > 0);
}

describe('OIDCCConfigTestPlan', () => {
  module('oidcc-discovery-endpoint-verification', async () => {
    const response = await fetch(`${ringtrue.base_url}/.well-known/openid-configuration`);
    assert.equal(response.headers.get('content-type'), 'application/json');
    assert.equal(metadata.issuer, ringtrue.base_url);
    for (const name of ['authorization', 'token', 'userinfo', 'revocation', 'pushed_authorization_request']) {
      assert.ok(metadata[`${name}_endpoint`].startsWith(`${ringtrue.base_url}/`), name);
    }
    const contains = (name, ...values) => {
      for (const value of values) assert.ok(metadata[name].includes(value), `${name} has ${value}`);
    };
    contains('scopes_supported', 'openid', 'phone', 'sim_swap');
    contains('response_types_supported', 'code');
    contains('response_modes_supported', 'query');
    contains('grant_types_supported', 'authorization_code');
    contains('subject_types_supported', 'pairwise');
    contains('id_token_signing_alg_values_supported', 'RS256', 'ES256');
    contains('token_endpoint_auth_methods_supported', 'client_secret_basic', 'client_secret_post', 'private_key_jwt');
    contains('token_endpoint_auth_signing_alg_values_supported', 'RS256', 'ES256');
    contains('claims_supported', 'sub', 'phone_number', 'phone_number_verified', 'acr', 'auth_time');
    contains('code_challenge_methods_supported', 'S256');
    contains('display_values_supported', 'page', 'popup');
    assert.ok(!metadata.request_object_signing_alg_values_supported.includes('none'));
    assert.equal(metadata.claims_parameter_supported, false);
    assert.equal(metadata.request_parameter_supported, true);
    // Its default is true, so a provider that does not fetch request objects must say so.
    assert.equal(metadata.request_uri_parameter_supported, false);
    assert.equal(metadata.authorization_response_iss_parameter_supported, true);
    const { keys } = await (await fetch(metadata.jwks_uri)).json();
    for (const key of keys) {
      assert.ok(key.kid && key.kty && key.use === 'sig', JSON.stringify(key));
      for (const secret of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']) assert.ok(!(secret in key), `no private key: ${secret}`);
    }
    assert.equal(new Set(keys.map(({ kid }) => kid)).size, keys.length, 'one key for each `kid`');
    assert.ok(keys.some(({ kty, alg }) => kty === 'EC' && alg === 'ES256'));
  });
});

describe('OIDCCBasicTestPlan', () => {
  module('oidcc-server', async () => {
    const { tokens, claims, number } = await signIn();
    assert.equal(tokens.token_type.toLowerCase(), 'bearer');
    assert.ok(tokens.expires_in > 0);
    assert.ok(!('refresh_token' in tokens));
    const digest = await crypto.subtle.digest('SHA-256', Buffer.from(tokens.access_token));
    assert.equal(claims.at_hash, Buffer.from(digest).subarray(0, 16).toString('base64url'));
    const { body } = await userinfo(ringtrue, tokens.access_token);
    assert.deepEqual(body, { sub: claims.sub, phone_number: number, phone_number_verified: true });
  });

  module('oidcc-server-client-secret-post', async () => {
    const code = await codeOf(client);
    const response = await fetch(metadata.token_endpoint, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code,
        redirect_uri: REDIRECT_URI,
        client_id: client.client_id,
        client_secret: client.client_secret,
      }),
    });
    assert.equal(response.status, 200);
    assert.match(response.headers.get('cache-control'), /no-store/);
    await verifyIdToken((await response.json()).id_token);
  });

  module('oidcc-alternate-happy-flow', async () => {
    const url = authorizeUrl(ringtrue, client, { scope: 'phone openid', state: 'state-1' });
    const reversed = [...url.searchParams].reverse();
    url.search = new URLSearchParams(reversed).toString();
    const { url: returned } = await newBrowser().signIn(url, nextNumber());
    const { status, body } = await redeem(ringtrue, client, { code: returned.searchParams.get('code') });
    assert.equal(status, 200);
    assert.equal((await verifyIdToken(body.id_token)).phone_number_verified, true);
  });

  module('oidcc-codereuse', async () => {
    const { code } = await signIn();
    const { status, body } = await redeem(ringtrue, client, { code });
    assert.deepEqual([status, body.error], [400, 'invalid_grant']);
  });

  // The suite waits for 30 seconds, so that a provider with a cache forgets. Here nothing depends on the time: the code
  // is a row, which the first use changes. The tests of the store move the clock.
  module('oidcc-codereuse-30seconds', async () => {
    const { code, tokens } = await signIn();
    assert.equal((await userinfo(ringtrue, tokens.access_token)).status, 200);
    for (let use = 2; use < 4; use += 1) {
      const { status, body } = await redeem(ringtrue, client, { code });
      assert.deepEqual([status, body.error], [400, 'invalid_grant'], `use ${use}`);
    }
    const revoked = await userinfo(ringtrue, tokens.access_token);
    assert.equal(revoked.status, 401);
    assert.match(revoked.headers.get('www-authenticate'), /^Bearer .*error="invalid_token"/);
  });

  // The metadata says that the parameter is not supported, so the claim may be missing. The request must succeed.
  module('oidcc-claims-essential', async () => {
    const { claims, tokens } = await signIn({ claims: JSON.stringify({ userinfo: { name: { essential: true } } }) });
    const { body } = await userinfo(ringtrue, tokens.access_token);
    assert.deepEqual([body.sub, 'name' in body, 'name' in claims], [claims.sub, false, false]);
  });

  module('oidcc-claims-locales', () => signIn({ claims_locales: 'se' }));

  for (const display of ['page', 'popup']) {
    module(`oidcc-display-${display}`, async () => {
      const { states } = await signIn({ display });
      assert.ok(states.length > 0, 'the user saw a page');
    });
  }

  module('oidcc-ensure-post-request-succeeds', async () => {
    const url = authorizeUrl(ringtrue, client, { state: 'state-1' });
    const { url: returned } = await newBrowser().signIn(`${url.origin}${url.pathname}`, nextNumber(), {
      method: 'POST',
      // The client's site sends the form.
      headers: { origin: 'http://127.0.0.1:9' },
      body: url.searchParams,
    });
    assert.equal(returned.searchParams.get('state'), 'state-1');
    const { status } = await redeem(ringtrue, client, { code: returned.searchParams.get('code') });
    assert.equal(status, 200);
  });

  module('oidcc-ensure-registered-redirect-uri', async () => {
    const { url, status, html } = await open({ redirect_uri: 'http://127.0.0.1:9/other' });
    assert.equal(status, 400);
    assert.equal(url.pathname, '/oauth2/authorize', 'the browser stays');
    assert.match(html, /redirect_uri/);
  });

  module('oidcc-ensure-request-object-with-redirect-uri', async () => {
    const { key, kid, jwks } = await keyPair('RS256');
    const other = 'http://127.0.0.1:9/from-the-object';
    const signer = await createClient(ringtrue, { redirect_uris: [REDIRECT_URI, other], jwks });
    const object = await oauth.issueRequestObject(
      { issuer: metadata.issuer },
      { client_id: signer.client_id },
      { response_type: 'code', redirect_uri: other, scope: 'openid' },
      { key, kid },
    );
    const url = authorizeUrl(ringtrue, signer, { request: object, redirect_uri: REDIRECT_URI });
    const { url: returned } = await newBrowser().signIn(url, nextNumber());
    assert.ok(returned.href.startsWith(`${other}?`), 'the one in the request object counts');
    const fields = { code: returned.searchParams.get('code'), redirect_uri: other };
    assert.equal((await redeem(ringtrue, signer, fields)).status, 200);
  });

  module('oidcc-ensure-request-with-acr-values-succeeds', async () => {
    const { claims } = await signIn({ acr_values: metadata.acr_values_supported.join(' ') });
    assert.ok(metadata.acr_values_supported.includes(claims.acr));
  });

  module('oidcc-ensure-request-with-unknown-parameter-succeeds', () => signIn({ extra: 'foobar' }));

  module('oidcc-ensure-request-with-valid-pkce-succeeds', async () => {
    const code_verifier = oauth.generateRandomCodeVerifier();
    const code_challenge = await oauth.calculatePKCECodeChallenge(code_verifier);
    await signIn({ code_challenge, code_challenge_method: 'S256' }, { extra: { code_verifier } });
  });

  module('oidcc-ensure-request-without-nonce-succeeds-for-code-flow', async () => {
    const { claims } = await signIn({ nonce: undefined });
    assert.ok(!('nonce' in claims));
  });

  module('oidcc-id-token-hint', async () => {
    const first = await signIn();
    const hint = { prompt: 'none', id_token_hint: first.tokens.id_token };
    const second = await signIn(hint, first);
    assert.deepEqual(second.states, [], 'the user saw no page');
    assert.deepEqual([second.claims.sub, second.claims.auth_time], [first.claims.sub, first.claims.auth_time]);
    // Another user's session does not answer.
    const stranger = await signIn();
    assertError(await open(hint, stranger.browser), 'login_required');
  });

  module('oidcc-idtoken-signature', async () => {
    const { tokens } = await signIn();
    const [head, , signature] = tokens.id_token.split('.');
    await verifyIdToken(tokens.id_token, 'nonce-1');
    const claims = { ...claimsOf(tokens.id_token), sub: 'somebody else' };
    const forged = [head, Buffer.from(JSON.stringify(claims)).toString('base64url'), signature].join('.');
    await assert.rejects(verifyIdToken(forged, 'nonce-1'), /assert\.ok|false/);
  });

  module('oidcc-idtoken-unsigned', async () => {
    await assert.rejects(createClient(ringtrue, { id_token_signed_response_alg: 'none' }), /400/);
    assert.ok(!metadata.id_token_signing_alg_values_supported.includes('none'));
  });

  module('oidcc-login-hint', async () => {
    await signIn({ login_hint: `buffy@${new URL(ringtrue.base_url).host}` });
    const number = nextNumber();
    for (const hint of [number, `tel:${number}`]) {
      const { html } = await open({ login_hint: hint });
      assert.ok(html.includes(`value="${number}"`), 'the number is filled in');
    }
  });

  // The suite waits for a second, so that the first proof is too old. With `max_age=0`, every proof is: OpenID Connect
  // Core gives it the meaning of `prompt=login`.
  module('oidcc-max-age-1', async () => {
    const first = await signIn();
    const second = await signIn({ max_age: '0' }, { browser: first.browser, number: first.number });
    assert.ok(second.states.length > 0, 'the user proved the number again');
    assert.equal(second.claims.sub, first.claims.sub);
    assert.equal(typeof second.claims.auth_time, 'number');
    assert.ok(second.claims.auth_time >= first.claims.auth_time);
  });

  module('oidcc-max-age-10000', async () => {
    const first = await signIn({ max_age: '15000' });
    assert.equal(typeof first.claims.auth_time, 'number');
    const second = await signIn({ max_age: '10000' }, first);
    assert.deepEqual(second.states, [], 'the user saw no page');
    assert.deepEqual([second.claims.sub, second.claims.auth_time], [first.claims.sub, first.claims.auth_time]);
  });

  module('oidcc-prompt-login', async () => {
    const first = await signIn();
    const second = await signIn({ prompt: 'login' }, { browser: first.browser, number: first.number });
    assert.ok(second.states.length > 0, 'the user proved the number again');
    assert.equal(second.claims.sub, first.claims.sub);
    assert.ok(second.claims.auth_time >= first.claims.auth_time);
  });

  module('oidcc-prompt-none-logged-in', async () => {
    const first = await signIn();
    const second = await signIn({ prompt: 'none' }, first);
    assert.deepEqual(second.states, [], 'the user saw no page');
    const { sub, acr, auth_time } = first.claims;
    assert.deepEqual([second.claims.sub, second.claims.acr, second.claims.auth_time], [sub, acr, auth_time]);
  });

  module('oidcc-prompt-none-not-logged-in', async () => {
    assertError(await open({ prompt: 'none' }), 'login_required');
  });

  module('oidcc-refresh-token', async () => {
    const { tokens } = await signIn({ scope: 'openid phone offline_access' });
    assert.ok(!('refresh_token' in tokens));
    assert.ok(!metadata.grant_types_supported.includes('refresh_token'));
    assert.ok(!metadata.scopes_supported.includes('offline_access'));
    const { status, body } = await redeem(ringtrue, client, { grant_type: 'refresh_token', refresh_token: 'x' });
    assert.deepEqual([status, body.error], [400, 'unsupported_grant_type']);
  });

  module('oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported', async () => {
    assertError(await open({ request_uri: `${ringtrue.base_url}/request.jwt` }), 'request_uri_not_supported');
  });

  module('oidcc-response-type-missing', async () => {
    assertError(await open({ response_type: undefined }), 'invalid_request');
    assertError(await open({ response_type: 'token' }), 'unsupported_response_type');
    assertError(await open({ response_type: 'code id_token' }), 'unsupported_response_type');
  });

  for (const [name, scope] of [
    ['address', 'openid address'],
    ['email', 'openid email'],
    ['profile', 'openid profile'],
    ['all', 'openid address email phone profile'],
    ['phone', 'openid phone'],
  ]) {
    module(`oidcc-scope-${name}`, async () => {
      const { tokens, claims, number } = await signIn({ scope });
      const { body } = await userinfo(ringtrue, tokens.access_token);
      const hasPhone = scope.includes('phone');
      const phone = { phone_number: number, phone_number_verified: true };
      // Scopes whose claims nobody has are not granted.
      assert.deepEqual(body, { sub: claims.sub, ...(hasPhone && phone) });
      assert.equal(tokens.scope, hasPhone ? 'openid phone' : 'openid');
      assert.equal('phone_number' in claims, hasPhone);
    });
  }

  module('oidcc-ui-locales', async () => {
    await signIn({ ui_locales: 'se' });
    const { html } = await open({ ui_locales: 'se de-AT fr' });
    assert.match(html, /<html lang="de"/);
  });

  module('oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported', async () => {
    const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = { client_id: client.client_id, response_type: 'code', redirect_uri: REDIRECT_URI, scope: 'openid' };
    assertError(await open({ request: `${encode({ alg: 'none' })}.${encode(claims)}.` }), 'request_not_supported');
  });

  module('oidcc-userinfo-get', async () => {
    const { tokens, claims } = await signIn();
    const { status, headers, body } = await userinfo(ringtrue, tokens.access_token);
    assert.deepEqual([status, body.sub], [200, claims.sub]);
    assert.equal(headers.get('content-type'), 'application/json');
    const missing = await userinfo(ringtrue);
    assert.deepEqual([missing.status, missing.headers.get('www-authenticate')], [401, 'Bearer']);
  });

  module('oidcc-userinfo-post-header', async () => {
    const { tokens, claims } = await signIn();
    const { status, body } = await userinfo(ringtrue, tokens.access_token, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.access_token}` },
    });
    assert.deepEqual([status, body.sub], [200, claims.sub]);
  });

  module('oidcc-userinfo-post-body', async () => {
    const { tokens, claims } = await signIn();
    const form = new URLSearchParams({ access_token: tokens.access_token });
    const { status, body } = await userinfo(ringtrue, undefined, { method: 'POST', body: form });
    assert.deepEqual([status, body.sub], [200, claims.sub]);
  });
});

test('every module has a test, or a reason', (context) => {
  assert.deepEqual(MODULES.filter((name) => !tested.has(name)), []);
  assert.deepEqual([...tested].filter((name) => !MODULES.includes(name)), []);
  for (const [name, reason] of Object.entries(NOT_APPLICABLE)) {
    assert.ok(MODULES.includes(name), name);
    context.diagnostic(`not applicable: ${name}: ${reason}`);
  }
});

/** Signs in at a client, and returns the code. */
async function codeOf(client) {
  const { url } = await newBrowser().signIn(authorizeUrl(ringtrue, client), nextNumber());
  return url.searchParams.get('code');
}
