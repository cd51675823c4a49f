import {
  ConfigurationError,
  ConnectionError,
  parseRetryAfter,
  SandboxRefusedError,
  toApiError,
  toConnectionError,
} from './errors.js';
import type { AccessToken } from './openapi.js';
import { delay, raceAbort, withTimeout } from './time.js';
import { randomKey } from './web-crypto.js';

/** Scope of an access token for the API. */
export type Scope =
  | 'management'
  | 'reverse_sms'
  | 'secure_sna'
  | 'discovery'
  | 'sim_swap'
  | 'eligibility'
  | 'verification';

const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_MAX_RETRIES = 2;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8_000;
/** A longer `Retry-After` is the caller's to decide. */
const MAX_RETRY_AFTER_SECONDS = 30;
/** Spreads the retries of clients that were refused at the same time. */
const RETRY_AFTER_JITTER_MS = 250;
const MAX_RENEWAL_LEAD_MS = 60_000;

/** Options of the client. */
export interface RingtrueOptions {
  /** Base URL of the deployment. Defaults to `RINGTRUE_URL`. */
  url?: string;
  /** Client id of a project, or of a workspace for Management. Defaults to `RINGTRUE_CLIENT_ID`. */
  clientId?: string;
  /** Client secret. Defaults to `RINGTRUE_CLIENT_SECRET`. */
  clientSecret?: string;
  /**
   * Milliseconds for each attempt. Defaults to 10,000, or 20,000 for SIM Swap checks and redemptions of a verification's
   * code, during which the service asks an operator.
   */
  timeout?: number;
  /** Retries after the first attempt. Defaults to 2. */
  maxRetries?: number;
  /** Accepts sandbox projects and sandbox callbacks, which prove nothing about a number. For test systems only. */
  allowSandbox?: boolean;
  /** Replaces the global `fetch`, for example to use a proxy. */
  fetch?: typeof fetch;
  /** Replaces the clock for the dates of callbacks, in milliseconds since 1970. For tests. */
  now?: () => number;
}

/** Options of a call. */
export interface RequestOptions {
  /** Cancels the call and its retries. Use `AbortSignal.timeout(…)` to limit the total time. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for each attempt, in place of the client's. */
  timeout?: number | undefined;
  /** Retries after the first attempt, in place of the client's. */
  maxRetries?: number | undefined;
  /** Receives the status and headers of the successful response, such as `ETag` and `X-Request-Id`. */
  onResponse?: ((response: { status: number; headers: Headers }) => void) | undefined;
}

/** Options of a call that creates something. */
export interface CreateOptions extends RequestOptions {
  /** Identifies the request, so that repeating it within 24 hours has no effect. Defaults to a random key. */
  idempotencyKey?: string | undefined;
}

/** Options of a call that changes something. */
export interface UpdateOptions extends RequestOptions {
  /** The `ETag` of the version to change. The call fails with 412 if there is a newer one. */
  ifMatch?: string | undefined;
}

/** Values for the query. Values that are `undefined` are left out. */
export type Query = Record<string, string | number | boolean | Date | undefined>;

/** A call of the API. */
export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path with the names of its parameters. */
  path: string;
  /** Values for the parameters of the path. */
  params?: Record<string, string>;
  query?: Query;
  body?: unknown;
  scope: Scope;
  options?: (CreateOptions & UpdateOptions) | undefined;
  /** Sends an `Idempotency-Key`, which makes the call safe to repeat. */
  withKey?: boolean;
  /** The call has the same effect if it is repeated after an unknown outcome. Reads and calls with a key do. */
  isRepeatable?: boolean;
  /** Milliseconds for each attempt, unless the caller has set them. */
  defaultTimeout?: number;
}

interface CachedToken {
  value: string;
  renewAt: number;
}

interface Attempt {
  /** Names the call in errors, without ids and numbers. */
  name: string;
  isRepeatable: boolean;
  timeout: number;
  maxRetries: number;
  signal: AbortSignal | undefined;
  /** Builds the request for each attempt. */
  build: () => Promise<[url: string, init: RequestInit]>;
}

/** Sends the calls, with tokens and retries. */
export class Transport {
  readonly url: string;
  readonly allowSandbox: boolean;
  /** Milliseconds for each attempt, if the caller has set them. */
  readonly timeout: number | undefined;
  readonly maxRetries: number;
  readonly now: () => number;
  readonly #fetch: typeof fetch;
  // Private members are not shown by `console.log` and `JSON.stringify`.
  readonly #authorization: string;
  readonly #tokens = new Map<Scope, CachedToken>();
  readonly #tokenRequests = new Map<Scope, Promise<CachedToken>>();

  constructor(options: RingtrueOptions) {
    const url = options.url ?? fromEnvironment('RINGTRUE_URL', 'url');
    const clientId = options.clientId ?? fromEnvironment('RINGTRUE_CLIENT_ID', 'clientId');
    const clientSecret = options.clientSecret ?? fromEnvironment('RINGTRUE_CLIENT_SECRET', 'clientSecret');
    if (!isBaseUrl(url)) {
      throw new ConfigurationError('url is invalid; expected a base URL such as https://verify.example.com');
    }
    this.url = url.replace(/\/+$/, '');
    // RFC 6749, section 2.3.1: both parts are form-encoded.
    this.#authorization = `Basic ${btoa(`${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`)}`;
    this.timeout = options.timeout;
    this.maxRetries = options.maxRetries ?? DEFAULT_MAX_RETRIES;
    this.allowSandbox = options.allowSandbox ?? false;
    this.now = options.now ?? Date.now;
    const { fetch: customFetch } = options;
    // Some runtimes reject `fetch` with another receiver than the global object.
    this.#fetch = customFetch ?? ((...call) => globalThis.fetch(...call));
  }

  /** Calls the API and returns the JSON of the response, or `undefined` if there is none. */
  async call<T>(call: Call): Promise<T> {
    const { options = {}, scope, defaultTimeout = DEFAULT_TIMEOUT_MS } = call;
    const key = call.withKey ? (options.idempotencyKey ?? (await randomKey())) : undefined;
    if (key !== undefined && !/^[!-~]{1,255}$/.test(key)) {
      throw new TypeError('idempotencyKey is invalid; expected 1 to 255 visible ASCII characters');
    }
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    const name = `${call.method} ${call.path}`;
    const url = this.url + fillPath(call.path, call.params) + writeQuery(call.query);
    let token = '';
    const attempt: Attempt = {
      name,
      isRepeatable: call.method === 'GET' || key !== undefined || call.isRepeatable === true,
      timeout: options.timeout ?? this.timeout ?? defaultTimeout,
      maxRetries: options.maxRetries ?? this.maxRetries,
      signal: options.signal,
      build: async () => {
        options.signal?.throwIfAborted();
        token = await raceAbort(this.#token(scope), options.signal);
        const headers: Record<string, string> = { accept: 'application/json', authorization: `Bearer ${token}` };
        if (key !== undefined) headers['idempotency-key'] = key;
        if (options.ifMatch !== undefined) headers['if-match'] = options.ifMatch;
        if (body !== undefined) {
          headers['content-type'] = call.method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
        }
        return [url, { method: call.method, headers, ...(body === undefined ? {} : { body }) }];
      },
    };
    let [response, text] = await this.#sendWithRetries(attempt);
    if (response.status === 401) {
      // The token was revoked. A second 401 is final.
      if (this.#tokens.get(scope)?.value === token) this.#tokens.delete(scope);
      [response, text] = await this.#sendWithRetries(attempt);
    }
    if (!response.ok) throw toApiError(name, response, text);
    const mode = response.headers.get('x-project-mode');
    if (scope !== 'management' && mode !== 'live' && !this.allowSandbox) throw new SandboxRefusedError(mode);
    options.onResponse?.({ status: response.status, headers: response.headers });
    return (text ? parseJson(name, text) : undefined) as T;
  }

  /** Fetches a public document. */
  async fetchPublic(
    path: string,
    timeout: number,
    maxRetries: number,
  ): Promise<{ document: unknown; headers: Headers }> {
    const name = `GET ${path}`;
    const attempt = publicAttempt(name, timeout, maxRetries, this.url + path, {
      headers: { accept: 'application/json' },
    });
    const [response, text] = await this.#sendWithRetries(attempt);
    if (!response.ok) throw toApiError(name, response, text);
    return { document: parseJson(name, text), headers: response.headers };
  }

  /** A token for the scope. Calls at the same time share one request, which none of them can cancel for the others. */
  async #token(scope: Scope): Promise<string> {
    const cached = this.#tokens.get(scope);
    if (cached && monotonicNow() < cached.renewAt) return cached.value;
    let request = this.#tokenRequests.get(scope);
    if (!request) {
      request = this.#requestToken(scope).finally(() => this.#tokenRequests.delete(scope));
      this.#tokenRequests.set(scope, request);
    }
    return (await request).value;
  }

  async #requestToken(scope: Scope): Promise<CachedToken> {
    const name = 'POST /oauth2/token';
    const requestedAt = monotonicNow();
    const attempt = publicAttempt(
      name,
      this.timeout ?? DEFAULT_TIMEOUT_MS,
      this.maxRetries,
      `${this.url}/oauth2/token`,
      {
        method: 'POST',
        headers: {
          accept: 'application/json',
          authorization: this.#authorization,
          'content-type': 'application/x-www-form-urlencoded',
        },
        body: new URLSearchParams({ grant_type: 'client_credentials', scope }).toString(),
      },
    );
    const [response, text] = await this.#sendWithRetries(attempt);
    if (!response.ok) throw toApiError(name, response, text);
    const { access_token, expires_in } = parseJson(name, text) as AccessToken;
    const lifetime = expires_in * 1000;
    const token = {
      value: access_token,
      renewAt: requestedAt + lifetime - Math.min(MAX_RENEWAL_LEAD_MS, lifetime / 10),
    };
    this.#tokens.set(scope, token);
    return token;
  }

  /** Sends a request until it succeeds, fails for good, or has no retries left. */
  async #sendWithRetries(attempt: Attempt): Promise<[Response, string]> {
    for (let failures = 0; ; failures++) {
      const isLast = failures >= attempt.maxRetries;
      const request = await attempt.build();
      let wait: number;
      try {
        const [response, text] = await this.#send(attempt, ...request);
        const retry = isLast ? undefined : retryDelay(response, text, failures, attempt.isRepeatable);
        if (retry === undefined) return [response, text];
        wait = retry;
      } catch (error) {
        if (isLast || !attempt.isRepeatable || !(error instanceof ConnectionError)) throw error;
        wait = backoff(failures);
      }
      await delay(wait, attempt.signal);
    }
  }

  /** Sends one request and reads the response. The time-out covers both. */
  async #send({ name, timeout, signal }: Attempt, url: string, init: RequestInit): Promise<[Response, string]> {
    const limit = withTimeout(timeout, signal);
    try {
      // A redirect would carry the token elsewhere.
      const response = await this.#fetch(url, { ...init, redirect: 'manual', signal: limit.signal });
      return [response, await response.text()];
    } catch (error) {
      signal?.throwIfAborted();
      throw toConnectionError(name, limit.signal.aborted, error);
    } finally {
      limit.clear();
    }
  }
}

/** A request without an access token, which has the same effect if it is repeated. */
function publicAttempt(name: string, timeout: number, maxRetries: number, url: string, init: RequestInit): Attempt {
  return { name, isRepeatable: true, timeout, maxRetries, signal: undefined, build: async () => [url, init] };
}

/** Milliseconds to wait before the next attempt, or `undefined` if the response is final. */
function retryDelay(response: Response, text: string, failures: number, isRepeatable: boolean): number | undefined {
  switch (response.status) {
    case 429:
      // The service counts requests before it processes them, so that any call can be repeated.
      return retryAfterDelay(response, failures);
    case 503:
      return isRepeatable ? retryAfterDelay(response, failures) : undefined;
    case 409:
      return isRepeatable && text.includes('"idempotency_in_progress"') ? backoff(failures) : undefined;
    case 502:
    case 504:
      return isRepeatable ? backoff(failures) : undefined;
    default:
      return undefined;
  }
}

function retryAfterDelay(response: Response, failures: number): number | undefined {
  const seconds = parseRetryAfter(response.headers.get('retry-after'));
  if (seconds === undefined) return backoff(failures);
  if (seconds > MAX_RETRY_AFTER_SECONDS) return undefined;
  return seconds * 1000 + Math.random() * RETRY_AFTER_JITTER_MS;
}

/** Exponential backoff with full jitter. */
function backoff(failures: number): number {
  return Math.random() * Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** failures);
}

/** Milliseconds that do not jump when the system's clock is set. */
export function monotonicNow(): number {
  return performance.now();
}

function isBaseUrl(text: string): boolean {
  try {
    const { protocol, search, hash, username } = new URL(text);
    return /^https?:$/.test(protocol) && search + hash + username === '';
  } catch {
    return false;
  }
}

function fromEnvironment(variable: string, option: string): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  const value = process?.env?.[variable];
  if (!value) throw new ConfigurationError(`${variable} is not set; set it, or pass ${option} to the client`);
  return value;
}

function fillPath(path: string, params: Record<string, string> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name];
    // An empty segment would make this a call of the parent resource.
    if (typeof value !== 'string' || value === '' || value === '.' || value === '..') {
      throw new TypeError(`${name} is missing or invalid`);
    }
    return encodeURIComponent(value);
  });
}

function writeQuery(query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message may quote the response, which may be a token.
    throw new ConnectionError(`${name}: the response is not JSON`);
  }
}
