// A small site that signs users in with Ringtrue, by npm `openid-client` and with every check that it has.
import { once } from 'node:events';
import { createServer } from 'node:http';
import * as client from 'openid-client';
import { configure, createClient } from './sign-in.mjs';

export async function startRelyingParty(ringtrue, signIn = {}, configuration = {}) {
  /** What each browser expects to come back, by the value of its cookie. */
  const expected = new Map();
  const results = [];
  let config;
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, origin);
    const html = (text, status = 200) => {
      response.writeHead(status, { 'content-type': 'text/html' });
      response.end(`<!doctype html><html lang="en"><title>Site</title>${text}</html>`);
    };
    if (url.pathname === '/favicon.ico') return response.writeHead(204).end();
    // A page of another site with whatever the test puts on it.
    if (url.pathname === '/elsewhere') return html(url.searchParams.get('html'));
    if (url.pathname === '/login') {
      const browser = crypto.randomUUID();
      const { href, checks } = await begin(Object.fromEntries(url.searchParams));
      expected.set(browser, checks);
      return response.writeHead(303, { location: href, 'set-cookie': `browser=${browser}; HttpOnly; SameSite=Lax` }).end();
    }
    if (url.pathname !== '/callback') return response.writeHead(404).end();
    const browser = /browser=([\w-]+)/.exec(request.headers.cookie)?.[1];
    try {
      if (!expected.has(browser)) throw new Error('this browser did not begin a sign-in');
      const tokens = await client.authorizationCodeGrant(config, url, expected.get(browser));
      const claims = tokens.claims();
      results.push({ claims, tokens, url });
      html(`<h1>Signed in</h1><p id="number">${claims.phone_number}</p>`);
    } catch (error) {
      results.push({ error, url });
      html(`<h1>Not signed in</h1><p id="error">${error.error ?? error.code ?? error.message}</p>`, 400);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;
  const redirect_uri = `${origin}/callback`;
  const registered = await createClient(ringtrue, { redirect_uris: [redirect_uri], ...signIn }, configuration);
  config = await client.discovery(
    new URL(ringtrue.base_url),
    registered.client_id,
    undefined,
    client.ClientSecretBasic(registered.client_secret),
    { execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks] },
  );

  async function begin(parameters = {}) {
    const checks = {
      pkceCodeVerifier: client.randomPKCECodeVerifier(),
      expectedState: client.randomState(),
      expectedNonce: client.randomNonce(),
      idTokenExpected: true,
    };
    const { href } = client.buildAuthorizationUrl(config, {
      redirect_uri,
      scope: 'openid phone',
      state: checks.expectedState,
      nonce: checks.expectedNonce,
      code_challenge: await client.calculatePKCECodeChallenge(checks.pkceCodeVerifier),
      code_challenge_method: 'S256',
      ...parameters,
    });
    return { href, checks };
  }

  return {
    ...registered,
    origin,
    redirect_uri,
    /** The same site under another name, which is another site to browsers. */
    elsewhere: (html) => `http://localhost:${server.address().port}/elsewhere?html=${encodeURIComponent(html)}`,
    results,
    /** URL of an authorization request that no browser has begun. */
    authorizeUrl: async (parameters) => (await begin(parameters)).href,
    configure: (configuration) => configure(ringtrue, registered, configuration),
    stop: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}
