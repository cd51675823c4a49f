// Auth.js (npm `@auth/core`), unmodified, as a relying party: a site with the provider that docs/sign-in.md shows.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { Auth } from '@auth/core';
import { launchChromium } from './chromium.mjs';
import { startRingtrue } from './ringtrue.mjs';
import { createClient, nextNumber } from './sign-in.mjs';

let ringtrue;
let browser;
let site;
before(async () => {
  ringtrue = await startRingtrue();
  site = await startSite();
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  await site?.stop();
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

async function startSite() {
  let config;
  const server = createServer(async (request, response) => {
    const body = request.method === 'POST' ? Buffer.concat(await request.toArray()) : undefined;
    const url = new URL(request.url, origin);
    const headers = new Headers(Object.entries(request.headers));
    if (url.pathname === '/favicon.ico') return response.writeHead(204).end();
    const answer = await Auth(new Request(url, { method: request.method, headers, body }), config);
    response.setHeader('set-cookie', answer.headers.getSetCookie());
    for (const [name, value] of answer.headers) if (name !== 'set-cookie') response.setHeader(name, value);
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;
  const client = await createClient(ringtrue, { redirect_uris: [`${origin}/auth/callback/phone`] });
  config = {
    basePath: '/auth',
    trustHost: true,
    secret: crypto.randomUUID(),
    providers: [
      {
        id: 'phone',
        name: 'Phone',
        type: 'oidc',
        issuer: ringtrue.base_url,
        clientId: client.client_id,
        clientSecret: client.client_secret,
        checks: ['pkce', 'state', 'nonce'],
        authorization: { params: { scope: 'openid phone' } },
        profile: ({ sub, phone_number }) => ({ id: sub, name: phone_number }),
      },
    ],
  };
  return {
    origin,
    stop: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}

test('Auth.js: a user signs in, and has a session', { timeout: 180_000 }, async () => {
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  try {
    const page = await context.newPage();
    const number = nextNumber();
    await page.goto(`${site.origin}/auth/signin?callbackUrl=${encodeURIComponent(`${site.origin}/auth/session`)}`);
    await page.getByRole('button', { name: 'Sign in with Phone' }).click();
    await page.getByLabel('Mobile number').fill(number);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForURL(`${site.origin}/auth/session`);
    const session = JSON.parse(await page.locator('body').textContent());
    assert.equal(session.user.name, number);
  } finally {
    await context.close();
  }
});
