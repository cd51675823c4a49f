// A client of CAMARA's APIs, as the security profile describes it: it obtains tokens by every flow, and calls the APIs.
import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { REDIRECT_URI, createClient, keyPair } from '../sign-in.mjs';
import { Phone } from './phone.mjs';

export const PURPOSE = 'dpv:FraudPreventionAndDetection';
export const OTHER_PURPOSE = 'dpv:IdentityVerification';

/** Operations by their `operationId` in the OpenAPI documents. */
export const OPERATIONS = {
  phoneNumberVerify: {
    method: 'POST',
    path: '/number-verification/v2/verify',
    scope: 'number-verification:verify',
    product: 'secure_sna',
  },
  phoneNumberShare: {
    method: 'GET',
    path: '/number-verification/v2/device-phone-number',
    scope: 'number-verification:device-phone-number:read',
    product: 'discovery',
  },
  checkSimSwap: { method: 'POST', path: '/sim-swap/v2/check', scope: 'sim-swap:check', product: 'sim_swap' },
  retrieveSimSwapDate: {
    method: 'POST',
    path: '/sim-swap/v2/retrieve-date',
    scope: 'sim-swap:retrieve-date',
    product: 'sim_swap',
  },
};
export const VERIFY = OPERATIONS.phoneNumberVerify.scope;
export const SHARE = OPERATIONS.phoneNumberShare.scope;
export const CHECK = OPERATIONS.checkSimSwap.scope;
export const RETRIEVE_DATE = OPERATIONS.retrieveSimSwapDate.scope;
export const SIM_SWAP = 'sim-swap';

export const NOT_BY_NETWORK = 'NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK';

export const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
export const CIBA = 'urn:openid:params:grant-type:ciba';

/** A scope parameter with the purpose, and without `openid` unless it is named. */
export const scoped = (...scopes) => [PURPOSE, ...scopes].join(' ');

/** SHA-256 of a number, as `hashedPhoneNumber`. */
export const hash = (number) => createHash('sha256').update(number).digest('hex');

/** Signs a JWT with a key for ES256. Claims and header members that are undefined are left out. */
export async function signJwt(claims, { key, kid }, header = {}) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'ES256', kid, ...header })}.${part(claims)}`;
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, key, Buffer.from(signed));
  return `${signed}.${Buffer.from(signature).toString('base64url')}`;
}

/** Creates a sandbox project that is a client with a key, and may declare both purposes. */
export async function createCamaraClient(ringtrue, { signIn = {}, configuration = {}, clockOffset } = {}) {
  const { key, kid, jwks } = await keyPair('ES256');
  const registered = await createClient(
    ringtrue,
    { jwks, token_endpoint_auth_method: 'private_key_jwt', ...signIn },
    { camara: { purposes: [PURPOSE, OTHER_PURPOSE] }, ...configuration },
  );
  return new CamaraClient(ringtrue, registered, { key, kid, clockOffset });
}

export class CamaraClient {
  /** Without `key`, the client authenticates by its secret. `clockOffset` is the difference of the server's clock from
   * ours, in seconds. */
  constructor({ base_url }, registered, { key, kid, clockOffset = 0, redirectUri = REDIRECT_URI } = {}) {
    this.base_url = base_url;
    Object.assign(this, registered);
    this.signer = key && { key, kid };
    this.clockOffset = clockOffset;
    this.redirectUri = redirectUri;
  }

  get now() {
    return Math.floor(Date.now() / 1000) + this.clockOffset;
  }

  /** Claims of a JWT that the client signs. An undefined value leaves a claim out. */
  claims(more) {
    const { now } = this;
    return { iss: this.client_id, iat: now, exp: now + 300, jti: randomUUID(), ...more };
  }

  sign(claims, header, signer = this.signer) {
    return signJwt(claims, signer, header);
  }

  /** Assertion that authenticates the client at an endpoint. */
  clientAssertion(path, claims = {}, signer = this.signer) {
    return this.sign(this.claims({ sub: this.client_id, aud: `${this.base_url}${path}`, ...claims }), {}, signer);
  }

  /** Fields of a form that authenticate the client by an assertion. */
  async asserted(path, claims, signer) {
    return {
      client_assertion_type: ASSERTION_TYPE,
      client_assertion: await this.clientAssertion(path, claims, signer),
    };
  }

  /** Posts a form without authentication. */
  async post(path, fields, headers = {}) {
    const form = new URLSearchParams();
    for (const [name, value] of Object.entries(fields)) if (value !== undefined) form.append(name, value);
    const response = await fetch(`${this.base_url}${path}`, { method: 'POST', headers, body: form });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  /** Posts a form, and authenticates the client. */
  async postAuthenticated(path, fields) {
    if (this.signer) return this.post(path, { ...(await this.asserted(path)), ...fields });
    return this.post(path, fields, { authorization: `Basic ${btoa(`${this.client_id}:${this.client_secret}`)}` });
  }

  requestToken(fields) {
    return this.postAuthenticated('/oauth2/token', fields);
  }

  // Authorization code with network authentication

  /** Parameters of an authorization request, and what the client keeps for its response. */
  newAuthorization(scope, more = {}) {
    const verifier = randomBytes(32).toString('base64url');
    const parameters = {
      response_type: 'code',
      client_id: this.client_id,
      redirect_uri: this.redirectUri,
      scope,
      state: randomUUID(),
      nonce: randomUUID(),
      prompt: 'none',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      ...more,
    };
    return { verifier, parameters };
  }

  authorizeUrl(parameters) {
    const url = new URL(`${this.base_url}/oauth2/authorize`);
    for (const [name, value] of Object.entries(parameters)) if (value !== undefined) url.searchParams.set(name, value);
    return url;
  }

  /** URL of a request whose parameters are signed. Outside of the object are only those that the profile demands. */
  async signedAuthorizeUrl(parameters, { claims = {}, signer, outside = {} } = {}) {
    const aud = `${this.base_url}/oauth2/authorize`;
    const request = await this.sign(this.claims({ aud, ...parameters, ...claims }), {}, signer);
    const { response_type, client_id, redirect_uri, scope } = parameters;
    return this.authorizeUrl({ response_type, client_id, redirect_uri, scope, request, ...outside });
  }

  /** Opens an authorization request on a phone, and returns the parameters of the return and the hops. */
  async authorize(url, phone) {
    const { hops, url: returned, response } = await phone.follow(url, this.redirectUri);
    assert.ok(returned, `the phone does not return from ${hops.at(-1).url}: ${response?.status} ${response?.body}`);
    const answer = Object.fromEntries(returned.searchParams);
    assert.equal(answer.iss, this.base_url, 'RFC 9207');
    return { ...answer, hops };
  }

  /** Has the network authenticate a phone with this SIM. Returns the code, or the error, with the code verifier. */
  async networkAuthentication(scope, sim, more) {
    const { verifier, parameters } = this.newAuthorization(scope, more);
    const answer = await this.authorize(this.authorizeUrl(parameters), new Phone({ sim }));
    assert.equal(answer.state, parameters.state);
    return { ...answer, verifier, nonce: parameters.nonce };
  }

  redeem(code, code_verifier, more = {}) {
    const fields = { grant_type: 'authorization_code', code, code_verifier, redirect_uri: this.redirectUri, ...more };
    return this.requestToken(fields);
  }

  async tokensByNetwork(scope, sim) {
    const { code, verifier, error, error_description } = await this.networkAuthentication(scope, sim);
    assert.ok(code, `${error}: ${error_description}`);
    return granted(await this.redeem(code, verifier));
  }

  // CIBA

  backchannel(fields) {
    return this.postAuthenticated('/oauth2/bc-authorize', fields);
  }

  poll(auth_req_id) {
    return this.requestToken({ grant_type: CIBA, auth_req_id });
  }

  async tokensByCiba(scope, number) {
    const started = await this.backchannel({ scope, login_hint: `tel:${number}` });
    assert.equal(started.status, 200, JSON.stringify(started.body));
    return granted(await this.poll(started.body.auth_req_id));
  }

  // JWT bearer

  /** Claims of an assertion that is a grant for a number. */
  grantClaims(scope, number, more = {}) {
    return this.claims({ aud: `${this.base_url}/oauth2/token`, sub: `tel:${number}`, scope, ...more });
  }

  /** Exchanges an assertion for tokens, with no other authentication. */
  async exchange(claims, { signer, fields = {} } = {}) {
    const assertion = await this.sign(claims, {}, signer);
    return this.post('/oauth2/token', { grant_type: JWT_BEARER, assertion, ...fields });
  }

  async tokensByAssertion(scope, number) {
    return granted(await this.exchange(this.grantClaims(scope, number)));
  }

  // Client credentials

  async tokensByCredentials(scope) {
    return granted(await this.requestToken({ grant_type: 'client_credentials', scope }));
  }

  /** Tokens that identify a number, by a flow. */
  tokensFor(flow, scope, number) {
    return {
      network: () => this.tokensByNetwork(scope, number),
      ciba: () => this.tokensByCiba(scope, number),
      assertion: () => this.tokensByAssertion(scope, number),
    }[flow]();
  }

  /** Calls an operation. `body` may be a text; undefined sends none. */
  async call(operation, token, body, headers = {}) {
    const { method, path } = OPERATIONS[operation];
    const content = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${this.base_url}${path}`, {
      method,
      headers: {
        ...(content !== undefined && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: content,
    });
    return read(response);
  }
}

/** Reads a response of an API. */
export async function read(response) {
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text && JSON.parse(text) };
}

function granted({ status, body }) {
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}
