// Debian's `libapache2-mod-auth-openidc` as a relying party: an Apache of our own on a loopback port, and a user in
// Chromium who signs in to one of its pages.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startApache } from './apache.mjs';
import { enterNumber, inProfile, launchChromium } from './chromium.mjs';
import { startRingtrue } from './ringtrue.mjs';
import { configure, createClient, nextNumber } from './sign-in.mjs';

const SCREENSHOTS = process.env.SCREENSHOTS;
/** What the application behind Apache learns about the user. */
const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Members</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; } td { padding-right: 1rem; }</style>
<h1>Members’ page</h1>
<table>
<tr><td><code>REMOTE_USER</code><td id="user"><!--#echo var="REMOTE_USER" --></td></tr>
<tr><td><code>OIDC_CLAIM_phone_number</code><td id="number"><!--#echo var="OIDC_CLAIM_phone_number" --></td></tr>
<tr><td><code>OIDC_CLAIM_acr</code><td id="acr"><!--#echo var="OIDC_CLAIM_acr" --></td></tr>
</table></html>`;

let ringtrue;
let browser;
let apache;
let client;
/** The page behind Apache. */
let url;

before(async () => {
  ringtrue = await startRingtrue();
  apache = await startApache(prepare);
  url = `${apache.origin}/signed-in/`;
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  await apache?.stop();
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Apache's modules, and the directives that docs/sign-in.md shows. */
async function prepare(folder, origin) {
  await mkdir(join(folder, 'htdocs', 'signed-in'), { recursive: true });
  await writeFile(join(folder, 'htdocs', 'signed-in', 'index.html'), PAGE);
  await writeFile(join(folder, 'passphrase'), crypto.randomUUID());
  client = await createClient(ringtrue, { redirect_uris: [`${origin}/signed-in/callback`] });
  const directives = `
DocumentRoot ${folder}/htdocs
DirectoryIndex index.html
AddDefaultCharset utf-8

OIDCProviderMetadataURL ${ringtrue.base_url}/.well-known/openid-configuration
OIDCClientID            ${client.client_id}
OIDCClientSecret        ${client.client_secret}
OIDCRedirectURI         ${origin}/signed-in/callback
OIDCCryptoPassphrase    "exec:/bin/cat ${folder}/passphrase"
OIDCScope               "openid phone"
OIDCPKCEMethod          S256
OIDCRemoteUserClaim     sub

<Location /signed-in/>
  AuthType openid-connect
  Require valid-user
  Options +Includes
  ForceType text/html
  SetOutputFilter INCLUDES
</Location>
`;
  return { modules: ['authn_core', 'authz_user', 'include', 'auth_openidc'], directives };
}

const inBrowser = (steps) => inProfile(browser, { viewport: { width: 900, height: 700 } }, steps);

test('mod_auth_openidc: a user proves a number, and Apache shows the page', { timeout: 180_000 }, async () => {
  const subjects = [];
  const number = nextNumber();
  for (let visit = 0; visit < 2; visit += 1) {
    await inBrowser(async (page) => {
      await page.goto(url);
      assert.ok(page.url().startsWith(`${ringtrue.base_url}/signin/`));
      await enterNumber(page, number);
      await page.getByRole('heading', { name: 'Members’ page' }).waitFor();
      assert.equal(page.url(), url, 'Apache returns to the page that the user wanted');
      assert.equal(await page.locator('#number').textContent(), number);
      assert.equal(await page.locator('#acr').textContent(), 'urn:ringtrue:silent');
      subjects.push(await page.locator('#user').textContent());
      if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, 'mod_auth_openidc.png'), clip: { x: 0, y: 0, width: 900, height: 300 } });
      // Apache's own session.
      await page.reload();
      await page.getByRole('heading', { name: 'Members’ page' }).waitFor();
    });
  }
  assert.match(subjects[0], /^[\w-]{43}$/);
  assert.equal(subjects[0], subjects[1], 'the same user');
});

test('mod_auth_openidc: a text message from a simulated phone', { timeout: 180_000 }, async () => {
  const number = nextNumber('96');
  await configure(ringtrue, client, { reverse_sms: { auto_reply: false } });
  await inBrowser(async (page) => {
    await page.goto(url);
    await enterNumber(page, number);
    await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
    const [to, body] = await Promise.all(['#receiver', '#body'].map((id) => page.locator(id).textContent()));
    await sendSms(client, { from: number, to, body });
    await page.getByRole('heading', { name: 'Members’ page' }).waitFor();
    assert.equal(await page.locator('#acr').textContent(), 'urn:ringtrue:sms');
  });
});

// This version takes any return with `iss` but without a code for a sign-in that the provider starts, so it shows an
// error of its own in place of `access_denied`. RFC 9207 demands `iss` in errors too.
test('mod_auth_openidc: a user who gives up gets an error page of Apache', { timeout: 180_000 }, async () => {
  await inBrowser(async (page) => {
    await page.goto(url);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Invalid Request').waitFor();
    const { origin, pathname, searchParams } = new URL(page.url());
    assert.equal(`${origin}${pathname}`, `${url}callback`);
    assert.equal(searchParams.get('error'), 'access_denied');
    // Nobody is signed in: the page asks for the number again.
    await page.goto(url);
    await page.getByLabel('Mobile number').waitFor();
  });
});

/** Sends an SMS from a simulated phone. */
async function sendSms({ client_id, client_secret }, message) {
  const granted = await fetch(`${ringtrue.base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'reverse_sms' }),
  });
  const { access_token } = await granted.json();
  const response = await fetch(`${ringtrue.base_url}/v1/sandbox/inbound-sms`, {
    method: 'POST',
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify(message),
  });
  assert.ok(response.ok, await response.text());
}
