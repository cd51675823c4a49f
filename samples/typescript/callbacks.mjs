// @ts-check
// Verifies callbacks of Ringtrue. Copy this file into your backend. The types are in JSDoc comments, which TypeScript
// checks, so that it runs without a build step on Node.js 18 and later.
import { createHash, createPublicKey, verify as verifySignature } from 'node:crypto';

const COMPONENTS = '(request-target) host date x-service-callback digest';
// Maximum clock skew. A recorded callback can be replayed for this long; detect replays by the id.
const MAX_SKEW_MS = 5 * 60_000;
// Keys change rarely. Without an interval, any request with an unknown key id would cause a fetch.
const MIN_FETCH_INTERVAL_MS = 30_000;

/**
 * Result of a check, or of a verification, which has a `verification_id` instead of a `check_id`.
 * @typedef {object} Callback
 * @property {string} [check_id]
 * @property {string} [verification_id]
 * @property {'COMPLETED' | 'EXPIRED' | 'ERROR'} status
 * @property {boolean} [match]
 * @property {string} [phone_number]
 * @property {string} [network_id]
 * @property {string} [error_code]
 * @property {string} [reference_id]
 * @property {string} created_at
 * @property {string} updated_at
 */

/**
 * @typedef {object} ReceivedRequest
 * @property {string} method
 * @property {string} target unmodified path and query of the request line: `req.url` in Node.js, `req.originalUrl` in
 *   Express
 * @property {string[]} rawHeaders alternating names and values, as received: `req.rawHeaders`
 * @property {Buffer} body the raw bytes as received. Parsed and re-encoded JSON does not verify.
 */

/** Verification of the request failed. */
export class InvalidCallback extends Error {}

/** The public keys at `/.well-known/jwks.json`, fetched again when a callback has an unknown key id. */
export class KeySet {
  #url;
  #acceptSandbox;
  /** @type {Map<string, { key: import('node:crypto').KeyObject, useMode: string | undefined }>} */
  #keys = new Map();
  #fetchedAt = -Infinity;
  /** @type {Promise<void> | undefined} */
  #fetching;

  /**
   * `acceptSandbox` is for tests only: sandbox checks verify no number, and any sandbox project can use your URL.
   * @param {string} url
   */
  constructor(url, { acceptSandbox = false } = {}) {
    this.#url = url;
    this.#acceptSandbox = acceptSandbox;
  }

  /** @param {string} keyId */
  async find(keyId) {
    if (!this.#keys.has(keyId)) {
      if (!this.#fetching && performance.now() - this.#fetchedAt > MIN_FETCH_INTERVAL_MS) {
        this.#fetchedAt = performance.now();
        this.#fetching = this.#fetch().finally(() => (this.#fetching = undefined));
      }
      await this.#fetching;
    }
    const found = this.#keys.get(keyId);
    if (!found) throw new InvalidCallback('unknown key id');
    if (found.useMode !== undefined && !(found.useMode === 'sandbox' && this.#acceptSandbox)) {
      throw new InvalidCallback(`the key is for ${found.useMode} checks only`);
    }
    return found.key;
  }

  async #fetch() {
    const response = await fetch(this.#url, { signal: AbortSignal.timeout(10_000) });
    if (!response.ok) throw new Error(`${this.#url}: ${response.status}`);
    /** @type {{ keys: (import('node:crypto').JsonWebKey & { kid: string, use_mode?: string })[] }} */
    const { keys } = await response.json();
    const rsa = keys.filter((jwk) => jwk.kty === 'RSA');
    this.#keys = new Map(
      rsa.map((jwk) => [jwk.kid, { key: createPublicKey({ key: jwk, format: 'jwk' }), useMode: jwk.use_mode }]),
    );
  }
}

/**
 * Returns the verified callback, or throws `InvalidCallback`. A valid callback can belong to a check of another client:
 * reject a `check_id` or `verification_id` that you did not create.
 * @param {ReceivedRequest} request
 * @param {KeySet} keySet
 * @returns {Promise<Callback>}
 */
export async function verify(request, keySet) {
  const host = singleHeader(request.rawHeaders, 'host');
  const date = singleHeader(request.rawHeaders, 'date');
  const source = singleHeader(request.rawHeaders, 'x-service-callback');
  const digest = singleHeader(request.rawHeaders, 'digest');
  const parameters = parseAuthorization(singleHeader(request.rawHeaders, 'authorization'));
  if (parameters.get('algorithm') !== 'rsa-sha256') {
    throw new InvalidCallback('unsupported algorithm; expected rsa-sha256');
  }
  if (parameters.get('headers') !== COMPONENTS) {
    throw new InvalidCallback('the signature does not cover the required headers');
  }
  if (digest !== `SHA-256=${createHash('sha256').update(request.body).digest('base64')}`) {
    throw new InvalidCallback('digest mismatch: the body differs from the signed one');
  }
  const key = await keySet.find(parameters.get('keyId') ?? '');
  const signed = [
    `(request-target): ${request.method.toLowerCase()} ${request.target}`,
    `host: ${host}`,
    `date: ${date}`,
    `x-service-callback: ${source}`,
    `digest: ${digest}`,
  ].join('\n');
  const text = parameters.get('signature') ?? '';
  const signature = Buffer.from(text, 'base64');
  // Node.js ignores characters outside base64; this comparison rejects them.
  if (signature.toString('base64') !== text || !verifySignature('rsa-sha256', Buffer.from(signed), key, signature)) {
    throw new InvalidCallback('invalid signature');
  }
  if (!(Math.abs(Date.now() - Date.parse(date)) <= MAX_SKEW_MS)) {
    throw new InvalidCallback('the date differs too much from the current time');
  }
  return JSON.parse(request.body.toString('utf8'));
}

/** @param {string[]} rawHeaders @param {string} wanted */
function singleHeader(rawHeaders, wanted) {
  const values = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === wanted);
  const [value] = values;
  if (value === undefined || values.length !== 1) {
    throw new InvalidCallback(`expected one ${wanted} header, found ${values.length}`);
  }
  return value;
}

/** Parses `Signature name="value",…`, with each of the four parameters exactly once. @param {string} value */
function parseAuthorization(value) {
  const found = [...value.matchAll(/([A-Za-z]+)="([^"\\]*)"/g)];
  const pairs = found.map(([, name = '', text = '']) => /** @type {[string, string]} */ ([name, text]));
  const parameters = new Map(pairs);
  const written = `Signature ${pairs.map(([name, text]) => `${name}="${text}"`).join(',')}`;
  const complete = ['keyId', 'algorithm', 'headers', 'signature'].every((name) => parameters.has(name));
  if (written !== value || pairs.length !== 4 || !complete) {
    throw new InvalidCallback("malformed Authorization header");
  }
  return parameters;
}
