// OpenID clients of a `ringtrue dev`, and a browser without JavaScript that signs users in: it keeps cookies, follows
// redirects, and fills in the forms of the pages, as far as the redirect URI of the client.
import assert from 'node:assert/strict';

/** Redirect URI of the clients. Nothing listens there, because the browser stops before. */
export const REDIRECT_URI = 'http://127.0.0.1:9/callback?tenant=1';

let numbers = 0;
/** A simulated number that nobody else uses. Its last digits decide what the operator does; 00 matches its SIM. */
export function nextNumber(ending = '00') {
  numbers += 1;
  return `+99016${String(numbers).padStart(5, '0')}${ending}`;
}

/** Calls the Management API below the workspace, with the workspace's credential. */
export async function manage({ base_url, workspace }, method, path, body) {
  const { client_id, client_secret, workspace_id } = workspace;
  const granted = await fetch(`${base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'management' }),
  });
  const { access_token } = await granted.json();
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const response = await fetch(`${base_url}/v1/management/workspaces/${workspace_id}${path}`, {
    method,
    headers: { authorization: `Bearer ${access_token}`, 'content-type': type },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** Creates a sandbox project that is an OpenID client, and returns its credential and its id. Its simulated users send
 * the text messages that the pages show. */
export async function createClient(ringtrue, signIn = {}, configuration = {}) {
  const project = await manage(ringtrue, 'POST', '/projects', {
    name: `Client ${(numbers += 1)}`,
    mode: 'sandbox',
    configuration: {
      sign_in: { redirect_uris: [REDIRECT_URI], ...signIn },
      reverse_sms: { auto_reply: true },
      ...configuration,
    },
  });
  const [{ client_id, client_secret }] = project.credentials;
  return { client_id, client_secret, project_id: project.project_id };
}

export const configure = (ringtrue, { project_id }, configuration) =>
  manage(ringtrue, 'PATCH', `/projects/${project_id}`, { configuration });

/** URL of the authorization endpoint with these parameters. */
export function authorizeUrl({ base_url }, { client_id }, parameters = {}) {
  const url = new URL(`${base_url}/oauth2/authorize`);
  const all = { client_id, response_type: 'code', scope: 'openid phone', redirect_uri: REDIRECT_URI, ...parameters };
  for (const [name, value] of Object.entries(all)) if (value !== undefined) url.searchParams.set(name, value);
  return url;
}

/** A user's browser. Requests to sites other than Ringtrue end the walk: they are the returns to clients. */
export class HttpBrowser {
  #origin;
  #cookies = new Map();

  constructor({ base_url }) {
    this.#origin = new URL(base_url).origin;
  }

  /** Sends one request, and does not follow its redirect. */
  async request(url, options = {}) {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { ...(cookie && { cookie }), ...options.headers };
    const response = await fetch(url, { ...options, headers, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      if (/Max-Age=0/i.test(line)) this.#cookies.delete(name);
      else this.#cookies.set(name, value);
    }
    return response;
  }

  /** Submits a form of a page of Ringtrue. */
  submit(action, fields = {}) {
    return this.request(new URL(action, this.#origin), {
      method: 'POST',
      headers: { origin: this.#origin },
      body: new URLSearchParams(fields),
    });
  }

  /** Follows redirects to a page of Ringtrue, or to another site. Returns the URL, and the page if it is Ringtrue's. */
  async open(url, options) {
    let next = new URL(url, this.#origin);
    let response = await this.request(next, options);
    for (;;) {
      const location = response.headers.get('location');
      if (!location) break;
      // A 307 would send the form, with the number, to the next site.
      if (options?.method === 'POST') assert.equal(response.status, 303);
      next = new URL(location, next);
      if (next.origin !== this.#origin) return { url: next };
      response = await this.request(next);
    }
    return { url: next, status: response.status, html: await response.text(), headers: response.headers };
  }

  /** Opens an authorization request and proves the number, until the browser returns to the client. Returns the URL of
   * the return, and the states of the pages that the user saw. */
  async signIn(authorize, number, options) {
    const states = [];
    let page = await this.open(authorize, options);
    while (page.html !== undefined) {
      const { url, html, status } = page;
      const state = attribute(html, 'state');
      states.push(state);
      assert.ok(states.length < 20, `the pages lead nowhere: ${states}`);
      const [operator, returnTo, events] = ['operator', 'return-to', 'events'].map((name) => attribute(html, name));
      if (operator) page = await this.open(operator);
      else if (returnTo) page = await this.open(returnTo);
      else if (/action="[^"]*\/number[^"]*"/.test(html)) {
        assert.equal(status, 200, 'the number is accepted');
        page = await this.#redirected(await this.submit(formAction(html, '/number'), { phone_number: number }));
      } else if (/action="[^"]*\/silent[^"]*"/.test(html)) {
        page = await this.#redirected(await this.submit(formAction(html, '/silent')));
      } else if (events) {
        await this.#waitForChange(events, state);
        page = await this.open(url);
      } else if (linkBack(html)) {
        // A failure waits for a tap.
        page = await this.open(linkBack(html));
      } else assert.fail(`no way on from ${state} (${status}): ${html}`);
    }
    return { url: page.url, states };
  }

  async #redirected(response) {
    const location = response.headers.get('location');
    if (location) return this.open(location);
    return { url: new URL(response.url), status: response.status, html: await response.text() };
  }

  /** Waits for the event that the page's state has changed. */
  async #waitForChange(events, state) {
    const cancel = new AbortController();
    const response = await this.request(new URL(events, this.#origin), { signal: cancel.signal });
    assert.equal(response.status, 200, 'the stream of events is open');
    let text = '';
    try {
      for await (const chunk of response.body) {
        text += Buffer.from(chunk).toString();
        if ([...text.matchAll(/^data: ?(.*)$/gm)].some(([, data]) => data !== state)) return;
      }
    } finally {
      cancel.abort();
    }
    assert.fail(`the stream of events ended: ${text}`);
  }
}

/** A `data-` attribute of a page's body. */
export function attribute(html, name) {
  return decode(new RegExp(`<body[^>]* data-${name}="([^"]*)"`).exec(html)?.[1]);
}

/** Action of the form whose path ends like this. */
export function formAction(html, path) {
  const actions = [...html.matchAll(/<form[^>]* action="([^"]*)"/g)].map(([, action]) => decode(action));
  return actions.find((action) => new URL(action, 'http://127.0.0.1').pathname.endsWith(path));
}

/** Target of the link that leads from the page of a verification back to the sign-in. */
function linkBack(html) {
  const targets = [...html.matchAll(/<a[^>]* href="([^"]*)"/g)].map(([, target]) => decode(target));
  return targets.find((target) => /\/signin\/[\w-]+\/return\?/.test(target));
}

const decode = (text) =>
  text?.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code)).replaceAll('&quot;', '"').replaceAll('&amp;', '&');

/** Redeems a code without a library, and returns the status and the body. */
export async function redeem({ base_url }, { client_id, client_secret }, fields) {
  const response = await fetch(`${base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ grant_type: 'authorization_code', redirect_uri: REDIRECT_URI, ...fields }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** The claims of an ID token, whose signature other tests verify. */
export const claimsOf = (token) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString());

/** Requests userinfo, and returns the status and the claims. */
export async function userinfo({ base_url }, access_token, options) {
  const headers = access_token === undefined ? {} : { authorization: `Bearer ${access_token}` };
  const response = await fetch(`${base_url}/oauth2/userinfo`, { headers, ...options });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** A key pair, and its public half as a JWKS. */
export async function keyPair(algorithm) {
  const parameters = algorithm === 'ES256'
    ? { name: 'ECDSA', namedCurve: 'P-256' }
    : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) };
  const { privateKey, publicKey } = await crypto.subtle.generateKey(parameters, true, ['sign', 'verify']);
  const { key_ops, ext, ...jwk } = await crypto.subtle.exportKey('jwk', publicKey);
  const kid = `${algorithm}-${(numbers += 1)}`;
  return { key: privateKey, kid, jwks: { keys: [{ ...jwk, kid, use: 'sig', alg: algorithm }] } };
}
