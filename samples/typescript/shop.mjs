// @ts-check
// A shop that signs users up with a verification: create, redirect, redeem. The types are in JSDoc comments, which
// TypeScript checks, so that this file runs without a build step on Node.js 18 and later.
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

const baseUrl = process.env.BASE_URL ?? 'http://127.0.0.1:8080';
const port = Number(process.env.SHOP_PORT ?? 3000);
const MAX_BODY_BYTES = 4096;
const MAX_SESSIONS = 10_000;

/** @typedef {{ verificationId?: string, phoneNumber?: string, message?: string, verifiedNumber?: string }} Session */
/** `url` is present while the verification is open. */
/** @typedef {{ verification_id: string, status: string, url?: string, match?: boolean }} Verification */

/** Sessions by their cookie. A real shop has a session store. @type {Map<string, Session>} */
const sessions = new Map();
/** @type {{ value: string, expiresAt: number } | undefined} */
let token;

class ApiError extends Error {
  /** @param {number} status @param {string} body a problem, which explains the error in `detail` */
  constructor(status, body) {
    super(`${status} ${body}`);
    this.status = status;
  }
}

/** Returns a cached access token, and requests a new one shortly before it expires. */
async function accessToken() {
  if (token === undefined || token.expiresAt < Date.now()) {
    const credential = Buffer.from(`${process.env.CLIENT_ID}:${process.env.CLIENT_SECRET}`).toString('base64');
    const response = await fetch(`${baseUrl}/oauth2/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${credential}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'verification' }),
    });
    if (!response.ok) throw new Error(`/oauth2/token: ${response.status} ${await response.text()}`);
    const { access_token, expires_in } = await response.json();
    token = { value: access_token, expiresAt: Date.now() + (expires_in - 60) * 1000 };
  }
  return token.value;
}

/**
 * Calls the API as the backend of a project.
 * @param {string} path
 * @param {Record<string, string>} body
 * @param {Record<string, string>} [headers]
 * @returns {Promise<Verification>}
 */
async function post(path, body, headers = {}) {
  const response = await fetch(baseUrl + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${await accessToken()}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new ApiError(response.status, await response.text());
  // A sandbox verification proves nothing about a number.
  if (response.headers.get('x-project-mode') !== 'live' && process.env.ACCEPT_SANDBOX !== '1') {
    throw new Error('the project is in sandbox mode; set ACCEPT_SANDBOX=1 to try it out');
  }
  return response.json();
}

/**
 * Starts a verification, and returns the URL of its page.
 * @param {Session} session
 * @param {string} phoneNumber
 * @param {string} shopUrl
 */
async function signUp(session, phoneNumber, shopUrl) {
  const verification = await post(
    '/v1/verifications',
    { phone_number: phoneNumber, redirect_url: `${shopUrl}/verified` },
    // A repeated request does not create a second verification.
    { 'idempotency-key': randomBytes(16).toString('hex') },
  );
  // The session remembers its verification: a return with another one is rejected.
  session.verificationId = verification.verification_id;
  session.phoneNumber = phoneNumber;
  return verification.url ?? '/';
}

/**
 * Handles the return of the browser. Its parameters prove nothing until the code is redeemed. Returns where the browser
 * goes next.
 * @param {Session} session
 * @param {URLSearchParams} query
 */
async function comeBack(session, query) {
  const { verificationId, phoneNumber } = session;
  const code = query.get('code');
  if (verificationId === undefined || query.get('verification_id') !== verificationId) {
    session.message = 'This link belongs to another sign-up.';
    return '/';
  }
  if (code === null) {
    session.message = 'We could not verify your number.';
    return '/';
  }
  // A reloaded page redeems the same code again and gets the same result.
  const result = await post(`/v1/verifications/${verificationId}`, { code });
  // Still open, if the project goes on after a mismatch or asks for a SIM change: the page continues.
  if (result.url !== undefined) return result.url;
  if (result.status === 'COMPLETED' && result.match === true) {
    session.verifiedNumber = phoneNumber;
    delete session.message;
  } else {
    session.message = 'This number is not the number of your phone.';
  }
  return '/';
}

/** @param {string} text */
const escape = (text) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** @param {Session} session */
function page(session) {
  const content = session.verifiedNumber
    ? `<p>Welcome! Your number ${escape(session.verifiedNumber)} is verified.</p>`
    : `${session.message ? `<p role="alert">${escape(session.message)}</p>` : ''}
<form method="post" action="/sign-up">
<label>Phone number <input name="phone_number" type="tel" required placeholder="+990123456700"></label>
<button>Sign up</button>
</form>`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sample shop</title></head>
<body><h1>Sample shop</h1>
${content}
</body></html>`;
}

/**
 * Finds the session of a request, or starts one.
 * @param {string | undefined} cookies
 * @returns {{ session: Session, cookie?: string }}
 */
function findSession(cookies) {
  const id = /(?:^|; )session=([0-9a-f]{32})(?:;|$)/.exec(cookies ?? '')?.[1];
  const known = id && sessions.get(id);
  if (known) return { session: known };
  const [oldest] = sessions.keys();
  if (sessions.size >= MAX_SESSIONS && oldest) sessions.delete(oldest);
  const created = randomBytes(16).toString('hex');
  /** @type {Session} */
  const session = {};
  sessions.set(created, session);
  // `Lax`, because the browser comes back from another site. Add `Secure` where the shop uses https.
  return { session, cookie: `session=${created}; HttpOnly; SameSite=Lax; Path=/` };
}

/** @param {import('node:http').IncomingMessage} request */
async function readForm(request) {
  let body = '';
  for await (const chunk of request) {
    body += chunk;
    if (body.length > MAX_BODY_BYTES) throw new Error('the form is too large');
  }
  return new URLSearchParams(body);
}

const server = createServer(async (request, response) => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  const shopUrl = process.env.SHOP_URL ?? `http://127.0.0.1:${address.port}`;
  const url = new URL(request.url ?? '/', shopUrl);
  const { session, cookie } = findSession(request.headers.cookie);
  if (cookie) response.setHeader('set-cookie', cookie);
  let location = '/';
  try {
    if (request.method === 'POST' && url.pathname === '/sign-up') {
      const form = await readForm(request);
      location = await signUp(session, form.get('phone_number') ?? '', shopUrl);
    } else if (request.method === 'GET' && url.pathname === '/verified') {
      location = await comeBack(session, url.searchParams);
    } else if (request.method === 'GET' && url.pathname === '/') {
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(page(session));
      return;
    } else {
      response.statusCode = 404;
      response.end();
      return;
    }
  } catch (error) {
    // The message of the API is for developers.
    console.error(error instanceof Error ? error.message : error);
    const isInputError = error instanceof ApiError && error.status < 500;
    session.message = isInputError ? 'We cannot verify this number.' : 'Please try again later.';
    location = '/';
  }
  response.writeHead(303, { location });
  response.end();
});

if (!process.env.CLIENT_ID || !process.env.CLIENT_SECRET) {
  console.error('CLIENT_ID and CLIENT_SECRET are not set: export the credential of a project');
  process.exit(2);
}
server.on('error', (error) => {
  console.error(`${error.message}; set SHOP_PORT to a free port, or to 0 for any`);
  process.exit(1);
});
server.listen(port, '127.0.0.1', () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  console.log(`listening on http://127.0.0.1:${address.port}/`);
});
