// Verifies callbacks of Ringtrue. Copy this file into your backend.
import { createHash, createPublicKey, verify as verifySignature, type JsonWebKey, type KeyObject } from 'node:crypto';

const COMPONENTS = '(request-target) host date x-service-callback digest';
// Maximum clock skew. A recorded callback can be replayed for this long; detect replays by `check_id`.
const MAX_SKEW_MS = 5 * 60_000;
// Keys change rarely. Without an interval, any request with an unknown key id would cause a fetch.
const MIN_FETCH_INTERVAL_MS = 30_000;

export interface Callback {
  check_id: string;
  status: 'COMPLETED' | 'EXPIRED' | 'ERROR';
  match?: boolean;
  phone_number?: string;
  network_id?: string;
  error_code?: string;
  reference_id?: string;
  created_at: string;
  updated_at: string;
}

export interface ReceivedRequest {
  method: string;
  /** Unmodified path and query of the request line: `req.url` in Node.js, `req.originalUrl` in Express. */
  target: string;
  /** Alternating names and values, as received: `req.rawHeaders`. */
  rawHeaders: string[];
  /** The raw bytes as received. Parsed and re-encoded JSON does not verify. */
  body: Buffer;
}

/** Verification of the request failed. */
export class InvalidCallback extends Error {}

/** The public keys at `/.well-known/jwks.json`, fetched again when a callback has an unknown key id. */
export class KeySet {
  #url: string;
  #acceptSandbox: boolean;
  #keys = new Map<string, { key: KeyObject; useMode: string | undefined }>();
  #fetchedAt = -Infinity;
  #fetching: Promise<void> | undefined;

  /** `acceptSandbox` is for tests only: sandbox checks verify no number, and any sandbox project can use your URL. */
  constructor(url: string, { acceptSandbox = false } = {}) {
    this.#url = url;
    this.#acceptSandbox = acceptSandbox;
  }

  async find(keyId: string): Promise<KeyObject> {
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

  async #fetch(): Promise<void> {
    const response = await fetch(this.#url, { signal: AbortSignal.timeout(10_000) });
    if (!response.ok) throw new Error(`${this.#url}: ${response.status}`);
    const { keys } = (await response.json()) as { keys: (JsonWebKey & { kid: string; use_mode?: string })[] };
    const rsa = keys.filter((jwk) => jwk.kty === 'RSA');
    this.#keys = new Map(
      rsa.map((jwk) => [jwk.kid, { key: createPublicKey({ key: jwk, format: 'jwk' }), useMode: jwk.use_mode }]),
    );
  }
}

/**
 * Returns the verified callback, or throws `InvalidCallback`. A valid callback can belong to a check of another client:
 * reject a `check_id` that you did not create.
 */
export async function verify(request: ReceivedRequest, keySet: KeySet): Promise<Callback> {
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
  const key = await keySet.find(parameters.get('keyId')!);
  const signed = [
    `(request-target): ${request.method.toLowerCase()} ${request.target}`,
    `host: ${host}`,
    `date: ${date}`,
    `x-service-callback: ${source}`,
    `digest: ${digest}`,
  ].join('\n');
  const text = parameters.get('signature')!;
  const signature = Buffer.from(text, 'base64');
  // Node.js ignores characters outside base64; this comparison rejects them.
  if (signature.toString('base64') !== text || !verifySignature('rsa-sha256', Buffer.from(signed), key, signature)) {
    throw new InvalidCallback('invalid signature');
  }
  if (!(Math.abs(Date.now() - Date.parse(date)) <= MAX_SKEW_MS)) {
    throw new InvalidCallback('the date differs too much from the current time');
  }
  return JSON.parse(request.body.toString('utf8')) as Callback;
}

function singleHeader(rawHeaders: string[], wanted: string): string {
  const values = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]!.toLowerCase() === wanted);
  if (values.length !== 1) throw new InvalidCallback(`expected one ${wanted} header, found ${values.length}`);
  return values[0]!;
}

/** Parses `Signature name="value",…`, with each of the four parameters exactly once. */
function parseAuthorization(value: string): Map<string, string> {
  const pairs = [...value.matchAll(/([A-Za-z]+)="([^"\\]*)"/g)].map(([, name, text]) => [name!, text!] as const);
  const parameters = new Map(pairs);
  const written = `Signature ${pairs.map(([name, text]) => `${name}="${text}"`).join(',')}`;
  const complete = ['keyId', 'algorithm', 'headers', 'signature'].every((name) => parameters.has(name));
  if (written !== value || pairs.length !== 4 || !complete) {
    throw new InvalidCallback("malformed Authorization header");
  }
  return parameters;
}
