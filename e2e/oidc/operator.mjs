// An operator with a third-party authorization server, npm `oidc-provider`, and the Number Verification and SIM Swap
// APIs, which introspect each token. crates/operators/tests/camara_peer.rs starts it, writes our client's data as a line
// of JSON, and reads a line for each event. Further input lines inject faults.
import { createHash, generateKeyPairSync } from 'node:crypto';
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
const numberOf = (sub) => Object.keys(subscribers).find((number) => subscribers[number].sub === sub);

const key = (kid, kind, options) => {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig' };
};
const common = { redirect_uris: [redirectUri], response_types: ['code'], grant_types: ['authorization_code'] };
const secret = 's3cret: of/ours+';
const withoutDevice = {
  redirect_uris: [],
  response_types: [],
  grant_types: ['client_credentials', 'urn:openid:params:grant-type:ciba'],
  backchannel_token_delivery_mode: 'poll',
};

const faults = new Map();
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
    { client_id: 'resource', client_secret: secret, redirect_uris: [], response_types: [], grant_types: [] },
  ],
  jwks: { keys: [key('rsa', 'rsa', { modulusLength: 2048 }), key('ec', 'ec', { namedCurve: 'P-256' }), key('ed', 'ed25519')] },
  enabledJWA: { idTokenSigningAlgValues: ALGORITHMS, requestObjectSigningAlgValues: ALGORITHMS, clientAuthSigningAlgValues: ALGORITHMS },
  scopes: ['openid', PURPOSE, VERIFY, NUMBER, SIM_DATE, SIM_CHECK],
  pkce: { required: (_, client) => client.clientId === 'assertion' },
  features: {
    ciba: {
      enabled: true,
      processLoginHint: (_, hint) => subscribers[hint.replace(/^tel:/, '')]?.sub,
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
  const { path, fault } = JSON.parse(line);
  faults.set(path, fault);
  print({ path, fault });
}
process.exit(0);
