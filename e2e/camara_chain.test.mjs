// Two deployments in a row: the second is a CAMARA client of the first, by the connector that it has for any operator.
// The first is the CAMARA endpoint of operators that it reaches in three ways: by header enrichment, by a third-party
// OpenID provider with CAMARA's APIs, and by the simulated operator of a sandbox project.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { after, before, describe, test } from 'node:test';
import { CHECK, CamaraClient, PURPOSE, SHARE, VERIFY, scoped } from './camara/api-client.mjs';
import { assertApiError } from './camara/assertions.mjs';
import { createLiveProject, startServer } from './camara/deployment.mjs';
import { startOperator } from './camara/operator.mjs';
import { Phone } from './camara/phone.mjs';
import { configure, createClient, keyPair, manage } from './sign-in.mjs';

const SECURE_SNA = { scope: 'secure_sna', path: '/v1/number-verification/secure-sna-checks' };
const DISCOVERY = { scope: 'discovery', path: '/v1/number-verification/discovery-checks' };
const SIM_SWAPS = { scope: 'sim_swap', path: '/v1/sim-swap-checks' };
/** The networks of the operators, by the connector of the second deployment. Both deployments find the network of a phone
 * by its address, and that of a number by its prefix. */
const NETWORKS = {
  enriched: { id: '23410', prefix: '+4477002', addresses: '127.0.1.0/24', phone: '127.0.1.7' },
  openid: { id: '23415', prefix: '+4477009', addresses: '127.0.2.0/24', phone: '127.0.2.7' },
  simulated: { id: '23420', prefix: '+4477100', addresses: '127.0.3.0/24', phone: '127.0.3.7' },
};
/** How the second deployment gets tokens for SIM Swap, by the connector. */
const SIM_SWAP_CONNECTORS = {
  by_credentials: { id: '23431', prefix: '+4477111', settings: ['sim_swap = "client_credentials"'] },
  by_ciba: { id: '23432', prefix: '+4477112', settings: ['sim_swap = "ciba"'] },
  by_assertion: { id: '23433', prefix: '+4477113', settings: ['sim_swap = "jwt_bearer"'] },
  for_issuer: {
    id: '23434',
    prefix: '+4477114',
    settings: ['sim_swap = "client_credentials"', 'assertion_audience = "issuer"'],
  },
  by_check: {
    id: '23435',
    prefix: '+4477115',
    settings: ['sim_swap = "client_credentials"', 'sim_swap_operations = ["check"]'],
  },
  by_one_scope: {
    id: '23436',
    prefix: '+4477116',
    settings: [
      'sim_swap = "ciba"',
      'sim_swap_operations = ["retrieve_date", "check"]',
      'sim_swap_retrieve_date_scope = "sim-swap"',
      'sim_swap_check_scope = "sim-swap"',
    ],
  },
};
/** How the second deployment exchanges operator tokens from wallets, by the connector. */
const WALLET_CONNECTORS = {
  token_by_assertion: { id: '23441', prefix: '+4477121', settings: ['operator_tokens = "jwt_bearer"'] },
  token_by_ciba: { id: '23442', prefix: '+4477122', settings: ['operator_tokens = "ciba"'] },
};
/** Origin of the app that asks the wallet. */
const APP_ORIGIN = 'https://app.example';
/** Settings of a connector for SIM Swap alone. */
const WITHOUT_DEVICES = ['verify_scope = ""', 'device_phone_number_scope = ""'];
/** Subscribers of the third-party operator. */
const SUBSCRIBER = '+447700900123';
const WITHOUT_CONSENT = '+447700900124';

let first;
let second;
let operator;
/** Projects of the first deployment, as which the second one is a client: a live one, and sandbox ones with a secret and
 * with a key. */
let live;
let withSecret;
let withKey;
/** The project of the second deployment. */
let shop;
/** Key of the clients. */
let signer;
/** Folder of the certificates for requests to wallets. */
let certificates;

before(async () => {
  const { key, kid, jwks } = await keyPair('ES256');
  signer = { key, kid };
  const der = Buffer.from(await crypto.subtle.exportKey('pkcs8', key)).toString('base64');
  // Of the connectors of both deployments.
  const settings = {
    CAMARA_KEY: `-----BEGIN PRIVATE KEY-----\n${der.match(/.{1,64}/g).join('\n')}\n-----END PRIVATE KEY-----\n`,
  };
  const camara = { purposes: [PURPOSE] };
  const keyed = { token_endpoint_auth_method: 'private_key_jwt', jwks };

  first = await startServer(firstConfig(), settings);
  const products = ['secure_sna', 'discovery', 'sim_swap'];
  live = await createLiveProject(first, { configuration: { camara, sign_in: keyed }, products });
  withSecret = await createClient(first, {}, { camara });
  withKey = await createClient(first, keyed, { camara });
  // The operator must know the redirect URI of the first deployment, and the latter the issuer of the operator.
  const redirectUri = `${first.base_url}/southbound/camara/openid/callback`;
  operator = await startOperator({ jwk: jwks.keys[0], redirectUri });
  await first.reload(firstConfig(kid));

  certificates = await mkdtemp(join(tmpdir(), 'ringtrue-e2e-'));
  const init = ['connectors', 'operator-token', 'init', '--dir', certificates, '--organisation', 'Shop'];
  await promisify(execFile)(process.env.BINARY_UNDER_TEST, init);
  const secrets = { CAMARA_SECRET: withSecret.client_secret };
  second = await startServer(secondConfig(kid), { ...settings, ...secrets, RINGTRUE_CAMARA__ENABLED: 'false' });
  const callback = (name) => `${second.base_url}/southbound/camara/${name}/callback`;
  await configure(first, live, { sign_in: { redirect_uris: [callback('enriched'), callback('openid')] } });
  await configure(first, withSecret, { sign_in: { redirect_uris: [callback('simulated')] } });
  shop = await createLiveProject(second, { configuration: { secure_sna: { app_origins: [APP_ORIGIN] } }, products });
});
after(async () => {
  await operator?.stop();
  for (const deployment of [second, first].filter(Boolean)) {
    assert.equal(await deployment.stop(), 0, 'exits with 0 on SIGTERM');
  }
  if (certificates) await rm(certificates, { recursive: true });
});

const network = (name, { id, prefix, addresses }) => `
[networks.${id}]
name = "${name}"
country = "GB"
prefixes = ["${prefix}"]
${addresses ? `address_ranges = ["${addresses}"]` : ''}
`;

/** Networks and connectors of the first deployment. Those with another URL need the operator, and a `kid`. */
function firstConfig(kid) {
  const { enriched, openid } = NETWORKS;
  const camara = (name, url, client_id, settings) => `
[connectors.${name}]
kind = "camara"
networks = ["${openid.id}"]
issuer = "${url}"
api_root = "${url}"
client_id = "${client_id}"
signing_key_env = "CAMARA_KEY"
signing_key_id = "${kid}"
${settings.join('\n')}
`;
  return [
    '[header_enrichment]\nlisten = "127.0.0.1:0"\n',
    network('Enriched', enriched),
    network('OpenID', openid),
    `
[connectors.legacy]
kind = "header_enrichment"
networks = ["${enriched.id}"]
egress = ["${enriched.addresses}"]
header = "X-MSISDN"
`,
    ...(kid ? [
      camara('openid', operator.issuer, 'assertion', ['request_object = true', 'request_object_audience = "issuer"']),
      // The operator for SIM cards is a sandbox project of the same deployment.
      camara('sims', first.base_url, withKey.client_id, ['sim_swap = "jwt_bearer"', ...WITHOUT_DEVICES]),
    ] : []),
  ].join('');
}

/** Networks and connectors of the second deployment. All connectors lead to the first one. */
function secondConfig(kid) {
  const connector = (name, id, settings) => `
[connectors.${name}]
kind = "camara"
networks = ["${id}"]
issuer = "${first.base_url}"
api_root = "${first.base_url}"
${settings.join('\n')}
`;
  const withAssertion = ({ client_id }) =>
    [`client_id = "${client_id}"`, 'signing_key_env = "CAMARA_KEY"', `signing_key_id = "${kid}"`];
  const { enriched, openid, simulated } = NETWORKS;
  return [
    ...Object.entries({ ...NETWORKS, ...SIM_SWAP_CONNECTORS, ...WALLET_CONNECTORS }).map(([name, settings]) => network(name, settings)),
    connector('enriched', enriched.id, withAssertion(live)),
    connector('openid', openid.id, [...withAssertion(live), 'request_object = true', 'sim_swap = "client_credentials"']),
    connector('simulated', simulated.id, [
      `client_id = "${withSecret.client_id}"`,
      'client_authentication = "client_secret_basic"',
      'client_secret_env = "CAMARA_SECRET"',
      'openid_scope = false',
      'hashed_number = true',
    ]),
    ...Object.entries(SIM_SWAP_CONNECTORS).map(([name, { id, settings }]) =>
      connector(name, id, [...withAssertion(withKey), ...WITHOUT_DEVICES, ...settings])),
    ...Object.entries(WALLET_CONNECTORS).map(([name, { id, settings }]) => connector(name, id, [
      ...withAssertion(withKey),
      ...settings,
      `operator_tokens_issuer = "https://shop.example"`,
      `operator_tokens_certificate_file = "${certificates}/operator-token.crt"`,
      `operator_tokens_key_file = "${certificates}/operator-token.key"`,
      'operator_tokens_consent_text = "Shop verifies your number with your operator."',
      'operator_tokens_policy_link = "https://shop.example/privacy"',
      'operator_tokens_policy_text = "Privacy"',
    ])),
  ].join('');
}

let numbers = 0;
/** A number of a network, which no other check has: live projects limit the checks of a number. */
function numberOf({ prefix }, ending = '00') {
  numbers += 1;
  return `${prefix}${String(numbers).padStart(3, '0')}${ending}`;
}

async function api({ base_url }, { client_id, client_secret }, { scope, path }, suffix = '', body) {
  const granted = await fetch(`${base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope }),
  });
  const { access_token } = await granted.json();
  const response = await fetch(`${base_url}${path}${suffix}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  assert.ok(response.ok, `${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** Creates a silent check at the second deployment, opens its URL on a phone, and redeems the code. Returns the check and
 * the hops of the phone. */
async function check(product, body, phone) {
  const { check_id, url } = await api(second, shop, product, '', body);
  const { hops, response } = await phone.follow(url);
  const { code } = JSON.parse(response.body);
  const ended = code
    ? await api(second, shop, product, `/${check_id}`, { code })
    : await api(second, shop, product, `/${check_id}`);
  return { ...ended, route: hops.map(({ url: hop }) => place(hop)), response };
}

/** A hop, without its ids and tokens. */
function place(url) {
  const sites = { [first.base_url]: 'first', [second.base_url]: 'second', [operator.issuer]: 'operator' };
  return `${sites[url.origin] ?? 'enrichment'} ${url.pathname.replaceAll(/\/[\w.~-]{20,}/g, '/…')}`;
}

/** A phone whose operator inserts this number into plain HTTP. */
const enrichedPhone = (number, address = NETWORKS.enriched.phone) => new Phone({
  address,
  insert: (url) => (number && url.pathname.startsWith('/he/') ? { 'x-msisdn': number.slice(1) } : {}),
});

/** A phone with a SIM card of the third-party operator. */
const openIdPhone = (number) => new Phone({
  address: NETWORKS.openid.phone,
  insert: (url) => (url.origin === operator.issuer ? { 'x-sim': number } : {}),
});

/** A phone with a SIM card of the simulated operator. */
const sandboxPhone = (sim) => new Phone({ address: NETWORKS.simulated.phone, sim });

describe('a silent chain through both', () => {
  test('to an operator by header enrichment', async () => {
    const number = numberOf(NETWORKS.enriched);
    const { status, match, network_id, route } = await check(SECURE_SNA, { phone_number: number }, enrichedPhone(number));
    assert.deepEqual([status, match, network_id], ['COMPLETED', true, NETWORKS.enriched.id]);
    assert.deepEqual(route, [
      'second /v1/number-verification/secure-sna-checks/…/redirect',
      'first /oauth2/authorize',
      'enrichment /he/legacy/…',
      'first /southbound/header-enrichment/return',
      'first /signin/…/return',
      'second /southbound/camara/enriched/callback',
    ]);
    const [own] = (await api(first, live, SECURE_SNA)).content;
    assert.deepEqual([own.status, own.match, own.network_id], ['COMPLETED', true, NETWORKS.enriched.id]);
  });

  test('to an operator by header enrichment, which inserts another number', async () => {
    const number = numberOf(NETWORKS.enriched);
    const other = enrichedPhone(numberOf(NETWORKS.enriched));
    const { status, match } = await check(SECURE_SNA, { phone_number: number }, other);
    assert.deepEqual([status, match], ['COMPLETED', false]);
  });

  test('to an operator by header enrichment, which tells the number', async () => {
    const number = numberOf(NETWORKS.enriched);
    const { status, phone_number, network_id } = await check(DISCOVERY, {}, enrichedPhone(number));
    assert.deepEqual([status, phone_number, network_id], ['COMPLETED', number, NETWORKS.enriched.id]);
    const [own] = (await api(first, live, DISCOVERY)).content;
    assert.deepEqual([own.status, own.phone_number], ['COMPLETED', number]);
  });

  test('to an operator by a third-party OpenID provider', async () => {
    const { status, match, route } = await check(SECURE_SNA, { phone_number: SUBSCRIBER }, openIdPhone(SUBSCRIBER));
    assert.deepEqual([status, match], ['COMPLETED', true]);
    assert.deepEqual(route, [
      'second /v1/number-verification/secure-sna-checks/…/redirect',
      'first /oauth2/authorize',
      'operator /auth',
      'first /southbound/camara/openid/callback',
      'first /signin/…/return',
      'second /southbound/camara/openid/callback',
    ]);
    const other = await check(SECURE_SNA, { phone_number: numberOf(NETWORKS.openid) }, openIdPhone(SUBSCRIBER));
    assert.deepEqual([other.status, other.match], ['COMPLETED', false]);
    const found = await check(DISCOVERY, {}, openIdPhone(SUBSCRIBER));
    assert.deepEqual([found.status, found.phone_number], ['COMPLETED', SUBSCRIBER]);
  });

  test('to the simulated operator of a sandbox project', async () => {
    const number = numberOf(NETWORKS.simulated);
    const { status, match, route } = await check(SECURE_SNA, { phone_number: number }, sandboxPhone(number));
    assert.deepEqual([status, match], ['COMPLETED', true]);
    assert.deepEqual(route, [
      'second /v1/number-verification/secure-sna-checks/…/redirect',
      'first /oauth2/authorize',
      'first /v1/sandbox/operator/authorize',
      'first /southbound/camara/sandbox/callback',
      'first /signin/…/return',
      'second /southbound/camara/simulated/callback',
    ]);
    const other = await check(SECURE_SNA, { phone_number: number }, sandboxPhone(numberOf(NETWORKS.simulated)));
    assert.deepEqual([other.status, other.match], ['COMPLETED', false]);
    const found = await check(DISCOVERY, {}, sandboxPhone(number));
    assert.deepEqual([found.status, found.phone_number], ['COMPLETED', number]);
  });

  test('a client gets its result at its own URL', async () => {
    const number = numberOf(NETWORKS.enriched);
    const redirect_url = 'https://shop.example/back';
    const { check_id, url } = await api(second, shop, SECURE_SNA, '', { phone_number: number, redirect_url });
    const { url: end } = await enrichedPhone(number).follow(url, redirect_url);
    const redeemed = await api(second, shop, SECURE_SNA, `/${check_id}`, { code: end.searchParams.get('code') });
    assert.deepEqual([redeemed.status, redeemed.match], ['COMPLETED', true]);
  });

  test('each check of the second is one of the first', async () => {
    const count = async () => (await api(first, live, SECURE_SNA, '?size=1')).page.total_elements;
    const before = await count();
    const number = numberOf(NETWORKS.enriched);
    await check(SECURE_SNA, { phone_number: number }, enrichedPhone(number));
    assert.equal(await count(), before + 1);
  });
});

describe('the route by the address of the phone', () => {
  test('the address that the client announces is the one of the phone', async () => {
    const number = numberOf(NETWORKS.enriched);
    const body = { phone_number: number, device_ip: NETWORKS.enriched.phone };
    const { status, match } = await check(SECURE_SNA, body, enrichedPhone(number));
    assert.deepEqual([status, match], ['COMPLETED', true]);
    const elsewhere = { ...body, phone_number: numberOf(NETWORKS.enriched) };
    const other = await check(SECURE_SNA, elsewhere, enrichedPhone(number, '127.0.1.8'));
    assert.deepEqual([other.status, other.error_code, other.route.length], ['ERROR', 'ip_mismatch', 1]);
  });

  test('a phone in the network of another operator', async () => {
    const number = numberOf(NETWORKS.enriched);
    const { status, error_code, route } = await check(SECURE_SNA, { phone_number: number }, openIdPhone(SUBSCRIBER));
    assert.deepEqual([status, error_code, route.length], ['ERROR', 'ip_msisdn_mismatch', 1]);
  });

  test('a phone in no network never comes to the first deployment', async () => {
    const number = numberOf(NETWORKS.enriched);
    const phone = enrichedPhone(number, '127.0.9.7');
    const { status, error_code, route } = await check(SECURE_SNA, { phone_number: number }, phone);
    assert.deepEqual([status, route.length], ['ERROR', 1]);
    assert.ok(['not_mobile_ip', 'mno_not_supported'].includes(error_code), error_code);
  });
});

describe('what the operator of the first says becomes the error of the second', () => {
  test('an operator that does not recognise the phone', async () => {
    for (const [product, body, phone] of [
      [SECURE_SNA, { phone_number: numberOf(NETWORKS.enriched) }, enrichedPhone(undefined)],
      [DISCOVERY, {}, enrichedPhone(undefined)],
      [SECURE_SNA, { phone_number: SUBSCRIBER }, openIdPhone('none')],
      [DISCOVERY, {}, sandboxPhone(numberOf(NETWORKS.simulated, '01'))],
    ]) {
      const { status, error_code } = await check(product, body, phone);
      assert.deepEqual([status, error_code], ['ERROR', 'mno_user_not_found']);
    }
  });

  test('an operator that needs consent', async () => {
    const phone = openIdPhone(WITHOUT_CONSENT);
    const { status, error_code } = await check(SECURE_SNA, { phone_number: WITHOUT_CONSENT }, phone);
    assert.equal(status, 'ERROR');
    assert.ok(['mno_no_data_available', 'mno_user_not_found'].includes(error_code), error_code);
  });

  test('an operator that fails, or answers too late', async () => {
    const checkWith = (ending) => {
      const phone = sandboxPhone(numberOf(NETWORKS.simulated, ending));
      return check(SECURE_SNA, { phone_number: numberOf(NETWORKS.simulated) }, phone);
    };
    const failed = await checkWith('99');
    assert.equal(failed.status, 'ERROR');
    assert.ok(['mno_server_error', 'mno_timeout'].includes(failed.error_code), failed.error_code);
    const late = await checkWith('95');
    assert.deepEqual([late.status, late.error_code], ['ERROR', 'mno_timeout']);
  });
});

describe('an operator token from a phone\'s wallet through both', () => {
  /** Creates a check at the second deployment, whose request a wallet of the first one's sandbox confirms for a SIM.
   * Returns a function that sends the wallet's response to the second deployment. */
  async function confirm({ id }, phone_number, sim, { network_id = id, forgery } = {}) {
    const { check_id, digital_credential } = await api(second, shop, SECURE_SNA, '', { phone_number });
    const wallet = { ...SECURE_SNA, path: '/v1/sandbox/digital-credentials' };
    const body = { request: digital_credential, sim, origin: APP_ORIGIN, network_id, ...(forgery && { forgery }) };
    const response = await api(first, withSecret, wallet, '', body);
    return {
      send: () => api(second, shop, SECURE_SNA, `/${check_id}`, { digital_credential: response }),
      read: () => api(second, shop, SECURE_SNA, `/${check_id}`),
    };
  }

  for (const [name, connector] of Object.entries(WALLET_CONNECTORS)) {
    test(`by the connector ${name}`, async () => {
      const number = numberOf(connector);
      const { status, match, network_id } = await (await confirm(connector, number, number)).send();
      assert.deepEqual([status, match, network_id], ['COMPLETED', true, connector.id]);
      const other = await (await confirm(connector, numberOf(connector), numberOf(connector))).send();
      assert.deepEqual([other.status, other.match], ['COMPLETED', false]);
    });

    test(`a token that the operator did not issue, by the connector ${name}`, async () => {
      const number = numberOf(connector);
      const forged = await confirm(connector, number, number, { forgery: 'operator_token' });
      await assert.rejects(forged.send(), /409/);
      const { status, error_code } = await forged.read();
      assert.equal(status, 'ERROR');
      assert.ok(['mno_user_not_found', 'mno_response_error'].includes(error_code), error_code);
    });
  }

  test('a SIM of another network: its operator is asked if the project may use it', async () => {
    const { token_by_assertion: ofNumber, token_by_ciba: { id: network_id } } = WALLET_CONNECTORS;
    const products = ['secure_sna', 'discovery', 'sim_swap'];
    const allow = (id) =>
      manage(second, 'PUT', `/projects/${shop.project_id}/allowed-networks`, { networks: [{ network_id: id, products }] });
    const number = numberOf(ofNumber);
    const send = async () => (await confirm(ofNumber, number, number, { network_id })).send();
    const { status, match } = await send();
    assert.deepEqual([status, match], ['COMPLETED', true]);
    await allow(ofNumber.id);
    await assert.rejects(send(), /400/);
    await allow('*');
    assert.equal((await send()).status, 'COMPLETED');
  });

  test('each check of the second is one of the first', async () => {
    const connector = WALLET_CONNECTORS.token_by_assertion;
    const number = numberOf(connector);
    const count = async () => (await api(first, withKey, SECURE_SNA, '?size=1')).page.total_elements;
    const before = await count();
    await (await confirm(connector, number, number)).send();
    assert.equal(await count(), before + 1);
  });
});

describe('SIM Swap through both', () => {
  const ask = (phone_number, period) => api(second, shop, SIM_SWAPS, '', { phone_number, period });

  for (const [name, connector] of Object.entries(SIM_SWAP_CONNECTORS)) {
    const hasDate = name !== 'by_check';

    test(`by the connector ${name}`, async () => {
      const unchanged = await ask(numberOf(connector));
      assert.deepEqual([unchanged.status, unchanged.no_sim_change], ['COMPLETED', true], JSON.stringify(unchanged));
      assert.equal(unchanged.network_id, connector.id);
      const changed = await ask(numberOf(connector, '01'));
      assert.deepEqual([changed.status, changed.no_sim_change], ['COMPLETED', false], JSON.stringify(changed));
      if (hasDate) {
        assert.equal(unchanged.sim_change_within, 525_601);
        assert.equal(changed.sim_change_within, 1_440);
      }
      // The change was more than an hour ago.
      const before = await ask(numberOf(connector, '01'), 60);
      assert.deepEqual([before.status, before.no_sim_change], ['COMPLETED', true]);
      // A history of limited length, without a change.
      const limited = await ask(numberOf(connector, '98'));
      const { status, no_sim_change, sim_change_within } = limited;
      assert.deepEqual([status, no_sim_change, sim_change_within], ['COMPLETED', true, undefined]);
    });

    test(`errors by the connector ${name}`, async () => {
      const errors = {};
      for (const ending of ['94', '95', '97', '99']) {
        const { status, error_code } = await ask(numberOf(connector, ending));
        assert.equal(status, 'ERROR', ending);
        errors[ending] = error_code;
        // A success between, so that the circuit breaker stays closed.
        assert.equal((await ask(numberOf(connector))).status, 'COMPLETED');
      }
      // The first answers 503 for an operator that fails, which does not tell whose fault it was.
      const expected = { 94: 'mno_user_not_found', 95: 'mno_timeout', 97: 'mno_not_supported', 99: 'mno_timeout' };
      assert.deepEqual(errors, expected);
    });
  }

  test('to an operator of a live project', async () => {
    const { openid } = NETWORKS;
    const unchanged = await ask(numberOf(openid));
    assert.deepEqual([unchanged.status, unchanged.no_sim_change], ['COMPLETED', true], JSON.stringify(unchanged));
    assert.equal(unchanged.sim_change_within, 525_601, 'the date has passed all');
    const [own] = (await api(first, live, SIM_SWAPS)).content;
    assert.deepEqual([own.status, own.network_id], ['COMPLETED', openid.id]);
    const changed = await ask(numberOf(openid, '01'));
    assert.deepEqual([changed.status, changed.no_sim_change], ['COMPLETED', false]);
    const unknown = await ask(numberOf(openid, '94'));
    assert.deepEqual([unknown.status, unknown.error_code], ['ERROR', 'mno_user_not_found']);
  });

  test('each check of the second is one of the first', async () => {
    const count = async () => (await api(first, live, SIM_SWAPS, '?size=1')).page.total_elements;
    const before = await count();
    await ask(numberOf(NETWORKS.openid));
    await ask(numberOf(NETWORKS.openid, '01'));
    assert.equal(await count(), before + 2);
  });
});

describe('the gates of a live project', () => {
  const REDIRECT = 'http://127.0.0.1:9/back';
  const { enriched, openid } = NETWORKS;
  let own;

  before(async () => {
    const sign_in = { token_endpoint_auth_method: 'private_key_jwt', redirect_uris: [REDIRECT] };
    const products = ['secure_sna', 'discovery', 'sim_swap'];
    const configuration = { camara: { purposes: [PURPOSE] }, sign_in: { ...sign_in, jwks: await publicKey() } };
    const registered = await createLiveProject(first, { configuration, products });
    own = new CamaraClient(first, registered, { ...signer, redirectUri: REDIRECT });
  });

  const publicKey = async () => {
    const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', signer.key);
    return { keys: [{ kty, crv, x, y, kid: signer.kid, use: 'sig', alg: 'ES256' }] };
  };
  const allow = (networks) => manage(first, 'PUT', `/projects/${own.project_id}/allowed-networks`, { networks });
  const checkSim = async (phoneNumber) => {
    const { access_token } = await own.tokensByCredentials(scoped(CHECK));
    return own.call('checkSimSwap', access_token, { phoneNumber });
  };
  const authorize = (scope, phone) => {
    const { verifier, parameters } = own.newAuthorization(scoped(scope));
    return own.authorize(own.authorizeUrl(parameters), phone).then((answer) => ({ ...answer, verifier }));
  };

  test('numbers that no operator here serves, and those of nobody', async () => {
    assert.equal((await checkSim(numberOf(openid))).status, 200);
    assertApiError(await checkSim(numberOf(enriched)), 422, 'SERVICE_NOT_APPLICABLE');
    assertApiError(await checkSim('+447899000000'), 404, 'IDENTIFIER_NOT_FOUND');
    assertApiError(await checkSim('+990123456700'), 404, 'IDENTIFIER_NOT_FOUND');
  });

  test('networks that the project may not use', async () => {
    await allow([{ network_id: enriched.id, products: ['secure_sna'] }]);
    assertApiError(await checkSim(numberOf(openid)), 403, 'PERMISSION_DENIED');
    const number = numberOf(enriched);
    assert.equal((await authorize(SHARE, enrichedPhone(number))).error, 'login_required');
    assert.equal((await authorize(VERIFY, openIdPhone(SUBSCRIBER))).error, 'login_required');
    const { code, verifier } = await authorize(VERIFY, enrichedPhone(number));
    const { body } = await own.redeem(code, verifier);
    const answer = await own.call('phoneNumberVerify', body.access_token, { phoneNumber: number });
    assert.deepEqual([answer.status, answer.body], [200, { devicePhoneNumberVerified: true }]);
  });

  test('one token for both APIs, by a single network authentication', async () => {
    await allow([{ network_id: '*', products: ['secure_sna', 'discovery', 'sim_swap'] }]);
    const { verifier, parameters } = own.newAuthorization(scoped(VERIFY, CHECK));
    const { code } = await own.authorize(own.authorizeUrl(parameters), openIdPhone(SUBSCRIBER));
    const { body: { access_token } } = await own.redeem(code, verifier);
    const swapped = await own.call('checkSimSwap', access_token, {});
    assert.deepEqual([swapped.status, swapped.body], [200, { swapped: true }], 'the number ends in 23');
    const verified = await own.call('phoneNumberVerify', access_token, { phoneNumber: SUBSCRIBER });
    assert.deepEqual([verified.status, verified.body], [200, { devicePhoneNumberVerified: true }]);
  });
});
