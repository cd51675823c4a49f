// @ts-check
// A shop that signs users up with a verification: create, redirect, redeem. The types are in JSDoc comments, which
// TypeScript checks, so that this file runs without a build step on Node.js 18 and later.
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { ApiError, ForeignReturnError, Ringtrue } from '@ringtrue/server';

const { BASE_URL = 'http://127.0.0.1:8080', CLIENT_ID, CLIENT_SECRET, ACCEPT_SANDBOX, SHOP_PORT = '3000' } = process.env;
const MAX_BODY_BYTES = 4096;
const MAX_SESSIONS = 10_000;

/** @typedef {{ verificationId?: string, phoneNumber?: string, message?: string, verifiedNumber?: string }} Session */

/** Sessions by their cookie. A real shop has a session store. @type {Map<string, Session>} */
const sessions = new Map();

if (!CLIENT_ID || !CLIENT_SECRET) {
  console.error('CLIENT_ID and CLIENT_SECRET are not set: export the credential of a project');
  process.exit(2);
}
const ringtrue = new Ringtrue({
  url: BASE_URL,
  clientId: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  // A sandbox verification proves nothing about a number.
  allowSandbox: ACCEPT_SANDBOX === '1',
});

/**
 * Starts a verification, and returns the URL of its page.
 * @param {Session} session
 * @param {string} phoneNumber
 * @param {string} shopUrl
 */
async function signUp(session, phoneNumber, shopUrl) {
  const redirect_url = `${shopUrl}/verified`;
  const verification = await ringtrue.verifications.create({ phone_number: phoneNumber, redirect_url });
  // The session remembers its verification: a return with another one is rejected.
  session.verificationId = verification.verification_id;
  session.phoneNumber = phoneNumber;
  return verification.url;
}

/**
 * Handles the return of the browser. Returns where the browser goes next.
 * @param {Session} session
 * @param {URLSearchParams} query
 */
async function comeBack(session, query) {
  const outcome = await ringtrue.verifications.redeem(session.verificationId, query);
  if (outcome.open) return outcome.url;
  if (outcome.verified) {
    session.verifiedNumber = session.phoneNumber;
    delete session.message;
  } else {
    session.message = 'We could not verify your number.';
    if (outcome.reason === 'no_match') session.message += ' It is not the number of your phone.';
  }
  return '/';
}

/** What the user reads about an error. The message of the error is for developers. @param {unknown} error */
function explain(error) {
  if (error instanceof ForeignReturnError) return 'This link belongs to another sign-up.';
  console.error(error instanceof Error ? error.message : error);
  const isInputError = error instanceof ApiError && error.status === 400;
  return isInputError ? 'We cannot verify this number.' : 'Please try again later.';
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
    session.message = explain(error);
  }
  response.writeHead(303, { location });
  response.end();
});

server.on('error', (error) => {
  console.error(`${error.message}; set SHOP_PORT to a free port, or to 0 for any`);
  process.exit(1);
});
server.listen(Number(SHOP_PORT), '127.0.0.1', () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  console.log(`listening on http://127.0.0.1:${address.port}/`);
});
