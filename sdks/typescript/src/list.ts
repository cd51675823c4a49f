import type { PageInfo } from './openapi.js';
import type { Filter } from './search.js';
import type { Call, Query, RequestOptions, Transport } from './transport.js';

const DEFAULT_SIZE = 100;

/** Options of a list. */
export interface ListOptions extends RequestOptions {
  /** Items per page, 1 to 100. Defaults to 100. */
  size?: number | undefined;
}

/** Options of a list with a filter. */
export interface SearchOptions extends ListOptions {
  /** A filter, built with `field` or written in RSQL. */
  search?: Filter | string | undefined;
}

/** One page of a list. */
export interface Page<T> {
  /** The items, newest first. */
  content: T[];
  /** Position of this page, and the totals. */
  page: PageInfo;
}

/**
 * A list, which is read page by page while you iterate:
 *
 * ```ts
 * for await (const verification of ringtrue.verifications.list()) …
 * ```
 *
 * Nothing is fetched before. The newest items are first: if items are added while you iterate, you can get an item twice.
 */
export class List<T> implements AsyncIterable<T> {
  readonly #transport: Transport;
  readonly #call: Call;

  /** @internal */
  constructor(
    transport: Transport,
    call: Omit<Call, 'method'>,
    { size, ...options }: ListOptions = {},
    query: Query = {},
  ) {
    this.#transport = transport;
    this.#call = { ...call, method: 'GET', options, query: { ...query, size: size ?? DEFAULT_SIZE } };
  }

  /** Fetches one page with the totals. The first page is 1. */
  page(number = 1): Promise<Page<T>> {
    return this.#transport.call({ ...this.#call, query: { ...this.#call.query, page: number } });
  }

  /** The items of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let number = 1; ; number++) {
      const { content, page } = await this.page(number);
      yield* content;
      if (number >= page.total_pages || content.length === 0) return;
    }
  }

  /** Collects the items of all pages, at most `limit`. */
  async toArray(limit = Number.POSITIVE_INFINITY): Promise<T[]> {
    const items: T[] = [];
    if (limit < 1) return items;
    for await (const item of this) {
      items.push(item);
      if (items.length >= limit) break;
    }
    return items;
  }
}

/** Splits the filter from the other options of a list. */
export function searchList<T>(
  transport: Transport,
  call: Omit<Call, 'method'>,
  { search, ...options }: SearchOptions = {},
): List<T> {
  return new List(transport, call, options, { search: search?.toString() });
}
