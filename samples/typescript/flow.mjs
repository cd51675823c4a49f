// @ts-check
// Verifies a number from creation to callback: `node flow.mjs [reverse-sms | secure-sna | verification]`.
// `node flow.mjs listen` only receives and verifies callbacks. The types are in JSDoc comments, which TypeScript checks,
// so that this file runs without a build step on Node.js 18 and later.
import { createServer } from 'node:http';
import { InvalidCallback, KeySet, verify } from './callbacks.mjs';

const baseUrl = process.env.BASE_URL ?? 'http://127.0.0.1:8080';
const phoneNumber = process.env.PHONE_NUMBER ?? '+990123456700';
// A sandbox number: the code below also acts as its phone.
const isSimulated = phoneNumber.startsWith('+990');
const MAX_BODY_BYTES = 64 * 1024;

/** Scope and path of each product. @type {Record<string, { scope: string, path: string }>} */
const PRODUCTS = {
  'reverse-sms': { scope: 'reverse_sms', path: '/v1/number-verification/reverse-sms-checks' },
  'secure-sna': { scope: 'secure_sna', path: '/v1/number-verification/secure-sna-checks' },
  verification: { scope: 'verification', path: '/v1/verifications' },
};

/** What the user's phone does: it opens `url`, or sends the SMS. */
/** @typedef {{ url?: string, receiver_phone_number?: string, expected_sms_body?: string }} Step */
/** A verification has `next_step` while it is open; a check has the members of its step. */
/** @typedef {Step & { check_id?: string, verification_id?: string, next_step?: Step }} Created */
/** @typedef {import('./callbacks.mjs').Callback} Callback */

const keySet = new KeySet(`${baseUrl}/.well-known/jwks.json`, { acceptSandbox: process.env.ACCEPT_SANDBOX === '1' });
/** By id: a callback may be delivered more than once. @type {Map<string, Callback>} */
const verified = new Map();
let onVerified = () => {};

const server = createServer(async (request, response) => {
  response.statusCode = await receive(request);
  // This program ends with its last connection.
  response.setHeader('connection', 'close');
  response.end();
});

/** @param {import('node:http').IncomingMessage} request */
async function receive(request) {
  try {
    /** @type {Buffer[]} */
    const chunks = [];
    let size = 0;
    for await (const chunk of request) {
      chunks.push(chunk);
      if ((size += chunk.length) > MAX_BODY_BYTES) return 413;
    }
    const { method = '', url = '', rawHeaders } = request;
    const callback = await verify({ method, target: url, rawHeaders, body: Buffer.concat(chunks) }, keySet);
    const id = callback.check_id ?? callback.verification_id ?? '';
    // Store the callback before responding with 200; process it afterwards.
    if (!verified.has(id)) verified.set(id, callback);
    onVerified();
    console.log(`verified: ${id} ${callback.status} match=${callback.match ?? null}`);
    return 200;
  } catch (error) {
    if (error instanceof InvalidCallback) {
      console.log(`rejected: ${error.message}`);
      return 401;
    }
    console.log(`failed to verify: ${error}`);
    return 503;
  }
}

/**
 * Calls the API, and returns the JSON of the response.
 * @param {string} path
 * @param {string} authorization
 * @param {URLSearchParams | object} [body] `GET` without a body
 * @returns {Promise<any>}
 */
async function call(path, authorization, body) {
  const isForm = body instanceof URLSearchParams;
  const response = await fetch(baseUrl + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization, ...(isForm ? {} : { 'content-type': 'application/json' }) },
    body: isForm || !body ? body : JSON.stringify(body),
  });
  const text = await response.text();
  // A problem body explains the error in `detail`; `type` is the URL of its documentation.
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** A token has one scope, and is valid for an hour. Cache it. @param {string} scope */
async function accessToken(scope) {
  const credential = Buffer.from(`${process.env.CLIENT_ID}:${process.env.CLIENT_SECRET}`).toString('base64');
  const grant = new URLSearchParams({ grant_type: 'client_credentials', scope });
  const { access_token: token } = await call('/oauth2/token', `Basic ${credential}`, grant);
  return `Bearer ${token}`;
}

/**
 * Creates a check or verification, and waits for its callback.
 * @param {{ scope: string, path: string }} product
 * @param {string} callbackUrl
 */
async function flow({ scope, path }, callbackUrl) {
  const token = await accessToken(scope);
  /** @type {Created} */
  const created = await call(path, token, { phone_number: phoneNumber, callback_url: callbackUrl });
  const id = created.check_id ?? created.verification_id ?? '';

  /** @type {Step | undefined} */
  let step = created.next_step ?? created;
  while (step) {
    if (step.url) step = await verifySilently(step.url, `${path}/${id}`, token);
    else {
      await askForSms(step);
      step = created.next_step && (await followingStep(`${path}/${id}`, token, step));
    }
  }
  while (!verified.has(id)) await new Promise((resolve) => (onVerified = () => resolve(undefined)));
  const callback = verified.get(id);
  console.log(callback?.match ? 'number verified' : `number not verified: ${JSON.stringify(callback)}`);
  server.close();
}

/**
 * Secure SNA: your app opens the URL over mobile data, and passes the code to your backend, which redeems it.
 * @param {string} url
 * @param {string} path
 * @param {string} token
 * @returns {Promise<Step | undefined>} the next step of a verification
 */
async function verifySilently(url, path, token) {
  console.log(`Phone: open ${url}`);
  if (!isSimulated) return undefined;
  const response = await fetch(url, { headers: { accept: 'application/json' } });
  const { code } = await response.json();
  // Without a code, the operator has failed: a verification goes on with its next method.
  const result = code ? await call(path, token, { code }) : await call(path, token);
  return result.next_step;
}

/**
 * Reverse SMS: your app shows this link. It opens the messaging app with the receiver and text filled in.
 * @param {Step} step
 * @returns {Promise<void>}
 */
async function askForSms({ receiver_phone_number: receiver = '', expected_sms_body: text = '' }) {
  console.log(`Android: sms:${receiver}?body=${encodeURIComponent(text)}`);
  console.log(`iOS:     sms:${receiver}&body=${encodeURIComponent(text)}`);
  if (isSimulated) {
    const token = await accessToken('reverse_sms');
    await call('/v1/sandbox/inbound-sms', token, { from: phoneNumber, to: receiver, body: text });
  }
}

/**
 * Waits until a verification goes on or ends. A text from another number may be sent once more, with a new text.
 * @param {string} path
 * @param {string} token
 * @param {Step} step
 * @returns {Promise<Step | undefined>}
 */
async function followingStep(path, token, step) {
  for (;;) {
    const { next_step: current } = await call(path, token);
    if (current?.expected_sms_body !== step.expected_sms_body) return current;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

const [, , name = 'reverse-sms'] = process.argv;
const product = PRODUCTS[name];
if (!product && name !== 'listen') {
  console.error(`unknown argument: ${name}; expected ${Object.keys(PRODUCTS).join(', ')} or listen`);
  process.exit(2);
}
if (product && !(process.env.CLIENT_ID && process.env.CLIENT_SECRET)) {
  console.error('CLIENT_ID and CLIENT_SECRET are not set: export the credential of a project');
  process.exit(2);
}
server.on('error', (error) => {
  console.error(`${error.message}; set CALLBACK_PORT to a free port, or to 0 for any`);
  process.exit(1);
});
server.listen(Number(process.env.CALLBACK_PORT ?? 9099), '127.0.0.1', async () => {
  const address = server.address();
  const callbackUrl = `http://127.0.0.1:${typeof address === 'object' && address?.port}/callbacks`;
  console.log(`listening on ${callbackUrl}`);
  if (product) await flow(product, callbackUrl);
});
