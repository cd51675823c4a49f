// An operator with a third-party authorization server, npm `oidc-provider`, and the Number Verification and SIM Swap
// APIs, which introspect each token. crates/operators/tests/camara_peer.rs starts it, writes our client's data as a line
// of JSON, and reads a line for each event. Further input lines inject faults, or name temporary tokens of SIMs.
import { createHash, createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

// Suppresses the library's notices.
console.info = () => {};
console.warn = () => {};
const { default: Provider, errors } = await import('oidc-provider');

const print = (what) => console.log(JSON.stringify(what));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { jwk, redirectUri } = JSON.parse((await lines.next()).value);

const VERIFY = 'number-verification:verify';
const NUMBER = 'number-verification:device-phone-number:read';
const SIM_DATE = 'sim-swap:retrieve-date';
const SIM_CHECK = 'sim-swap:check';
const PURPOSE = 'dpv:FraudPreventionAndDetection';
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'];

// The network identifies a device by its SIM; here a header does. In CIBA, subscribers decide immediately, after a
// delay, or never.
const subscribers = {
  '+447700900123': { sub: 'pseudonym-1', consents: true, sim: { latestSimChange: '2024-09-18T09:37:53.471829447+02:00' } },
  '+447700900124': { sub: 'pseudonym-2', consents: false },
  '+447700900126': { sub: 'pseudonym-3', consents: true, decidesAfter: 300, sim: { latestSimChange: null, monitoredPeriod: 30 } },
  '+447700900127': { sub: 'pseudonym-4', consents: true, decidesAfter: Infinity },
};
const MONITORED_HOURS = 30 * 24;
// Temporary tokens that the entitlement server has issued, with the SIM of each. They are single use.
const temporaryTokens = new Map();
const redeemTemporaryToken = (subject) => {
  const token = /^operatortoken:(.+)$/.exec(subject ?? '')?.[1];
  const sim = temporaryTokens.get(token);
  temporaryTokens.delete(token);
  return subscribers[sim]?.sub;
};
const numberOf = (sub) => Object.keys(subscribers).find((number) => subscribers[number].sub === sub);

const key = (kid, kind, options) => {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig' };
};
const common = { redirect_uris: [redirectUri], response_types: ['code'], grant_types: ['authorization_code'] };
const secret = 's3cret: of/ours+';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const withoutDevice = {
  redirect_uris: [],
  response_types: [],
  grant_types: ['client_credentials', 'urn:openid:params:grant-type:ciba'],
  backchannel_token_delivery_mode: 'poll',
};

const faults = new Map();
const usedIds = new Set();
const server = createServer((request, response) => {
  const path = request.url.split('?')[0];
  if (faults.get(path) === 'slow') return;
  if (faults.get(path) === 'dead') request.socket.destroy();
  else if (path.startsWith('/number-verification/v2/') || path.startsWith('/sim-swap/v2/')) resource(path, request, response);
  else authorise(request, response);
});
await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      ...common,
      client_id: 'assertion',
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: jwk.alg,
      request_object_signing_alg: jwk.alg,
      require_signed_request_object: true,
      jwks: { keys: [jwk] },
    },
    ...ALGORITHMS.map((algorithm) => ({
      ...common,
      client_id: `secret ${algorithm}`,
      client_secret: secret,
      token_endpoint_auth_method: 'client_secret_basic',
      id_token_signed_response_alg: algorithm,
    })),
    {
      ...withoutDevice,
      client_id: 'sim assertion',
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: jwk.alg,
      jwks: { keys: [jwk] },
    },
    { ...withoutDevice, client_id: 'sim secret', client_secret: secret },
    {
      client_id: 'token assertion',
      redirect_uris: [],
      response_types: [],
      grant_types: [JWT_BEARER],
      token_endpoint_auth_method: 'none',
      jwks: { keys: [jwk] },
    },
    {
      ...withoutDevice,
      client_id: 'token ciba',
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: jwk.alg,
      jwks: { keys: [jwk] },
    },
    { client_id: 'resource', client_secret: secret, redirect_uris: [], response_types: [], grant_types: [] },
  ],
  jwks: { keys: [key('rsa', 'rsa', { modulusLength: 2048 }), key('ec', 'ec', { namedCurve: 'P-256' }), key('ed', 'ed25519')] },
  enabledJWA: { idTokenSigningAlgValues: ALGORITHMS, requestObjectSigningAlgValues: ALGORITHMS, clientAuthSigningAlgValues: ALGORITHMS },
  scopes: ['openid', PURPOSE, VERIFY, NUMBER, SIM_DATE, SIM_CHECK],
  pkce: { required: (_, client) => client.clientId === 'assertion' },
  features: {
    ciba: {
      enabled: true,
      processLoginHint: (_, hint) => redeemTemporaryToken(hint) ?? subscribers[hint.replace(/^tel:/, '')]?.sub,
      verifyUserCode() {},
      validateBindingMessage() {},
      validateRequestContext() {},
      async triggerAuthenticationDevice(_, request, account) {
        const { consents, decidesAfter } = subscribers[numberOf(account.accountId)];
        const decide = async () => {
          if (!consents) return provider.backchannelResult(request, new errors.AccessDenied('no'));
          const grant = new provider.Grant({ accountId: account.accountId, clientId: request.clientId });
          grant.addOIDCScope(request.scope);
          await grant.save(60);
          return provider.backchannelResult(request, grant);
        };
        if (decidesAfter === undefined) await decide();
        else if (decidesAfter !== Infinity) setTimeout(decide, decidesAfter);
      },
    },
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === 'resource' },
    requestObjects: { enabled: true },
  },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
  async loadExistingGrant(ctx) {
    const { accountId } = ctx.oidc.session;
    if (!subscribers[numberOf(accountId)].consents) return undefined;
    const grant = new provider.Grant({ accountId, clientId: ctx.oidc.client.clientId });
    grant.addOIDCScope(ctx.oidc.params.scope);
    await grant.save(60);
    return grant;
  },
});
provider.use(async (ctx, next) => {
  const subscriber = subscribers[ctx.get('x-sim')];
  if (subscriber) {
    const session = new provider.Session();
    session.loginAccount({ accountId: subscriber.sub, amr: ['nba'] });
    await session.save(60);
    ctx.req.headers.cookie = `${provider.cookieName('session')}=${session.id}`;
  }
  await next();
});

// The library has no JWT bearer grant (RFC 7523), and expects a client id outside the assertion.
provider.registerGrantType(JWT_BEARER, exchangeAssertion, ['assertion']);

async function exchangeAssertion(ctx) {
  const { client } = ctx.oidc;
  const parts = ctx.oidc.params.assertion.split('.');
  const [header, claims] = parts.slice(0, 2).map((part) => JSON.parse(Buffer.from(part, 'base64url')));
  const publicKey = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
  const isSigned = header.alg === 'ES256' && header.kid === jwk.kid
    && verify('sha256', Buffer.from(parts.slice(0, 2).join('.')), publicKey, Buffer.from(parts[2], 'base64url'));
  const now = Date.now() / 1000;
  const isValid = isSigned && claims.iss === client.clientId && [issuer, `${issuer}/token`].includes(claims.aud)
    && claims.exp > now && claims.exp - claims.iat <= 300 && claims.jti && !usedIds.has(claims.jti);
  usedIds.add(claims.jti);
  const accountId = isValid && redeemTemporaryToken(claims.sub);
  if (!accountId) throw new errors.InvalidGrant('no such token');
  const grant = new provider.Grant({ accountId, clientId: client.clientId });
  grant.addOIDCScope(claims.scope);
  const token = new provider.AccessToken({
    accountId,
    client,
    grantId: await grant.save(60),
    gty: 'jwt_bearer',
    scope: claims.scope,
  });
  ctx.body = { access_token: await token.save(), token_type: 'Bearer', expires_in: token.expiration };
}

async function addClientId(ctx, next) {
  if (ctx.path === '/token' && ctx.method === 'POST') {
    const chunks = [];
    for await (const chunk of ctx.req) chunks.push(chunk);
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    if (form.get('grant_type') === JWT_BEARER) {
      const { iss } = JSON.parse(Buffer.from(form.get('assertion').split('.')[1], 'base64url'));
      form.set('client_id', iss);
    }
    ctx.req.body = form.toString();
  }
  await next();
}
provider.use(addClientId);
const authorise = provider.callback();

async function introspect(token) {
  const basic = Buffer.from(`resource:${encodeURIComponent(secret)}`).toString('base64');
  const response = await fetch(`${issuer}/token/introspection`, {
    method: 'POST',
    headers: { authorization: `Basic ${basic}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token }),
  });
  return response.json();
}

async function resource(path, request, response) {
  const correlator = request.headers['x-correlator'];
  const respond = (status, body) => {
    response.writeHead(status, { 'content-type': 'application/json', 'x-correlator': correlator });
    response.end(JSON.stringify(body));
  };
  const refuse = (status, code) => respond(status, { status, code, message: 'no' });
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  print({ request: `${request.method} ${path}`, correlator });

  const [scheme, token] = (request.headers.authorization ?? '').split(' ');
  const { active, scope, sub } = scheme === 'Bearer' ? await introspect(token) : {};
  if (!active) return refuse(401, 'UNAUTHENTICATED');
  if (path.startsWith('/sim-swap/')) return simSwap(path, scope, numberOf(sub), JSON.parse(body), respond, refuse);
  const number = numberOf(sub);
  const isVerify = path.endsWith('/verify');
  if (!scope.split(' ').includes(isVerify ? VERIFY : NUMBER)) return refuse(403, 'PERMISSION_DENIED');
  if (!isVerify) return respond(200, { devicePhoneNumber: number });
  const claimed = JSON.parse(body);
  if (Object.keys(claimed).length !== 1) return refuse(400, 'INVALID_ARGUMENT');
  const hashed = createHash('sha256').update(number).digest('hex');
  return respond(200, { devicePhoneNumberVerified: claimed.phoneNumber === number || claimed.hashedPhoneNumber === hashed });
}

function simSwap(path, scope, known, { phoneNumber, maxAge }, respond, refuse) {
  const isCheck = path.endsWith('/check');
  if (!scope.split(' ').includes(isCheck ? SIM_CHECK : SIM_DATE)) return refuse(403, 'PERMISSION_DENIED');
  if (known && phoneNumber) return refuse(422, 'UNNECESSARY_IDENTIFIER');
  if (!known && !phoneNumber) return refuse(422, 'MISSING_IDENTIFIER');
  const { sim } = subscribers[known ?? phoneNumber] ?? {};
  if (!sim) return refuse(404, 'IDENTIFIER_NOT_FOUND');
  if (!isCheck) return respond(200, sim);
  if (maxAge > MONITORED_HOURS) return refuse(400, 'OUT_OF_RANGE');
  return respond(200, { swapped: Date.now() - Date.parse(sim.latestSimChange ?? 0) <= maxAge * 3_600_000 });
}

print({ issuer });
for await (const line of lines) {
  const { path, fault, temporaryToken, sim } = JSON.parse(line);
  if (path) faults.set(path, fault);
  if (temporaryToken) temporaryTokens.set(temporaryToken, sim);
  print(JSON.parse(line));
}
process.exit(0);
