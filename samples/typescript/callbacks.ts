// Verifies that a callback was sent by Ringtrue. Copy this file into your backend.
import { createHash, createPublicKey, verify as verifySignature, type JsonWebKey, type KeyObject } from 'node:crypto';

const COMPONENTS = '(request-target) host date x-service-callback digest';
// How far the two clocks may be apart. Whoever records a callback can replay it for this long: `check_id` tells.
const MAX_SKEW_MS = 5 * 60_000;
// Keys change seldom. Without a pause, anybody could make us ask for them with every request.
const PAUSE_BETWEEN_FETCHES_MS = 30_000;

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
  /** Path and query as in the request line: `req.url` of node, `req.originalUrl` of Express. */
  target: string;
  /** Names and values in turn, as they came: `req.rawHeaders`. */
  rawHeaders: string[];
  /** The bytes as they came. JSON that was parsed and written again is not the same. */
  body: Buffer;
}

/** The request is not to be trusted. */
export class Refused extends Error {}

/** The public keys at `/.well-known/jwks.json`, fetched again when a callback names one that is not known. */
export class KeySet {
  #url: string;
  #acceptSandbox: boolean;
  #keys = new Map<string, { key: KeyObject; useMode: string | undefined }>();
  #fetchedAt = -Infinity;
  #fetching: Promise<void> | undefined;

  /** Sandbox checks prove nothing about a number, and anybody's sandbox project can name your URL: `acceptSandbox` is for tests. */
  constructor(url: string, { acceptSandbox = false } = {}) {
    this.#url = url;
    this.#acceptSandbox = acceptSandbox;
  }

  async find(keyId: string): Promise<KeyObject> {
    if (!this.#keys.has(keyId)) {
      if (!this.#fetching && performance.now() - this.#fetchedAt > PAUSE_BETWEEN_FETCHES_MS) {
        this.#fetchedAt = performance.now();
        this.#fetching = this.#fetch().finally(() => (this.#fetching = undefined));
      }
      await this.#fetching;
    }
    const found = this.#keys.get(keyId);
    if (!found) throw new Refused('the key is not in the key set');
    if (found.useMode !== undefined && !(found.useMode === 'sandbox' && this.#acceptSandbox)) {
      throw new Refused(`the key is for ${found.useMode} checks only`);
    }
    return found.key;
  }

  async #fetch(): Promise<void> {
    const answer = await fetch(this.#url, { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(`${this.#url}: ${answer.status}`);
    const { keys } = (await answer.json()) as { keys: (JsonWebKey & { kid: string; use_mode?: string })[] };
    const rsa = keys.filter((jwk) => jwk.kty === 'RSA');
    this.#keys = new Map(
      rsa.map((jwk) => [jwk.kid, { key: createPublicKey({ key: jwk, format: 'jwk' }), useMode: jwk.use_mode }]),
    );
  }
}

/**
 * Answers what is in the callback, or throws `Refused`. A valid callback can still be about somebody else's check:
 * refuse a `check_id` that you did not create.
 */
export async function verify(request: ReceivedRequest, keySet: KeySet): Promise<Callback> {
  const host = only(request.rawHeaders, 'host');
  const date = only(request.rawHeaders, 'date');
  const source = only(request.rawHeaders, 'x-service-callback');
  const digest = only(request.rawHeaders, 'digest');
  const parameters = readAuthorization(only(request.rawHeaders, 'authorization'));
  if (parameters.get('algorithm') !== 'rsa-sha256') throw new Refused('another algorithm than rsa-sha256');
  if (parameters.get('headers') !== COMPONENTS) throw new Refused('the signature does not cover what it must');
  if (digest !== `SHA-256=${createHash('sha256').update(request.body).digest('base64')}`) {
    throw new Refused('the body is not the one that was signed');
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
  // Node passes over what is not base64; we do not.
  if (signature.toString('base64') !== text || !verifySignature('rsa-sha256', Buffer.from(signed), key, signature)) {
    throw new Refused('the signature does not fit the request');
  }
  if (!(Math.abs(Date.now() - Date.parse(date)) <= MAX_SKEW_MS)) throw new Refused('the date is too far from now');
  return JSON.parse(request.body.toString('utf8')) as Callback;
}

function only(rawHeaders: string[], wanted: string): string {
  const values = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]!.toLowerCase() === wanted);
  if (values.length !== 1) throw new Refused(`the header ${wanted} is there ${values.length} times`);
  return values[0]!;
}

/** `Signature name="value",…` with each of the four parameters once. */
function readAuthorization(value: string): Map<string, string> {
  const pairs = [...value.matchAll(/([A-Za-z]+)="([^"\\]*)"/g)].map(([, name, text]) => [name!, text!] as const);
  const parameters = new Map(pairs);
  const written = `Signature ${pairs.map(([name, text]) => `${name}="${text}"`).join(',')}`;
  const complete = ['keyId', 'algorithm', 'headers', 'signature'].every((name) => parameters.has(name));
  if (written !== value || pairs.length !== 4 || !complete) {
    throw new Refused("the Authorization header is not a signature of Ringtrue's");
  }
  return parameters;
}
