import { monotonicNow } from './transport.js';

const DEFAULT_TTL_MS = 24 * 60 * 60_000;
const DEFAULT_MAX_ENTRIES = 100_000;

/**
 * Processes each callback once, although it may be delivered more than once. With a database, insert the id and process
 * the callback in one transaction:
 *
 * ```ts
 * const deduplicator: Deduplicator = {
 *   once: (id, process) => database.transaction(async (transaction) => {
 *     const { rowCount } = await transaction.query('insert into callbacks (id) values ($1) on conflict do nothing', [id]);
 *     if (rowCount === 1) await process();
 *     return rowCount === 1;
 *   }),
 * };
 * ```
 */
export interface Deduplicator {
  /**
   * Runs `process` unless it has succeeded for this id before. Returns whether it ran. If `process` fails, this fails,
   * too, and the id counts as not seen.
   */
  once(id: string, process: () => Promise<void>): Promise<boolean>;
}

/** Options of `MemoryDeduplicator`. */
export interface MemoryDeduplicatorOptions {
  /** Milliseconds for which an id is remembered. Defaults to a day. */
  ttl?: number;
  /** Ids that are remembered. The oldest is forgotten first. Defaults to 100,000. */
  maxEntries?: number;
}

/** Remembers ids in memory: for a single process, and until it ends. */
export class MemoryDeduplicator implements Deduplicator {
  readonly #ttl: number;
  readonly #maxEntries: number;
  /** When to forget an id, in the order in which they were added. */
  readonly #expiries = new Map<string, number>();
  readonly #running = new Map<string, Promise<void>>();

  constructor({ ttl = DEFAULT_TTL_MS, maxEntries = DEFAULT_MAX_ENTRIES }: MemoryDeduplicatorOptions = {}) {
    this.#ttl = ttl;
    this.#maxEntries = maxEntries;
  }

  /** Whether an id was processed. */
  seen(id: string): boolean {
    return (this.#expiries.get(id) ?? Number.NEGATIVE_INFINITY) > monotonicNow();
  }

  async once(id: string, process: () => Promise<void>): Promise<boolean> {
    // A second delivery waits for the first, and takes over if that fails.
    for (let first = this.#running.get(id); first; first = this.#running.get(id)) await first.catch(() => undefined);
    if (this.seen(id)) return false;
    const running = process();
    this.#running.set(id, running);
    try {
      await running;
    } finally {
      this.#running.delete(id);
    }
    this.#add(id);
    return true;
  }

  #add(id: string): void {
    const now = monotonicNow();
    this.#expiries.delete(id);
    this.#expiries.set(id, now + this.#ttl);
    for (const [oldest, expiry] of this.#expiries) {
      if (expiry > now && this.#expiries.size <= this.#maxEntries) break;
      this.#expiries.delete(oldest);
    }
  }
}
