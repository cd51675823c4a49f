// npm `openid-client`, unmodified, as a client of an operator. It prints its public key, is told the issuer on stdin,
// goes every way to a token that there is, and prints what it got, one JSON text a line.
import { createInterface } from 'node:readline';
import * as client from 'openid-client';

const id = 'openid-client';
const redirectUri = 'https://client.example/back';
const purpose = 'dpv:FraudPreventionAndDetection';
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

const algorithm = { name: 'ECDSA', namedCurve: 'P-256' };
const { privateKey, publicKey } = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
const key = { key: privateKey, kid: 'its key' };
say({ ...(await crypto.subtle.exportKey('jwk', publicKey)), kid: key.kid });

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { issuer, sims } = JSON.parse((await lines.next()).value);
const config = await client.discovery(new URL(issuer), id, undefined, client.PrivateKeyJwt(key), {
  execute: [client.allowInsecureRequests],
});
const api = (path) => new URL(path, issuer);

async function call(token, method, path, body) {
  const headers = new Headers(body ? { 'content-type': 'application/json' } : {});
  const answer = await client.fetchProtectedResource(config, token, api(path), method, body && JSON.stringify(body), headers);
  return answer.json();
}

// The device: it goes where it is sent, and comes back.
async function device(url) {
  const answer = await fetch(url, { redirect: 'manual' });
  return new URL(answer.headers.get('location'));
}

async function byCode(sim, scope, signed) {
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
    // CAMARA's profile has these beside the object too.
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
  return client.authorizationCodeGrant(config, await device(url), checks);
}

for (const signed of [false, true]) {
  const tokens = await byCode(sims.even, 'number-verification:verify', signed);
  const body = { phoneNumber: sims.even };
  say({ verified: await call(tokens.access_token, 'POST', '/number-verification/v2/verify', body), claims: tokens.claims() });
}
const shared = await byCode(sims.even, 'number-verification:device-phone-number:read', false);
say({ shared: await call(shared.access_token, 'GET', '/number-verification/v2/device-phone-number') });

const refused = await byCode(sims.odd, 'number-verification:device-phone-number:read', false).catch((error) => error);
say({ refused: refused.error });

const own = await client.clientCredentialsGrant(config, { scope: `${purpose} sim-swap` });
say({ own: await call(own.access_token, 'POST', '/sim-swap/v2/check', { phoneNumber: sims.odd }) });

const begun = await client.initiateBackchannelAuthentication(config, {
  scope: `openid ${purpose} sim-swap`,
  login_hint: `tel:${sims.odd}`,
});
const polled = await client.pollBackchannelAuthenticationGrant(config, begun);
say({ polled: await call(polled.access_token, 'POST', '/sim-swap/v2/check', { maxAge: 24 }), claims: polled.claims() });

process.exit(0);
