// Debian's `liblemonldap-ng-portal-perl` as a relying party: LemonLDAP::NG's portal in an Apache of our own on a loopback
// port, and a user in Chromium who signs in to it.
import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startApache } from './apache.mjs';
import { enterNumber, inProfile, launchChromium } from './chromium.mjs';
import { startRingtrue } from './ringtrue.mjs';
import { claimsOf, createClient, nextNumber } from './sign-in.mjs';

const PORTAL = '/usr/share/lemonldap-ng/portal';
const SCREENSHOTS = process.env.SCREENSHOTS;

let ringtrue;
let browser;
let apache;
/** The portal. */
let url;

before(async () => {
  ringtrue = await startRingtrue();
  apache = await startApache(prepare);
  url = `${apache.origin}/`;
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  await apache?.stop();
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** The portal's configuration, with the settings that docs/sign-in.md shows. */
async function portalConfiguration(folder, portal, client) {
  const metadata = await fetch(`${ringtrue.base_url}/.well-known/openid-configuration`);
  const storage = (name) => ({ Directory: join(folder, name), LockDirectory: join(folder, name, 'lock') });
  return {
    cfgNum: 1,
    cfgAuthor: 'e2e',
    cfgDate: 1,
    cfgVersion: '2.16.1',
    portal,
    domain: '127.0.0.1',
    cookieName: 'lemonldap',
    securedCookie: 0,
    globalStorage: 'Apache::Session::File',
    globalStorageOptions: storage('sessions'),
    localSessionStorage: 'Cache::FileCache',
    localSessionStorageOptions: { namespace: 'sessions', cache_root: join(folder, 'cache'), cache_depth: 3, default_expires_in: 600 },
    persistentStorage: 'Apache::Session::File',
    persistentStorageOptions: storage('psessions'),
    locationRules: {},
    exportedHeaders: {},
    exportedVars: {},
    applicationList: {
      members: {
        type: 'category',
        catname: 'Members',
        wiki: {
          type: 'application',
          options: { name: 'Wiki', description: 'What members know', uri: 'https://wiki.example.com/', display: 'on', logo: 'wheels.png' },
        },
      },
    },
    groups: {},
    authentication: 'OpenIDConnect',
    userDB: 'Same',
    // The portal loads a CAPTCHA even if no form shows one. Its own needs ImageMagick.
    captcha: '::Main::Plugin',
    passwordDB: 'Null',
    portalDisplayRegister: 0,
    portalDisplayResetPassword: 0,
    macros: { _whatToTrace: '$_user' },
    whatToTrace: '_whatToTrace',
    portalUserAttr: 'phone_number',
    oidcRPStateTimeout: 960,
    oidcOPMetaDataJSON: { phone: await metadata.text() },
    oidcOPMetaDataExportedVars: { phone: { phone_number: 'phone_number' } },
    // As the Manager saves them: empty ones are parameters of the request too.
    oidcOPMetaDataOptions: {
      phone: {
        oidcOPMetaDataOptionsClientID: client.client_id,
        oidcOPMetaDataOptionsClientSecret: client.client_secret,
        oidcOPMetaDataOptionsScope: 'openid phone',
        oidcOPMetaDataOptionsTokenEndpointAuthMethod: 'client_secret_basic',
        oidcOPMetaDataOptionsCheckJWTSignature: 1,
        oidcOPMetaDataOptionsJWKSTimeout: 3600,
        oidcOPMetaDataOptionsUseNonce: 1,
        oidcOPMetaDataOptionsIDTokenMaxAge: 30,
        oidcOPMetaDataOptionsMaxAge: 0,
        oidcOPMetaDataOptionsStoreIDToken: 1,
        oidcOPMetaDataOptionsDisplay: '',
        oidcOPMetaDataOptionsPrompt: '',
        oidcOPMetaDataOptionsUiLocales: '',
      },
    },
    // A page shows users what the portal knows about them.
    checkUser: 1,
  };
}

/** Writes the portal's files, and returns Apache's modules and directives. */
async function prepare(folder, origin) {
  const client = await createClient(ringtrue, { redirect_uris: [`${origin}/?openidconnectcallback=1`] });
  // The portal gives up root's rights.
  for (const name of ['conf', 'sessions', 'sessions/lock', 'psessions', 'psessions/lock', 'cache', 'fcgid']) {
    await mkdir(join(folder, name));
    await chmod(join(folder, name), 0o777);
  }
  await writeFile(join(folder, 'conf', 'lmConf-1.json'), JSON.stringify(await portalConfiguration(folder, `${origin}/`, client)));
  await writeFile(join(folder, 'lemonldap-ng.ini'), `
[all]
logLevel = notice

[configuration]
type = File
dirName = ${folder}/conf

[portal]
staticPrefix = /static
templateDir = ${PORTAL}/templates
languages = en
`);
  const directives = `
TypesConfig /dev/null
AddType text/css .css
AddType text/javascript .js
AddType application/json .json
AddType image/png .png
FcgidIPCDir ${folder}/fcgid
FcgidProcessTableFile ${folder}/fcgid/processes
# Each needs seconds of processor time to start.
FcgidMaxProcesses 1
FcgidIOTimeout 180
FcgidInitialEnv LLNG_DEFAULTCONFFILE ${folder}/lemonldap-ng.ini

# From /etc/lemonldap-ng/portal-apache2.X.conf.
DocumentRoot ${PORTAL}/htdocs/
<Directory ${PORTAL}/htdocs/>
  Require all granted
  Options +ExecCGI +FollowSymLinks
</Directory>
RewriteEngine On
RewriteCond "%{REQUEST_URI}" "!^/(?:(?:static|javascript|favicon).*|.*\\.fcgi(?:/.*)?)$"
RewriteRule "^/(.+)$" "/index.fcgi/$1" [PT]
<Files *.fcgi>
  SetHandler fcgid-script
  CGIPassAuth On
  Options +ExecCGI
  Header unset Lm-Remote-User
</Files>
Alias /static/ ${PORTAL}/htdocs/static/
DirectoryIndex index.fcgi
# From the package javascript-common.
Alias /javascript/ /usr/share/javascript/
<Directory /usr/share/javascript/>
  Require all granted
  Options +FollowSymLinks
</Directory>
`;
  return { modules: ['alias', 'headers', 'mime', 'rewrite', 'fcgid'], directives };
}

const inBrowser = (steps) => inProfile(browser, { viewport: { width: 1100, height: 700 } }, steps);

const waitForMenu = (page, number) => page.getByRole('link', { name: `Connected as ${number}` }).waitFor();

/** What the portal's session knows about the user. */
async function session(page) {
  await page.goto(`${url}checkuser`);
  const value = (key) => page.locator('tr', { has: page.getByRole('cell', { name: key, exact: true }) }).getByRole('cell').last().textContent();
  const [user, number, id_token] = await Promise.all(['_whatToTrace', 'phone_number', '_oidc_id_token'].map(value));
  return { user, number, claims: claimsOf(id_token) };
}

test('LemonLDAP::NG: a user proves a number, and the portal shows its menu', { timeout: 180_000 }, async () => {
  const subjects = [];
  const number = nextNumber();
  for (let visit = 0; visit < 2; visit += 1) {
    await inBrowser(async (page) => {
      await page.goto(url);
      assert.ok(page.url().startsWith(`${ringtrue.base_url}/signin/`));
      await enterNumber(page, number);
      await waitForMenu(page, number);
      // The portal's own session.
      await page.goto(url);
      await waitForMenu(page, number);
      if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, 'lemonldap.png'), clip: { x: 0, y: 0, width: 1100, height: 440 } });
      const known = await session(page);
      assert.equal(known.number, number);
      assert.equal(known.user, known.claims.sub, 'with its capitals');
      assert.equal(known.claims.acr, 'urn:ringtrue:silent');
      subjects.push(known.user);
    });
  }
  assert.match(subjects[0], /^[\w-]{43}$/);
  assert.equal(subjects[0], subjects[1], 'the same user');
});

test('LemonLDAP::NG: a text message, and a logout', { timeout: 180_000 }, async () => {
  const number = nextNumber('96');
  await inBrowser(async (page) => {
    await page.goto(url);
    await enterNumber(page, number);
    await waitForMenu(page, number);
    const { claims } = await session(page);
    assert.equal(claims.acr, 'urn:ringtrue:sms');
    assert.deepEqual(claims.amr, ['sms']);
    await page.goto(url);
    await page.getByRole('link', { name: 'Logout' }).click();
    await page.getByRole('button', { name: 'I\'m sure' }).click();
    await page.getByText('You have been disconnected').waitFor();
    await page.goto(url);
    await page.getByLabel('Mobile number').waitFor();
  });
});

test('LemonLDAP::NG: a user who gives up gets an error page of the portal', { timeout: 180_000 }, async () => {
  await inBrowser(async (page) => {
    await page.goto(url);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Error during authentication with OpenID Provider').waitFor();
    const { origin, searchParams } = new URL(page.url());
    assert.equal(`${origin}/`, url);
    assert.equal(searchParams.get('error'), 'access_denied');
    // Nobody is signed in: the page asks for the number again.
    await page.goto(url);
    await page.getByLabel('Mobile number').waitFor();
  });
});
