// npm `oauth4webapi`, unmodified, against the token endpoints, and as a relying party of sign-ins.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oauth from 'oauth4webapi';
import { startRingtrue } from './ringtrue.mjs';
import { HttpBrowser, REDIRECT_URI, createClient, keyPair, nextNumber } from './sign-in.mjs';

const allowHttp = { [oauth.allowInsecureRequests]: true };

let ringtrue;
let server;
before(async () => {
  ringtrue = await startRingtrue();
  const issuer = new URL(ringtrue.base_url);
  const response = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...allowHttp });
  server = await oauth.processDiscoveryResponse(issuer, response);
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

async function grant({ client_id, client_secret }, scope, authentication = oauth.ClientSecretBasic) {
  const client = { client_id };
  const response = await oauth.clientCredentialsGrantRequest(
    server,
    client,
    authentication(client_secret),
    new URLSearchParams({ scope }),
    allowHttp,
  );
  return oauth.processClientCredentialsResponse(server, client, response);
}

test('client credentials grant issues a token for each product', async () => {
  for (const scope of ['reverse_sms', 'secure_sna', 'discovery', 'sim_swap', 'eligibility']) {
    const tokens = await grant(ringtrue.project, scope);
    assert.equal(tokens.token_type, 'bearer');
    assert.equal(tokens.scope, scope);
  }
});

test('revocation is idempotent with both authentication methods', async () => {
  const { access_token } = await grant(ringtrue.workspace, 'management', oauth.ClientSecretPost);
  const { client_id, client_secret } = ringtrue.workspace;
  for (const authentication of [oauth.ClientSecretPost, oauth.ClientSecretBasic]) {
    const response = await oauth.revocationRequest(
      server,
      { client_id },
      authentication(client_secret),
      access_token,
      allowHttp,
    );
    await oauth.processRevocationResponse(response);
  }
  const url = new URL(`${ringtrue.base_url}/v1/management/workspaces`);
  await assert.rejects(
    oauth.protectedResourceRequest(access_token, 'GET', url, undefined, undefined, allowHttp),
    oauth.WWWAuthenticateChallengeError,
  );
});

test('wrong secret returns 401 with a challenge', async () => {
  await assert.rejects(grant({ ...ringtrue.project, client_secret: 'wrong' }, 'reverse_sms'), (error) => {
    assert.ok(error instanceof oauth.WWWAuthenticateChallengeError, `${error}`);
    assert.equal(error.cause[0].scheme, 'basic');
    return true;
  });
});

test('invalid scope returns an OAuth error body', async () => {
  await assert.rejects(grant(ringtrue.project, 'management'), (error) => {
    assert.ok(error instanceof oauth.ResponseBodyError, `${error}`);
    assert.equal(error.error, 'invalid_scope');
    return true;
  });
});

/** Signs a user in by each step of the library. `push` sends the request in advance. */
async function signIn(client, authentication, { push = false, sign, parameters = {} } = {}) {
  const issuer = new URL(ringtrue.base_url);
  const found = await oauth.discoveryRequest(issuer, { algorithm: 'oidc', ...allowHttp });
  const provider = await oauth.processDiscoveryResponse(issuer, found);
  const verifier = oauth.generateRandomCodeVerifier();
  const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()];
  let request = new URLSearchParams({
    client_id: client.client_id,
    response_type: 'code',
    redirect_uri: REDIRECT_URI,
    scope: 'openid phone',
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...parameters,
  });
  if (sign) {
    const object = await oauth.issueRequestObject(provider, client, request, sign);
    request = new URLSearchParams({ client_id: client.client_id, request: object });
  }
  if (push) {
    const response = await oauth.pushedAuthorizationRequest(provider, client, authentication, request, allowHttp);
    assert.equal(response.status, 201);
    const { request_uri, expires_in } = await oauth.processPushedAuthorizationResponse(provider, client, response);
    assert.equal(expires_in, 90);
    request = new URLSearchParams({ client_id: client.client_id, request_uri });
  }
  const url = new URL(provider.authorization_endpoint);
  url.search = request.toString();
  const number = nextNumber();
  const returned = (await new HttpBrowser(ringtrue).signIn(url, number)).url;
  const validated = oauth.validateAuthResponse(provider, client, returned, state);
  const response = await oauth.authorizationCodeGrantRequest(
    provider, client, authentication, validated, REDIRECT_URI, verifier, allowHttp,
  );
  assert.equal(response.headers.get('cache-control'), 'no-store');
  const tokens = await oauth.processAuthorizationCodeResponse(provider, client, response, {
    expectedNonce: nonce,
    requireIdToken: true,
    maxAge: 900,
  });
  await oauth.validateApplicationLevelSignature(provider, response, allowHttp);
  const claims = oauth.getValidatedIdTokenClaims(tokens);
  assert.equal(claims.phone_number, number);
  const answered = await oauth.userInfoRequest(provider, client, tokens.access_token, allowHttp);
  const user = await oauth.processUserInfoResponse(provider, client, claims.sub, answered);
  assert.equal(user.phone_number, number);
  return claims;
}

test('sign-in by each step of the library, also with a pushed request', async () => {
  const { client_id, client_secret } = await createClient(ringtrue);
  for (const push of [false, true]) {
    await signIn({ client_id }, oauth.ClientSecretBasic(client_secret), { push });
  }
});

for (const algorithm of ['RS256', 'ES256']) {
  test(`sign-in with keys in place of a secret: ${algorithm}`, async () => {
    const { key, kid, jwks } = await keyPair(algorithm);
    const { client_id } = await createClient(ringtrue, {
      token_endpoint_auth_method: 'private_key_jwt',
      id_token_signed_response_alg: algorithm,
      jwks,
    });
    const client = { client_id, id_token_signed_response_alg: algorithm };
    const sign = { key, kid };
    for (const options of [{}, { push: true }, { sign }, { sign, push: true }]) {
      await signIn(client, oauth.PrivateKeyJwt(sign), options);
    }
  });
}

test('sign-in: an assertion works once', async () => {
  const { key, kid, jwks } = await keyPair('ES256');
  const { client_id } = await createClient(ringtrue, { token_endpoint_auth_method: 'private_key_jwt', jwks });
  // Every assertion of this client has the same id.
  const jti = crypto.randomUUID();
  const repeated = oauth.PrivateKeyJwt({ key, kid }, {
    [oauth.modifyAssertion]: (_, payload) => { payload.jti = jti; },
  });
  const push = async () => {
    const request = { response_type: 'code', redirect_uri: REDIRECT_URI, scope: 'openid' };
    const issuer = new URL(ringtrue.base_url);
    const provider = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, allowHttp));
    const response = await oauth.pushedAuthorizationRequest(provider, { client_id }, repeated, request, allowHttp);
    return oauth.processPushedAuthorizationResponse(provider, { client_id }, response);
  };
  await push();
  await assert.rejects(push(), (error) => {
    assert.ok(error instanceof oauth.ResponseBodyError || error instanceof oauth.WWWAuthenticateChallengeError, `${error}`);
    assert.equal(error.status, 401);
    return true;
  });
});
