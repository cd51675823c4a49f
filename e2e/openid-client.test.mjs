// npm `openid-client`, unmodified, against the token endpoints, and as a relying party of sign-ins.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as client from 'openid-client';
import { startRingtrue } from './ringtrue.mjs';
import { HttpBrowser, createClient, keyPair, nextNumber } from './sign-in.mjs';

// The library drops the query of the redirect URI when it redeems a code, so this one has none.
const REDIRECT_URI = 'http://127.0.0.1:9/callback';

let ringtrue;
before(async () => {
  ringtrue = await startRingtrue();
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

// `oauth2` selects RFC 8414 discovery. `ringtrue dev` uses plain HTTP on loopback.
function discover({ client_id, client_secret }, authentication = client.ClientSecretBasic(client_secret)) {
  return client.discovery(
    new URL(ringtrue.base_url),
    client_id,
    undefined,
    authentication,
    { algorithm: 'oauth2', execute: [client.allowInsecureRequests] },
  );
}

test('discovery returns the endpoints', async () => {
  const config = await discover(ringtrue.project);
  const metadata = config.serverMetadata();
  assert.equal(metadata.issuer, ringtrue.base_url);
  assert.equal(metadata.token_endpoint, `${ringtrue.base_url}/oauth2/token`);
  assert.ok(metadata.scopes_supported.includes('reverse_sms'));
});

test('token of the client credentials grant is accepted by the API', async () => {
  const config = await discover(ringtrue.workspace);
  const tokens = await client.clientCredentialsGrant(config, { scope: 'management' });
  assert.equal(tokens.token_type, 'bearer');
  assert.equal(tokens.expires_in, 3600);
  assert.equal(tokens.scope, 'management');

  const response = await client.fetchProtectedResource(
    config,
    tokens.access_token,
    new URL(`${ringtrue.base_url}/v1/management/workspaces`),
    'GET',
  );
  const page = await response.json();
  assert.equal(page.content[0].workspace_id, ringtrue.workspace.workspace_id);
});

test('client_secret_post, the default of the library, issues and revokes tokens', async () => {
  const { client_id, client_secret } = ringtrue.workspace;
  const config = await client.discovery(new URL(ringtrue.base_url), client_id, client_secret, undefined, {
    algorithm: 'oauth2',
    execute: [client.allowInsecureRequests],
  });
  assert.ok(config.serverMetadata().token_endpoint_auth_methods_supported.includes('client_secret_post'));
  const { access_token } = await client.clientCredentialsGrant(config, { scope: 'management' });
  const url = new URL(`${ringtrue.base_url}/v1/management/workspaces`);
  assert.equal((await client.fetchProtectedResource(config, access_token, url, 'GET')).status, 200);
  await client.tokenRevocation(config, access_token);
  await assert.rejects(client.fetchProtectedResource(config, access_token, url, 'GET'));

  const posted = await discover(ringtrue.project, client.ClientSecretPost('wrong'));
  await assert.rejects(client.clientCredentialsGrant(posted, { scope: 'reverse_sms' }), { status: 401 });
});

test('revoked token is rejected', async () => {
  const config = await discover(ringtrue.workspace);
  const { access_token } = await client.clientCredentialsGrant(config, { scope: 'management' });
  await client.tokenRevocation(config, access_token);
  const url = new URL(`${ringtrue.base_url}/v1/management/workspaces`);
  await assert.rejects(client.fetchProtectedResource(config, access_token, url, 'GET'), (error) => {
    assert.ok(error instanceof client.WWWAuthenticateChallengeError);
    assert.equal(error.cause[0].scheme, 'bearer');
    assert.equal(error.cause[0].parameters.error, 'invalid_token');
    return true;
  });
});

test('wrong secret maps to the error of the library', async () => {
  const config = await discover({ ...ringtrue.project, client_secret: 'wrong' });
  await assert.rejects(client.clientCredentialsGrant(config, { scope: 'reverse_sms' }), (error) => {
    // The library maps a 401 by its challenge.
    assert.ok(error instanceof client.WWWAuthenticateChallengeError, `${error}`);
    assert.equal(error.cause[0].scheme, 'basic');
    assert.equal(error.status, 401);
    return true;
  });
});

test('invalid scope maps to the error of the library', async () => {
  const config = await discover(ringtrue.project);
  for (const scope of ['management', 'no_such_scope', 'reverse_sms sim_swap']) {
    await assert.rejects(client.clientCredentialsGrant(config, { scope }), (error) => {
      assert.ok(error instanceof client.ResponseBodyError, `${error}`);
      assert.equal(error.error, 'invalid_scope');
      assert.equal(error.status, 400);
      assert.ok(error.error_description.length > 0);
      return true;
    });
  }
});

/** A relying party in a new sandbox project, which verifies the signatures of ID tokens. */
async function relyingParty(settings, authentication, metadata) {
  const registered = await createClient(ringtrue, { redirect_uris: [REDIRECT_URI], ...settings });
  const config = await client.discovery(
    new URL(ringtrue.base_url),
    registered.client_id,
    metadata,
    authentication?.(registered) ?? client.ClientSecretBasic(registered.client_secret),
    { execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks] },
  );
  return config;
}

/** Signs a user in, with every check that the library has, and returns the tokens and the parameters of the return. */
async function signIn(config, buildUrl, { parameters, number = nextNumber() } = {}) {
  const checks = {
    pkceCodeVerifier: client.randomPKCECodeVerifier(),
    expectedState: client.randomState(),
    expectedNonce: client.randomNonce(),
    idTokenExpected: true,
  };
  const url = await buildUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: 'openid phone',
    state: checks.expectedState,
    nonce: checks.expectedNonce,
    code_challenge: await client.calculatePKCECodeChallenge(checks.pkceCodeVerifier),
    code_challenge_method: 'S256',
    ...parameters,
  });
  const returned = (await new HttpBrowser(ringtrue).signIn(url, number)).url;
  assert.equal(returned.searchParams.get('iss'), ringtrue.base_url);
  const tokens = await client.authorizationCodeGrant(config, returned, checks);
  return { tokens, checks, returned, number, url };
}

test('sign-in: discovery as an OpenID provider', async () => {
  const config = await relyingParty();
  const metadata = config.serverMetadata();
  assert.equal(metadata.issuer, ringtrue.base_url);
  assert.equal(metadata.authorization_response_iss_parameter_supported, true);
  assert.ok(metadata.supportsPKCE());
});

test('sign-in: code flow with PKCE, state, nonce and iss; userinfo', async () => {
  const config = await relyingParty();
  const { tokens, checks, returned, number } = await signIn(config, client.buildAuthorizationUrl);
  const claims = tokens.claims();
  assert.equal(tokens.token_type, 'bearer');
  assert.equal(tokens.expires_in, 300);
  assert.deepEqual(
    [claims.iss, claims.aud, claims.phone_number, claims.phone_number_verified, claims.acr, claims.amr],
    [ringtrue.base_url, config.clientMetadata().client_id, number, true, 'urn:ringtrue:silent', undefined],
  );
  assert.match(claims.sub, /^[\w-]{43}$/);
  const user = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
  assert.deepEqual(user, { sub: claims.sub, phone_number: number, phone_number_verified: true });
  await assert.rejects(client.fetchUserInfo(config, tokens.access_token, 'somebody else'));

  // The second use fails, and takes the access token back.
  await assert.rejects(client.authorizationCodeGrant(config, returned, checks), { error: 'invalid_grant' });
  await assert.rejects(client.fetchUserInfo(config, tokens.access_token, claims.sub), (error) => {
    assert.equal(error.cause[0].parameters.error, 'invalid_token');
    return true;
  });
});

test('sign-in: the library notices a changed state, issuer, nonce and code verifier', async () => {
  const config = await relyingParty();
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: 'openid',
    state: 'right',
    nonce: 'right',
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  });
  const returned = (await new HttpBrowser(ringtrue).signIn(url, nextNumber())).url;
  const checks = { pkceCodeVerifier, expectedState: 'right', expectedNonce: 'right' };
  const changed = (name, value) => {
    const url = new URL(returned);
    url.searchParams.set(name, value);
    return url;
  };
  await assert.rejects(client.authorizationCodeGrant(config, changed('state', 'wrong'), checks));
  await assert.rejects(client.authorizationCodeGrant(config, changed('iss', 'http://127.0.0.1:1'), checks));
  // None of these reaches the code: a stranger's guesses must not use it up.
  const wrongVerifier = { ...checks, pkceCodeVerifier: client.randomPKCECodeVerifier() };
  await assert.rejects(client.authorizationCodeGrant(config, returned, wrongVerifier), { error: 'invalid_grant' });
  await assert.rejects(
    client.authorizationCodeGrant(config, returned, { ...checks, pkceCodeVerifier: undefined }),
    { error: 'invalid_grant' },
  );
  await assert.rejects(client.authorizationCodeGrant(config, returned, { ...checks, expectedNonce: 'wrong' }));
  await assert.rejects(client.authorizationCodeGrant(config, returned, checks), { error: 'invalid_grant' });
});

test('sign-in: an ID token signed with ES256', async () => {
  const config = await relyingParty(
    { id_token_signed_response_alg: 'ES256' },
    undefined,
    { id_token_signed_response_alg: 'ES256' },
  );
  const { tokens } = await signIn(config, client.buildAuthorizationUrl);
  const header = JSON.parse(Buffer.from(tokens.id_token.split('.')[0], 'base64url'));
  assert.equal(header.alg, 'ES256');
});

test('sign-in: client_secret_post is what the project demands', async () => {
  const settings = { token_endpoint_auth_method: 'client_secret_post' };
  const config = await relyingParty(settings, ({ client_secret }) => client.ClientSecretPost(client_secret));
  await signIn(config, client.buildAuthorizationUrl);
  const basic = await relyingParty(settings);
  await assert.rejects(signIn(basic, client.buildAuthorizationUrl), { code: 'OAUTH_WWW_AUTHENTICATE_CHALLENGE', status: 401 });
});

test('sign-in: a pushed request leaves nothing in the browser', async () => {
  const config = await relyingParty();
  const { url, number, tokens } = await signIn(config, client.buildAuthorizationUrlWithPAR);
  assert.deepEqual([...url.searchParams.keys()].sort(), ['client_id', 'request_uri']);
  assert.equal(tokens.claims().phone_number, number);
  // Once.
  const again = await new HttpBrowser(ringtrue).open(url);
  assert.equal(again.status, 400);
});

for (const algorithm of ['RS256', 'ES256']) {
  test(`sign-in: private_key_jwt, and a signed request object: ${algorithm}`, async () => {
    const { key, kid, jwks } = await keyPair(algorithm);
    const settings = { token_endpoint_auth_method: 'private_key_jwt', jwks };
    const config = await relyingParty(settings, () => client.PrivateKeyJwt({ key, kid }));
    await signIn(config, client.buildAuthorizationUrl);
    const build = (config, parameters) => client.buildAuthorizationUrlWithJAR(config, parameters, { key, kid });
    const { url } = await signIn(config, build);
    assert.deepEqual([...url.searchParams.keys()].sort(), ['client_id', 'request']);
    // A signed request, pushed by a client that authenticates by its key.
    const push = async (config, parameters) =>
      client.buildAuthorizationUrlWithPAR(config, (await build(config, parameters)).searchParams);
    await signIn(config, push);

    const other = await keyPair(algorithm);
    const forged = await client.buildAuthorizationUrlWithJAR(
      config,
      { redirect_uri: REDIRECT_URI, scope: 'openid' },
      { key: other.key, kid },
    );
    const refused = await new HttpBrowser(ringtrue).open(forged);
    assert.equal(refused.status, 400, 'the redirect URI is not proven');
  });
}

test('sign-in: a public client needs PKCE and no secret', async () => {
  const config = await relyingParty({ token_endpoint_auth_method: 'none' }, () => client.None());
  await signIn(config, client.buildAuthorizationUrl);
  const url = client.buildAuthorizationUrl(config, { redirect_uri: REDIRECT_URI, scope: 'openid' });
  const returned = (await new HttpBrowser(ringtrue).open(url)).url;
  await assert.rejects(client.authorizationCodeGrant(config, returned), (error) => {
    assert.ok(error instanceof client.AuthorizationResponseError);
    assert.equal(error.error, 'invalid_request');
    return true;
  });
});

test('sign-in: the same number has one subject in a project, and another elsewhere', async () => {
  const [one, other] = [await relyingParty(), await relyingParty()];
  const number = nextNumber();
  const subjects = [];
  for (const config of [one, one, other]) {
    const { tokens } = await signIn(config, client.buildAuthorizationUrl, { number });
    subjects.push(tokens.claims().sub);
  }
  assert.equal(subjects[0], subjects[1]);
  assert.notEqual(subjects[0], subjects[2]);
});

test('sign-in: a text message, and whether the SIM was changed', async () => {
  const config = await relyingParty({ sim_swap_period: 1440 });
  const parameters = { scope: 'openid phone sim_swap' };
  // The network of numbers that end with 96 does not support the silent check.
  const sms = await signIn(config, client.buildAuthorizationUrl, { parameters, number: nextNumber('96') });
  const { acr, amr, sim_change } = sms.tokens.claims();
  assert.deepEqual([acr, amr, sim_change], ['urn:ringtrue:sms', ['sms'], false]);
  const silent = await signIn(config, client.buildAuthorizationUrl, { parameters });
  assert.equal(silent.tokens.claims().sim_change, false);
  assert.equal(silent.tokens.scope, 'openid phone sim_swap');
});
