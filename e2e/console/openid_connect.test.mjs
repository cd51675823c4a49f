// Sign-in by OpenID Connect at npm `oidc-provider`, unmodified.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

// Suppresses the library's notices.
console.info = () => {};
console.warn = () => {};
const { default: Provider } = await import('oidc-provider');

const CLIENT_ID = 'ringtrue:console';
const CLIENT_SECRET = 's3cret: of/ours+';

const people = {
  'subject-1': { email: 'Ada@example.com', email_verified: true, groups: ['staff'] },
  'subject-2': { email: 'ada@example.com', email_verified: true, groups: ['staff', 'ringtrue-admins'] },
  'subject-3': { email: 'leo@example.com', email_verified: false },
};
/** Who is signed in at the provider. */
let subject;

// The redirect URI is known when Ringtrue has started, which needs the issuer.
let handle;
const server = createServer((request, response) => handle(request, response));
await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
const issuer = `http://127.0.0.1:${server.address().port}`;
const folder = await mkdtemp(join(tmpdir(), 'ringtrue-oidc-'));
await writeFile(join(folder, 'secret'), CLIENT_SECRET, { mode: 0o600 });
Object.assign(process.env, {
  RINGTRUE_CONSOLE__OPENID_CONNECT__ISSUER: issuer,
  RINGTRUE_CONSOLE__OPENID_CONNECT__CLIENT_ID: CLIENT_ID,
  RINGTRUE_CONSOLE__OPENID_CONNECT__CLIENT_SECRET_FILE: join(folder, 'secret'),
  RINGTRUE_CONSOLE__OPENID_CONNECT__SCOPES: '["email", "groups"]',
  RINGTRUE_CONSOLE__OPENID_CONNECT__PROVIDER_NAME: 'Example',
  RINGTRUE_CONSOLE__OPENID_CONNECT__ADMINISTRATORS: '["ringtrue-admins"]',
});
// Starts Ringtrue, with these settings.
const { consoleTest, otherOrigins } = await import('./browser.mjs');
otherOrigins.push(issuer);
after(async () => {
  server.closeAllConnections();
  server.close();
  await rm(folder, { recursive: true, force: true });
});

function startProvider(ringtrue) {
  if (handle) return;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: CLIENT_ID,
      client_secret: CLIENT_SECRET,
      redirect_uris: [`${ringtrue.base_url}/console/openid-connect/callback`],
    }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
    async loadExistingGrant(ctx) {
      const grant = new provider.Grant({ accountId: ctx.oidc.session.accountId, clientId: ctx.oidc.client.clientId });
      grant.addOIDCScope(ctx.oidc.params.scope);
      await grant.save(60);
      return grant;
    },
  });
  provider.use(async (ctx, next) => {
    if (ctx.path === '/auth') {
      const session = new provider.Session();
      session.loginAccount({ accountId: subject });
      await session.save(60);
      ctx.req.headers.cookie = `${provider.cookieName('session')}=${session.id}`;
    }
    await next();
  });
  handle = provider.callback();
}

async function signIn(page, as) {
  subject = as;
  await page.getByRole('link', { name: 'Sign in with Example' }).click();
}

consoleTest('invited user signs in with an identity, and stays bound to it', async (visitor, ringtrue) => {
  startProvider(ringtrue);
  const { page } = visitor;
  const { workspace_id } = ringtrue.workspace;
  visitor.expectStatus(403);
  await page.goto('/console/sign-in');
  await visitor.inspect('sign-in-with-provider');
  await signIn(page, 'subject-1');
  await page.getByText('You have no account').waitFor();
  await visitor.inspect('sign-in-without-account');

  const { url } = await ringtrue.run(
    'console', 'link', '--member', 'ada@example.com', '--workspace', workspace_id, '--role', 'viewer',
  );
  await page.goto(url);
  await page.getByRole('link', { name: /sign in/i }).first().click();
  await signIn(page, 'subject-1');
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await page.getByRole('heading', { name: 'Projects' }).waitFor();
  await page.goto('/console/account');
  await page.getByText(`linked to ${issuer}`).waitFor();
  await visitor.inspect('account-with-identity');
  await page.getByRole('button', { name: 'Sign out' }).click();

  // Another subject with the same address, and an address that is not verified.
  await signIn(page, 'subject-2');
  await page.getByText('linked to another identity').waitFor();
  await page.goto('/console/sign-in');
  await signIn(page, 'subject-3');
  await page.getByText('has not confirmed your email address').waitFor();

  // Back to the requested page.
  await page.goto('/console/account');
  await signIn(page, 'subject-1');
  await page.getByRole('heading', { name: 'Account', exact: true }).waitFor();
});

consoleTest('administrators are made and unmade by claim', async (visitor, ringtrue) => {
  startProvider(ringtrue);
  const { page } = visitor;
  await ringtrue.run('console', 'link', '--admin', 'zoe@example.com');
  people['subject-4'] = { email: 'zoe@example.com', email_verified: true, groups: [] };
  // Made by hand: the claim is not needed.
  await page.goto('/console/sign-in');
  await signIn(page, 'subject-4');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await page.goto('/console/deployment/accounts');
  await page.getByRole('heading', { name: 'Accounts' }).waitFor();
  await visitor.inspect('accounts-with-identity');

  people['subject-1'].groups = ['ringtrue-admins'];
  for (const isAdmin of [true, false]) {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, 'subject-1');
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    if (!isAdmin) visitor.expectStatus(403);
    const response = await page.goto('/console/deployment/accounts');
    assert.equal(response.status(), isAdmin ? 200 : 403);
    await page.goto('/console/account');
    people['subject-1'].groups = [];
  }
});
