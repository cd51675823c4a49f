// Attacks on sign-ins, in Chromium and without a browser: clickjacking, login CSRF, foreign phones, redirect URI
// variants, stolen and repeated codes, downgrades, and clients of other projects.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oauth from 'oauth4webapi';
import { enterNumber, launchChromium } from './chromium.mjs';
import { startRelyingParty } from './relying-party.mjs';
import { startRingtrue } from './ringtrue.mjs';
import {
  HttpBrowser, REDIRECT_URI, authorizeUrl, configure, createClient, formAction, keyPair, manage, nextNumber, redeem,
  userinfo,
} from './sign-in.mjs';

const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, userAgent: IPHONE };

let ringtrue;
let browser;
let site;
let client;

before(async () => {
  ringtrue = await startRingtrue({ RINGTRUE_RATE_LIMITS__DEVICE: '1000' });
  browser = await launchChromium();
  site = await startRelyingParty(ringtrue);
  client = await createClient(ringtrue);
});
after(async () => {
  await browser?.close();
  await site?.stop();
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Defines a test with users in Chromium. `newUser` opens the browser profile of one, and returns its page. */
function browserTest(name, steps) {
  test(name, { timeout: 180_000 }, async () => {
    const contexts = [];
    const newUser = async (options) => {
      const context = await browser.newContext(options);
      contexts.push(context);
      context.setDefaultTimeout(60_000);
      return context.newPage();
    };
    try {
      await steps(newUser);
    } finally {
      for (const context of contexts) await context.close();
    }
  });
}

const signedIn = async (page) => {
  await page.getByRole('heading', { name: 'Signed in' }).waitFor();
  return page.locator('#number').textContent();
};

browserTest('the user signs in, and a second use of the code revokes the tokens', async (newUser) => {
  const page = await newUser();
  const number = nextNumber();
  await page.goto(`${site.origin}/login`);
  await enterNumber(page, number);
  assert.equal(await signedIn(page), number);
  const { tokens, url } = site.results.at(-1);
  assert.equal((await userinfo(ringtrue, tokens.access_token)).status, 200);
  // The browser repeats the return: the site's request fails, and so do the tokens of the first.
  await page.goto(url.href);
  await page.getByRole('heading', { name: 'Not signed in' }).waitFor();
  assert.equal(await page.locator('#error').textContent(), 'invalid_grant');
  assert.equal((await userinfo(ringtrue, tokens.access_token)).status, 401);
});

browserTest('clickjacking: no site can show the pages in a frame', async (newUser) => {
  const page = await newUser();
  await page.goto(`${site.origin}/login`);
  const entry = page.url();
  assert.ok(entry.startsWith(`${ringtrue.base_url}/signin/`));
  for (const framed of [entry, await site.authorizeUrl()]) {
    for (const frame of [`<iframe src="${framed.replaceAll('&', '&amp;')}"></iframe>`, `<object data="${framed.replaceAll('&', '&amp;')}"></object>`]) {
      const refused = page.waitForEvent('console', (message) => message.text().includes('frame-ancestors'));
      await page.goto(site.elsewhere(frame));
      assert.match((await refused).text(), /'none'/);
      // The browser shows an error of its own, or nothing.
      for (const child of page.frames().slice(1)) assert.ok(!(await child.content().catch(() => '')).includes('phone_number'));
    }
  }
});

browserTest("login CSRF: the victim opens the attacker's sign-in", async (newUser) => {
  const [attacker, victim] = [await newUser(), await newUser(PHONE)];
  await attacker.goto(`${site.origin}/login`);
  const link = attacker.url();
  await victim.goto(link);
  await victim.getByRole('heading', { name: 'Started in another browser' }).waitFor();
  assert.equal(await victim.locator('form').count(), 0, 'nothing to fill in');
  // With a form of another site, and with a request of the page's own origin.
  const number = nextNumber();
  await victim.goto(site.elsewhere(`<form method="post" action="${link}/number"><input name="phone_number" value="${number}"><button>Win</button></form>`));
  const [refused] = await Promise.all([
    victim.waitForResponse((response) => response.url() === `${link}/number`),
    victim.getByRole('button', { name: 'Win' }).click(),
  ]);
  assert.equal(refused.status(), 403);
  const stranger = new HttpBrowser(ringtrue);
  const { status, headers } = await stranger.submit(`${link}/number`, { phone_number: number });
  assert.deepEqual([status, new URL(headers.get('location'), link).href], [303, link], 'back to the page that explains');
  const cancelled = await stranger.submit(`${link}/cancel`);
  assert.equal(new URL(cancelled.headers.get('location'), link).href, link);
  // The sign-in is untouched: the browser that began it finishes it with its own number.
  await attacker.reload();
  await enterNumber(attacker, number);
  assert.equal(await signedIn(attacker), number);
});

browserTest("login CSRF: the victim opens the attacker's return", async (newUser) => {
  const victim = await newUser();
  const { url: returned } = await new HttpBrowser(ringtrue).signIn(await site.authorizeUrl(), nextNumber());
  // The victim has begun a sign-in of its own.
  const begun = victim.waitForRequest((request) => request.url().includes('/oauth2/authorize?'));
  await victim.goto(`${site.origin}/login`);
  const state = new URL((await begun).url()).searchParams.get('state');
  const entry = victim.url();
  await victim.goto(returned.href);
  await victim.getByRole('heading', { name: 'Not signed in' }).waitFor();
  // Code injection: even with the victim's `state`, the attacker's code has another code verifier.
  returned.searchParams.set('state', state);
  await victim.goto(returned.href);
  await victim.getByRole('heading', { name: 'Not signed in' }).waitFor();
  assert.equal(await victim.locator('#error').textContent(), 'invalid_grant');
  // The victim's own sign-in goes on.
  const number = nextNumber();
  await victim.goto(entry);
  await enterNumber(victim, number);
  assert.equal(await signedIn(victim), number);
});

browserTest("a foreign phone: the victim opens the page of the attacker's verification", async (newUser) => {
  const [attacker, number] = [new HttpBrowser(ringtrue), nextNumber()];
  const entry = await attacker.open(await site.authorizeUrl());
  const begun = await attacker.submit(formAction(entry.html, '/number'), { phone_number: number });
  const hosted = new URL(begun.headers.get('location'), entry.url);
  const visits = site.results.length;
  // The phone with the number is recognised, and its return ends nothing.
  const victim = await newUser(PHONE);
  await victim.goto(hosted.href);
  await victim.getByRole('heading', { name: 'Started in another browser' }).waitFor();
  assert.ok(victim.url().startsWith(entry.url.href));
  const { html } = await attacker.open(entry.url);
  assert.doesNotMatch(html, /[?&;]code=/, 'the attacker learns no code');
  const guessed = await attacker.open(`${entry.url}/return?code=${'A'.repeat(43)}`);
  assert.ok(guessed.url.href.startsWith(ringtrue.base_url));
  assert.equal(site.results.length, visits, 'nobody came back to the site');
  // The browser that began can start again with its own number.
  const again = await attacker.open(`${entry.url}?ask=number`);
  const restarted = await attacker.submit(formAction(again.html, '/number'), { phone_number: nextNumber() });
  const { url } = await attacker.signIn(new URL(restarted.headers.get('location'), entry.url));
  assert.ok(url.searchParams.get('code'));
});

browserTest('a user who cancels returns to the site, whose origin alone the policy permits', async (newUser) => {
  const page = await newUser();
  const response = await page.goto(`${site.origin}/login`);
  const policy = response.headers()['content-security-policy'];
  assert.match(policy, new RegExp(`form-action 'self' ${site.origin};`));
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('heading', { name: 'Not signed in' }).waitFor();
  assert.equal(await page.locator('#error').textContent(), 'access_denied');
  assert.equal(site.results.at(-1).url.searchParams.get('iss'), ringtrue.base_url);
  // An injected form could not send the number elsewhere.
  await page.goto(`${site.origin}/login`);
  const violated = page.waitForEvent('console', (message) => message.text().includes('form-action'));
  await page.evaluate(() => {
    const form = Object.assign(document.createElement('form'), { method: 'post', action: 'http://localhost:9/' });
    document.body.append(form);
    form.submit();
  });
  await violated;
  assert.ok(page.url().startsWith(ringtrue.base_url));
});

browserTest('users give up on the page of the verification, and can change the number', async (newUser) => {
  const page = await newUser();
  await site.configure({ reverse_sms: { auto_reply: false } });
  await page.goto(`${site.origin}/login`);
  await enterNumber(page, nextNumber('96'));
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  await page.getByRole('link', { name: 'Not your number?' }).click();
  await page.getByRole('button', { name: 'That’s not my number' }).click();
  await page.getByRole('link', { name: /^Back to / }).click();
  // The sign-in goes on with another number, which matches silently.
  const number = nextNumber();
  await enterNumber(page, number);
  assert.equal(await signedIn(page), number);
});

test('redirect URI variants show a page, and redirect nowhere', async () => {
  const registered = new URL(REDIRECT_URI);
  const variants = [
    'https://attacker.example/callback',
    `${REDIRECT_URI}&x=1`,
    `${REDIRECT_URI}/`,
    `${REDIRECT_URI}#`,
    `${REDIRECT_URI}#fragment`,
    REDIRECT_URI.replace('?tenant=1', ''),
    REDIRECT_URI.replace('?tenant=1', '?tenant=2'),
    REDIRECT_URI.replace('/callback', '/callback/'),
    REDIRECT_URI.replace('/callback', '/callback/../evil'),
    REDIRECT_URI.replace('/callback', '/x/../callback'),
    REDIRECT_URI.replace('/callback', '/%63allback'),
    REDIRECT_URI.replace('/callback', '//callback'),
    REDIRECT_URI.replace('/callback', '\\callback'),
    REDIRECT_URI.replace('http:', 'HTTP:'),
    REDIRECT_URI.replace('http:', 'https:'),
    REDIRECT_URI.replace(':9/', ':10/'),
    REDIRECT_URI.replace(':9/', '/'),
    REDIRECT_URI.replace('127.0.0.1', 'localhost'),
    REDIRECT_URI.replace('127.0.0.1', '127.1'),
    REDIRECT_URI.replace('127.0.0.1', '127.0.0.1.attacker.example'),
    REDIRECT_URI.replace('127.0.0.1', '127.0.0.1:9@attacker.example'),
    REDIRECT_URI.replace('127.0.0.1', 'user@127.0.0.1'),
    ` ${REDIRECT_URI}`,
    `${REDIRECT_URI}\u0000`,
    `${REDIRECT_URI}\r\nSet-Cookie: a=b`,
    'javascript:alert(1)',
    'data:text/html,x',
    '//attacker.example',
    '/callback',
    registered.origin,
    '',
  ];
  const user = new HttpBrowser(ringtrue);
  for (const redirect_uri of variants) {
    for (const more of [{}, { prompt: 'none' }, { response_type: 'token' }, { scope: 'none' }]) {
      const { url, status, html, headers } = await user.open(authorizeUrl(ringtrue, client, { redirect_uri, ...more }));
      assert.deepEqual([status, url.pathname], [400, '/oauth2/authorize'], redirect_uri);
      assert.ok(!html.includes('attacker.example'), 'the page does not link there');
      assert.match(headers.get('content-security-policy'), /form-action 'self';.*frame-ancestors 'none'/);
    }
  }
  // Repeated parameters have no order that everybody agrees on.
  const twice = authorizeUrl(ringtrue, client);
  twice.searchParams.append('redirect_uri', 'https://attacker.example/');
  assert.equal((await user.open(twice)).status, 400);
  const clients = authorizeUrl(ringtrue, client);
  clients.searchParams.append('client_id', site.client_id);
  assert.equal((await user.open(clients)).status, 400);
  for (const client_id of ['', 'unknown', site.client_id, ringtrue.workspace.client_id]) {
    assert.equal((await user.open(authorizeUrl(ringtrue, { client_id }))).status, 400, `client ${client_id}`);
  }
});

test('no project can register a redirect URI that leads astray', async () => {
  for (const uri of [
    'javascript:alert(1)', 'data:text/html,x', 'https://app.example/cb#x', '/callback', '',
    'https://user@app.example/', 'https://app.example/a/../b', 'https://app.example/%2e%2e/b', 'myapp:/callback',
    'https://app.example/cb?code=1', 'https://app.example/cb?state=1', 'https:app.example',
  ]) {
    await assert.rejects(createClient(ringtrue, { redirect_uris: [uri] }), /400/, uri);
  }
});

/** Signs in, and returns the code. */
async function codeOf(client, parameters) {
  const { url } = await new HttpBrowser(ringtrue).signIn(authorizeUrl(ringtrue, client, parameters), nextNumber());
  return url.searchParams.get('code');
}

test('a stolen code is worth nothing to another client, and stays good for its own', async () => {
  const [code, thief] = [await codeOf(client), await createClient(ringtrue)];
  for (const [redeemer, fields] of [
    [thief, { code }],
    [client, { code, redirect_uri: 'http://127.0.0.1:9/other' }],
    [client, { code, redirect_uri: '' }],
    [client, { code, code_verifier: oauth.generateRandomCodeVerifier() }],
    [client, { code: `${code}A` }],
    [client, { code: code.slice(1) }],
  ]) {
    const { status, body } = await redeem(ringtrue, redeemer, fields);
    assert.deepEqual([status, body.error], [400, 'invalid_grant']);
  }
  const wrong = await redeem(ringtrue, { ...client, client_secret: 'wrong' }, { code });
  assert.deepEqual([wrong.status, wrong.body.error], [401, 'invalid_client']);
  assert.equal((await redeem(ringtrue, client, { code })).status, 200);
});

test('PKCE is not downgraded', async () => {
  const code_verifier = oauth.generateRandomCodeVerifier();
  const code_challenge = await oauth.calculatePKCECodeChallenge(code_verifier);
  const code = await codeOf(client, { code_challenge, code_challenge_method: 'S256' });
  for (const fields of [{}, { code_verifier: code_challenge }, { code_verifier: oauth.generateRandomCodeVerifier() }]) {
    const { status, body } = await redeem(ringtrue, client, { code, ...fields });
    assert.deepEqual([status, body.error], [400, 'invalid_grant']);
  }
  assert.equal((await redeem(ringtrue, client, { code, code_verifier })).status, 200);
  const user = new HttpBrowser(ringtrue);
  for (const parameters of [
    { code_challenge: code_verifier, code_challenge_method: 'plain' },
    { code_challenge },
    { code_challenge: 'short', code_challenge_method: 'S256' },
    { code_challenge_method: 'S256' },
  ]) {
    const { url } = await user.open(authorizeUrl(ringtrue, client, parameters));
    assert.equal(url.searchParams.get('error'), 'invalid_request', JSON.stringify(parameters));
  }
});

test('a code that many requests redeem at the same time yields one set of tokens, and then none', async () => {
  const code = await codeOf(client);
  const answers = await Promise.all(Array.from({ length: 8 }, () => redeem(ringtrue, client, { code })));
  const granted = answers.filter(({ status }) => status === 200);
  assert.equal(granted.length, 1);
  for (const { status, body } of answers.filter((answer) => answer !== granted[0])) {
    assert.deepEqual([status, body.error], [400, 'invalid_grant']);
  }
  assert.equal((await userinfo(ringtrue, granted[0].body.access_token)).status, 401);
});

test('access tokens of sign-ins open userinfo only, and those of the API do not open it', async () => {
  const { body } = await redeem(ringtrue, client, { code: await codeOf(client) });
  const headers = { authorization: `Bearer ${body.access_token}`, 'content-type': 'application/json' };
  for (const path of ['/v1/verifications', '/v1/management/workspaces', '/v1/number-verification/reverse-sms-checks']) {
    assert.equal((await fetch(`${ringtrue.base_url}${path}`, { headers })).status, 401, path);
  }
  const granted = await redeem(ringtrue, client, { grant_type: 'client_credentials', scope: 'verification' });
  assert.equal(granted.status, 200);
  for (const token of [granted.body.access_token, body.id_token, 'x', '']) {
    assert.equal((await userinfo(ringtrue, token)).status, 401);
  }
  const twice = await fetch(`${ringtrue.base_url}/oauth2/userinfo`, {
    method: 'POST',
    headers: { authorization: `Bearer ${body.access_token}` },
    body: new URLSearchParams({ access_token: body.access_token }),
  });
  assert.equal(twice.status, 400);
});

test('mix-up: every return names the issuer', async () => {
  const user = new HttpBrowser(ringtrue);
  const answers = [
    (await user.open(authorizeUrl(ringtrue, client, { prompt: 'none' }))).url,
    (await user.open(authorizeUrl(ringtrue, client, { response_type: 'token' }))).url,
    (await user.signIn(authorizeUrl(ringtrue, client), nextNumber())).url,
  ];
  const { html } = await user.open(authorizeUrl(ringtrue, client));
  const cancelled = await user.submit(formAction(html, '/cancel'));
  assert.equal(cancelled.status, 303);
  answers.push(new URL(cancelled.headers.get('location')));
  for (const url of answers) assert.equal(url.searchParams.get('iss'), ringtrue.base_url, url.href);
});

test("a pushed request belongs to its client, and a foreign key's request object is refused", async () => {
  const { key, kid, jwks } = await keyPair('ES256');
  const [own, other] = [await createClient(ringtrue, { jwks }), await createClient(ringtrue)];
  const response = await fetch(`${ringtrue.base_url}/oauth2/par`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${own.client_id}:${own.client_secret}`)}` },
    body: new URLSearchParams({ response_type: 'code', scope: 'openid', redirect_uri: REDIRECT_URI }),
  });
  assert.equal(response.status, 201);
  const { request_uri } = await response.json();
  const user = new HttpBrowser(ringtrue);
  const minimal = { response_type: undefined, scope: undefined, redirect_uri: undefined };
  const foreign = await user.open(authorizeUrl(ringtrue, other, { ...minimal, request_uri }));
  assert.equal(foreign.status, 400);
  const opened = await user.open(authorizeUrl(ringtrue, own, { ...minimal, request_uri }));
  assert.equal(opened.status, 200, 'the foreign attempt has not used it up');
  // A request object of one client, sent in the name of another.
  const object = await oauth.issueRequestObject(
    { issuer: ringtrue.base_url },
    { client_id: own.client_id },
    { response_type: 'code', scope: 'openid', redirect_uri: REDIRECT_URI },
    { key, kid },
  );
  const sent = await user.open(authorizeUrl(ringtrue, other, { request: object, state: 's' }));
  assert.equal(sent.url.searchParams.get('error'), 'invalid_request_object');
});

test('a number that cannot be proven returns an error, and no code', async () => {
  for (const [ending, states, error] of [
    // Another phone than that of the number; an operator that is out of order, then a text from another number.
    ['01', ['ask_number', 'silent', 'stalled'], 'access_denied'],
    ['95', ['ask_number', 'silent', 'stalled', 'send_sms', 'not_matched'], 'access_denied'],
  ]) {
    const number = nextNumber(ending);
    const { url, states: seen } = await new HttpBrowser(ringtrue).signIn(authorizeUrl(ringtrue, client, { state: 's' }), number);
    const { code, error: returned, state, iss } = Object.fromEntries(url.searchParams);
    assert.deepEqual([code, returned, state, iss], [undefined, error, 's', ringtrue.base_url], `${number}: ${seen}`);
    for (const expected of states) assert.ok(seen.includes(expected), `${expected} among ${seen}`);
  }
});

test('only the registered authentication method opens the endpoints', async () => {
  const { jwks } = await keyPair('ES256');
  const keyed = await createClient(ringtrue, { token_endpoint_auth_method: 'private_key_jwt', jwks });
  const posting = await createClient(ringtrue, { token_endpoint_auth_method: 'client_secret_post' });
  for (const { client_id, client_secret } of [keyed, posting]) {
    for (const [path, fields] of [
      ['/oauth2/token', { grant_type: 'authorization_code', code: 'x' }],
      ['/oauth2/par', { response_type: 'code', scope: 'openid' }],
    ]) {
      const response = await fetch(`${ringtrue.base_url}${path}`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
        body: new URLSearchParams({ redirect_uri: REDIRECT_URI, ...fields }),
      });
      const { error } = await response.json();
      assert.deepEqual([response.status, error], [401, 'invalid_client'], path);
      // RFC 6749, section 5.2: in response to an `Authorization` header.
      assert.match(response.headers.get('www-authenticate') ?? '', /^Basic /, path);
    }
  }
});

test('a sign-in ends for good', async () => {
  const user = new HttpBrowser(ringtrue);
  const entry = await user.open(authorizeUrl(ringtrue, client));
  const { url } = await user.signIn(entry.url, nextNumber());
  // A lost return is repeated with the same code, until the code is redeemed.
  assert.equal((await user.open(entry.url)).url.href, url.href);
  assert.equal((await redeem(ringtrue, client, { code: url.searchParams.get('code') })).status, 200);
  for (const path of ['', '/return', `/return?code=${url.searchParams.get('code')}`]) {
    const { status, html } = await user.open(`${entry.url}${path}`);
    assert.equal(status, 200);
    assert.ok(!html.includes('code='), path);
  }
  const restarted = await user.submit(`${entry.url}/number`, { phone_number: nextNumber() });
  assert.equal(new URL(restarted.headers.get('location'), entry.url).href, entry.url.href);
});

test('a revoked access token, and one of a project that is disabled, open nothing', async () => {
  const own = await createClient(ringtrue);
  const tokens = [];
  for (let count = 0; count < 2; count += 1) {
    const { body } = await redeem(ringtrue, own, { code: await codeOf(own) });
    assert.equal((await userinfo(ringtrue, body.access_token)).status, 200);
    tokens.push(body.access_token);
  }
  const revoked = await fetch(`${ringtrue.base_url}/oauth2/revoke`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${own.client_id}:${own.client_secret}`)}` },
    body: new URLSearchParams({ token: tokens[0] }),
  });
  assert.equal(revoked.status, 200);
  assert.equal((await userinfo(ringtrue, tokens[0])).status, 401);
  assert.equal((await userinfo(ringtrue, tokens[1])).status, 200);
  await manage(ringtrue, 'PATCH', `/projects/${own.project_id}`, { disabled: true });
  assert.equal((await userinfo(ringtrue, tokens[1])).status, 401);
  assert.equal((await new HttpBrowser(ringtrue).open(authorizeUrl(ringtrue, own))).status, 400);
});

test('a session belongs to its project and to its browser', async () => {
  const [one, other] = [await createClient(ringtrue, { session: 600 }), await createClient(ringtrue, { session: 600 })];
  const user = new HttpBrowser(ringtrue);
  await user.signIn(authorizeUrl(ringtrue, one), nextNumber());
  const silently = async (browser, client) =>
    (await browser.open(authorizeUrl(ringtrue, client, { prompt: 'none' }))).url.searchParams.get('error');
  assert.equal(await silently(user, one), null);
  assert.equal(await silently(user, other), 'login_required');
  assert.equal(await silently(new HttpBrowser(ringtrue), one), 'login_required');
  // A project that no longer wants sessions ends them.
  await configure(ringtrue, one, { sign_in: { session: null } });
  assert.equal(await silently(user, one), 'login_required');
});
