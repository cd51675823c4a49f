// npm `openid-client`, unmodified, as a client of the simulated operator. It prints its public key, reads the issuer
// from stdin, obtains tokens by every supported grant, and prints each result as a line of JSON.
import { createInterface } from 'node:readline';
import * as client from 'openid-client';

const id = 'openid-client';
const redirectUri = 'https://client.example/back';
const purpose = 'dpv:FraudPreventionAndDetection';
const print = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

const algorithm = { name: 'ECDSA', namedCurve: 'P-256' };
const { privateKey, publicKey } = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
const key = { key: privateKey, kid: 'its key' };
print({ ...(await crypto.subtle.exportKey('jwk', publicKey)), kid: key.kid });

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { issuer, sims } = JSON.parse((await lines.next()).value);
const config = await client.discovery(new URL(issuer), id, undefined, client.PrivateKeyJwt(key), {
  execute: [client.allowInsecureRequests],
});
const api = (path) => new URL(path, issuer);

async function call(token, method, path, body) {
  const headers = new Headers(body ? { 'content-type': 'application/json' } : {});
  const response = await client.fetchProtectedResource(config, token, api(path), method, body && JSON.stringify(body), headers);
  return response.json();
}

// Opens the authorization URL as the device does, and returns the redirect back to the client.
async function followRedirect(url) {
  const response = await fetch(url, { redirect: 'manual' });
  return new URL(response.headers.get('location'));
}

async function grantByCode(sim, scope, signed) {
  const verifier = client.randomPKCECodeVerifier();
  const parameters = {
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: `openid ${purpose} ${scope}`,
    state: client.randomState(),
    nonce: client.randomNonce(),
    prompt: 'none',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    login_hint: `tel:${sim}`,
  };
  let url;
  if (signed) {
    url = await client.buildAuthorizationUrlWithJAR(config, parameters, key);
    // CAMARA's profile also requires these outside the request object.
    for (const name of ['response_type', 'redirect_uri', 'scope']) url.searchParams.set(name, parameters[name]);
  } else {
    url = client.buildAuthorizationUrl(config, parameters);
  }
  const checks = {
    pkceCodeVerifier: verifier,
    expectedState: parameters.state,
    expectedNonce: parameters.nonce,
    idTokenExpected: true,
  };
  return client.authorizationCodeGrant(config, await followRedirect(url), checks);
}

for (const signed of [false, true]) {
  const tokens = await grantByCode(sims.even, 'number-verification:verify', signed);
  const body = { phoneNumber: sims.even };
  print({ verified: await call(tokens.access_token, 'POST', '/number-verification/v2/verify', body), claims: tokens.claims() });
}
const shared = await grantByCode(sims.even, 'number-verification:device-phone-number:read', false);
print({ shared: await call(shared.access_token, 'GET', '/number-verification/v2/device-phone-number') });

const refused = await grantByCode(sims.odd, 'number-verification:device-phone-number:read', false).catch((error) => error);
print({ refused: refused.error });

const own = await client.clientCredentialsGrant(config, { scope: `${purpose} sim-swap` });
print({ own: await call(own.access_token, 'POST', '/sim-swap/v2/check', { phoneNumber: sims.odd }) });

const started = await client.initiateBackchannelAuthentication(config, {
  scope: `openid ${purpose} sim-swap`,
  login_hint: `tel:${sims.odd}`,
});
const polled = await client.pollBackchannelAuthenticationGrant(config, started);
print({ polled: await call(polled.access_token, 'POST', '/sim-swap/v2/check', { maxAge: 24 }), claims: polled.claims() });

process.exit(0);
