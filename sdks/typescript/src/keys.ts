import { CallbackError } from './errors.js';
import type { PublicKey } from './openapi.js';
import { monotonicNow, type Transport } from './transport.js';
import { webCrypto } from './web-crypto.js';

const PATH = '/.well-known/jwks.json';
const ALGORITHM = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
const DEFAULT_MAX_AGE_SECONDS = 3600;
const MAX_MAX_AGE_SECONDS = 86_400;
/** Forged key ids must not cause a request each. */
const MIN_UNKNOWN_KEY_INTERVAL_MS = 30_000;
/** While the service is down, callbacks must not cause a request each. */
const MIN_FAILURE_INTERVAL_MS = 1_000;

/** The sender of a callback waits for ten seconds. */
const FETCH_TIMEOUT_MS = 4_000;
const FETCH_RETRIES = 1;

/** A public key of the service, and the mode of the callbacks that it signs. */
export interface SigningKey {
  key: CryptoKey;
  mode: string | undefined;
}

/** The public keys for callbacks, cached. */
export class KeySet {
  readonly #transport: Transport;
  #keys: ReadonlyMap<string, SigningKey> | undefined;
  #expiresAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;
  #failure: unknown;
  #unknownKeyAt = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Finds a key by its id. Fetches the keys if they are outdated or do not contain it. */
  async find(keyId: string): Promise<SigningKey> {
    const failure = await this.#refresh(keyId);
    const found = this.#keys?.get(keyId);
    // An outage does not matter while the cached keys contain this one.
    if (found) return found;
    if (failure === undefined) throw new CallbackError('key_unknown', 'unknown key id');
    throw new CallbackError('keys_unavailable', "the service's public keys are not available", { cause: failure });
  }

  /** Fetches the keys if that is necessary and permitted now. Returns the error of the latest attempt if it failed. */
  async #refresh(keyId: string): Promise<unknown> {
    const now = monotonicNow();
    const isOutdated = now >= this.#expiresAt;
    if (!isOutdated && this.#keys?.has(keyId)) return undefined;
    if (!this.#loading) {
      if (now - this.#failedAt < MIN_FAILURE_INTERVAL_MS) return this.#failure;
      if (!isOutdated) {
        if (now - this.#unknownKeyAt < MIN_UNKNOWN_KEY_INTERVAL_MS) return undefined;
        this.#unknownKeyAt = now;
      }
      this.#loading = this.#load().finally(() => {
        this.#loading = undefined;
      });
    }
    // Callbacks at the same time share one request.
    return this.#loading.then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  async #load(): Promise<void> {
    try {
      const { document, headers } = await this.#transport.fetchPublic(PATH, FETCH_TIMEOUT_MS, FETCH_RETRIES);
      const { keys } = document as { keys: PublicKey[] };
      const imported = await Promise.all(keys.filter(({ kty }) => kty === 'RSA').map(importKey));
      this.#keys = new Map(imported);
      this.#expiresAt = monotonicNow() + readMaxAge(headers.get('cache-control')) * 1000;
    } catch (error) {
      this.#failedAt = monotonicNow();
      this.#failure = error;
      this.#unknownKeyAt = Number.NEGATIVE_INFINITY;
      throw error;
    }
  }
}

async function importKey({ kid, kty, n, e, use_mode }: PublicKey): Promise<[string, SigningKey]> {
  const { subtle } = await webCrypto();
  // Keys of other types have neither; the caller has left them out.
  const jwk = { kty, n: n ?? '', e: e ?? '' };
  return [kid, { key: await subtle.importKey('jwk', jwk, ALGORITHM, false, ['verify']), mode: use_mode }];
}

function readMaxAge(cacheControl: string | null): number {
  const seconds = /\bmax-age=(\d+)/.exec(cacheControl ?? '')?.[1];
  return seconds === undefined ? DEFAULT_MAX_AGE_SECONDS : Math.min(Number(seconds), MAX_MAX_AGE_SECONDS);
}
