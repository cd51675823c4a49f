import { CallbackError, ConfigurationError } from './errors.js';
import { KeySet } from './keys.js';
import type { DiscoveryCallback, ReverseSmsCallback, SecureSnaCallback, VerificationCallback } from './openapi.js';
import type { Transport } from './transport.js';
import { webCrypto } from './web-crypto.js';

const COMPONENTS = '(request-target) host date x-service-callback digest';
/** A recorded callback can be sent again for this long. */
const MAX_SKEW_MS = 5 * 60_000;
/** Callbacks are much smaller. */
export const MAX_CALLBACK_BYTES = 64 * 1024;

/** Headers of a request: `Headers`, an object, `[name, value]` pairs, or alternating names and values (`rawHeaders`). */
export type CallbackHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | readonly (readonly [string, string])[]
  | readonly string[];

/** A request as your server received it. */
export interface CallbackRequest {
  /** The method. */
  method: string;
  /** Path and query of the request line, unmodified: `req.url` in Node.js, `req.originalUrl` in Express. */
  target: string;
  /** The headers as received. */
  headers: CallbackHeaders;
  /** The raw bytes of the body. JSON that was parsed and written again does not verify. */
  body: Uint8Array | string;
}

/** Options of the verification of a callback. */
export interface CallbackOptions {
  /**
   * The public host of your callback URL, such as `backend.example.com` or `https://backend.example.com`. Set it in
   * production: a callback that was signed for another receiver could otherwise be replayed to you with its `Host`
   * header. It is also needed behind a proxy that replaces `Host`. Defaults to the `Host` of the request.
   */
  host?: string | undefined;
  /**
   * Your callback URL, such as `https://shop.example.com/api/callbacks`, in place of `host`. It is needed behind a proxy
   * that also changes the path, for example by removing a prefix. The query comes from the request.
   */
  publicUrl?: string | undefined;
}

interface EventOf<Kind extends string, Data> {
  /** What ended: the product, or a verification. */
  kind: Kind;
  /** The `check_id` or `verification_id`. Reject one that you did not create. */
  id: string;
  /** Number of the attempt to deliver this callback, from 1. It is not signed. */
  attempt: number;
  /** Whether the callback comes from a sandbox project. */
  sandbox: boolean;
  /** The signed body. */
  data: Data;
}

/** A verified callback. Its `kind` decides the type of its `data`. */
export type CallbackEvent =
  | EventOf<'verification', VerificationCallback>
  | EventOf<'reverse_sms', ReverseSmsCallback>
  | EventOf<'secure_sna', SecureSnaCallback>
  | EventOf<'discovery', DiscoveryCallback>;

const ID_MEMBERS: Record<CallbackEvent['kind'], string> = {
  verification: 'verification_id',
  reverse_sms: 'check_id',
  secure_sna: 'check_id',
  discovery: 'check_id',
};

/** Verification of callbacks. */
export class Callbacks {
  readonly #transport: Transport;
  readonly #keySet: KeySet;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
    this.#keySet = new KeySet(transport);
  }

  /**
   * Verifies the signature of a callback and returns its content. Throws a `CallbackError` with the status for the
   * response. The signature proves the sender, not the owner: reject an `id` that you did not create.
   */
  async verify(request: CallbackRequest | Request, options: CallbackOptions = {}): Promise<CallbackEvent> {
    const { method, target: received, headers, body } = isWebRequest(request) ? await fromWebRequest(request) : request;
    const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
    if (bytes.length > MAX_CALLBACK_BYTES) throw tooLarge();

    const read = headerReader(headers);
    const target = options.publicUrl === undefined ? received : publicTarget(options.publicUrl, received);
    const publicHost = options.publicUrl ?? options.host;
    const host = publicHost === undefined ? read('host') : hostOf(publicHost);
    const date = read('date');
    const kind = read('x-service-callback');
    const digest = read('digest');
    const { keyId, signature } = parseAuthorization(read('authorization'));

    const { subtle } = await webCrypto();
    // Copied, because a view of shared memory is no `BufferSource`.
    const hash = await subtle.digest('SHA-256', new Uint8Array(bytes));
    if (digest !== `SHA-256=${toBase64(new Uint8Array(hash))}`) {
      throw new CallbackError('digest_mismatch', 'digest mismatch: the body differs from the signed one');
    }
    if (!(Math.abs(this.#transport.now() - Date.parse(date)) <= MAX_SKEW_MS)) {
      throw new CallbackError('date_out_of_range', 'the date differs too much from the current time');
    }
    const { key, mode } = await this.#keySet.find(keyId);
    // Modes that this version does not know are refused, too.
    if (mode !== undefined && !(mode === 'sandbox' && this.#transport.allowSandbox)) {
      throw new CallbackError('key_refused', `the key is for ${mode} checks only`);
    }
    const signed = [
      `(request-target): ${method.toLowerCase()} ${target}`,
      `host: ${host}`,
      `date: ${date}`,
      `x-service-callback: ${kind}`,
      `digest: ${digest}`,
    ].join('\n');
    const isValid =
      signature !== undefined &&
      (await subtle.verify('RSASSA-PKCS1-v1_5', key, signature, new TextEncoder().encode(signed)));
    if (!isValid) throw new CallbackError('signature_invalid', 'invalid signature');
    return toEvent(kind, readAttempt(headers), mode === 'sandbox', bytes);
  }
}

function toEvent(kind: string, attempt: number, sandbox: boolean, body: Uint8Array): CallbackEvent {
  if (!Object.hasOwn(ID_MEMBERS, kind)) throw new CallbackError('kind_unsupported', 'unsupported kind of callback');
  let data: unknown;
  try {
    data = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (cause) {
    throw new CallbackError('body_malformed', 'the body is not JSON', { cause });
  }
  const member = ID_MEMBERS[kind as CallbackEvent['kind']];
  const id = typeof data === 'object' && data !== null ? (data as Record<string, unknown>)[member] : undefined;
  if (typeof id !== 'string') throw new CallbackError('body_malformed', `the body has no ${member}`);
  return { kind, id, attempt, sandbox, data } as CallbackEvent;
}

/** Recognised by its shape: a framework may bring its own class. */
function isWebRequest(request: CallbackRequest | Request): request is Request {
  return 'url' in request && 'arrayBuffer' in request;
}

async function fromWebRequest(request: Request): Promise<CallbackRequest> {
  const { method, url } = request;
  const { pathname, search, host } = new URL(url);
  const headers: [string, string][] = [];
  request.headers.forEach((value, name) => {
    headers.push([name, value]);
  });
  // Some runtimes have the host in the URL only.
  if (!request.headers.has('host')) headers.push(['host', host]);
  return { method, target: pathname + search, headers, body: await readBody(request.body) };
}

/** Reads a body up to the limit. */
export async function readBody(
  stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | null,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream === null ? [] : iterate(stream)) {
    size += chunk.length;
    if (size > MAX_CALLBACK_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  const body = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    body.set(chunk, offset);
    offset += chunk.length;
  }
  return body;
}

/** Not all runtimes can iterate over a `ReadableStream`. */
async function* iterate(stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  if (!('getReader' in stream)) {
    yield* stream;
    return;
  }
  const reader = stream.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    await reader.cancel();
  }
}

/** Reads headers, each of which must occur exactly once. */
function headerReader(headers: CallbackHeaders): (name: string) => string {
  const values = new Map<string, string[]>();
  for (const [name, value] of headerPairs(headers)) {
    const key = name.toLowerCase();
    values.set(key, [...(values.get(key) ?? []), value]);
  }
  return (name) => {
    const found = values.get(name) ?? [];
    const [value] = found;
    if (value === undefined || found.length !== 1) {
      throw new CallbackError('header_missing', `expected one ${name} header, found ${found.length}`);
    }
    return value;
  };
}

function headerPairs(headers: CallbackHeaders): [string, string][] {
  const pairs: [string, string][] = [];
  if (Array.isArray(headers)) {
    const items = headers as readonly (string | readonly [string, string])[];
    for (let at = 0; at < items.length; at++) {
      const item = items[at];
      if (typeof item === 'string') pairs.push([item, String(items[++at])]);
      else if (item) pairs.push([item[0], item[1]]);
    }
  } else if (typeof headers.forEach === 'function') {
    (headers as Headers).forEach((value, name) => {
      pairs.push([name, value]);
    });
  } else {
    for (const [name, value] of Object.entries(headers as Record<string, string | readonly string[] | undefined>)) {
      for (const one of typeof value === 'string' ? [value] : (value ?? [])) pairs.push([name, one]);
    }
  }
  return pairs;
}

function readAttempt(headers: CallbackHeaders): number {
  const found = headerPairs(headers).find(([name]) => name.toLowerCase() === 'x-service-callback-attempt');
  const attempt = Number(found?.[1]);
  return Number.isSafeInteger(attempt) && attempt > 0 ? attempt : 1;
}

/** Parses `Signature name="value",…`, with each of the four parameters exactly once. */
function parseAuthorization(value: string): { keyId: string; signature: Uint8Array<ArrayBuffer> | undefined } {
  const pairs = [...value.matchAll(/([A-Za-z]+)="([^"\\]*)"/g)].map(
    ([, name = '', text = '']) => [name, text] as const,
  );
  const parameters = new Map(pairs);
  const written = `Signature ${pairs.map(([name, text]) => `${name}="${text}"`).join(',')}`;
  const keyId = parameters.get('keyId');
  const signature = parameters.get('signature');
  const isComplete = keyId !== undefined && signature !== undefined && parameters.size === 4;
  if (written !== value || pairs.length !== 4 || !isComplete) {
    throw new CallbackError('authorization_malformed', 'malformed Authorization header');
  }
  if (parameters.get('algorithm') !== 'rsa-sha256') {
    throw new CallbackError('algorithm_unsupported', 'unsupported algorithm; expected rsa-sha256');
  }
  if (parameters.get('headers') !== COMPONENTS) {
    throw new CallbackError('components_incomplete', 'the signature does not cover the required headers');
  }
  return { keyId, signature: fromBase64(signature) };
}

/** Host and port of a URL, or of a text that has nothing else. */
function hostOf(text: string): string {
  return text.includes('://') ? new URL(text).host : text.toLowerCase();
}

/** Path of the public URL, as it is written, with the query of the request. */
function publicTarget(publicUrl: string, received: string): string {
  const path = /^https?:\/\/[^/?#]+([^?#]*)/i.exec(publicUrl)?.[1];
  if (path === undefined || !isUrl(publicUrl)) {
    throw new ConfigurationError('publicUrl must be an http or https URL');
  }
  const query = received.indexOf('?');
  return (path || '/') + (query < 0 ? '' : received.slice(query));
}

/** `URL.canParse` is missing in Node.js 18.0. */
function isUrl(text: string): boolean {
  try {
    return new URL(text).host !== '';
  } catch {
    return false;
  }
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** Decodes base64 as it is written with padding, and nothing else. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return toBase64(bytes) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
}

function tooLarge(): CallbackError {
  return new CallbackError('body_too_large', `the body is larger than ${MAX_CALLBACK_BYTES} bytes`);
}
