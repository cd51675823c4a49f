/** A value to compare with. Dates are sent as RFC 3339. */
export type SearchValue = string | number | boolean | Date;

/** A field of a filter. Verifications and checks have different ones: see the API reference. */
export type SearchField =
  | 'status'
  | 'verified'
  | 'no_sim_change'
  | 'method'
  | 'network_id'
  | 'error_code'
  | 'reference_id'
  | 'created_at'
  | 'updated_at'
  | 'name'
  | 'mode'
  | 'disabled'
  | (string & {});

/** A filter in RSQL. `toString` writes it. */
export class Filter {
  readonly #text: string;
  readonly #isAlternative: boolean;

  /** @internal */
  constructor(text: string, isAlternative = false) {
    this.#text = text;
    this.#isAlternative = isAlternative;
  }

  /** Both this filter and the others match. */
  and(...others: Filter[]): Filter {
    return new Filter([this, ...others].map((filter) => filter.#asOperand()).join(';'));
  }

  /** This filter or one of the others matches. */
  or(...others: Filter[]): Filter {
    return new Filter([this, ...others].map((filter) => filter.#text).join(','), true);
  }

  /** The filter in RSQL, as `search` in a query. */
  toString(): string {
    return this.#text;
  }

  /** `;` binds tighter than `,`. */
  #asOperand(): string {
    return this.#isAlternative ? `(${this.#text})` : this.#text;
  }
}

/** Comparisons of a field. All values are taken literally, except in `like` and `notLike`. */
export interface FieldComparisons {
  /** Equal. */
  eq(value: SearchValue): Filter;
  /** Not equal, or without the field. */
  ne(value: SearchValue): Filter;
  /** Greater than, or later than. */
  gt(value: SearchValue): Filter;
  /** Greater than or equal, or not before. */
  ge(value: SearchValue): Filter;
  /** Less than, or before. */
  lt(value: SearchValue): Filter;
  /** Less than or equal, or not after. */
  le(value: SearchValue): Filter;
  /** Equal to one of the values. */
  in(values: readonly SearchValue[]): Filter;
  /** Equal to none of the values. */
  out(values: readonly SearchValue[]): Filter;
  /** Matches a pattern, in which each `*` stands for any text. */
  like(pattern: string): Filter;
  /** Does not match a pattern. */
  notLike(pattern: string): Filter;
  /** Begins with a text. */
  startsWith(text: string): Filter;
}

/**
 * Begins a filter:
 *
 * ```ts
 * field('status').eq('COMPLETED').and(field('created_at').ge(new Date('2026-11-01')))
 * ```
 */
export function field(name: SearchField): FieldComparisons {
  // The name is not quoted in RSQL.
  if (!/^[A-Za-z_]+$/.test(name)) throw new TypeError('invalid name of a search field');
  const compare = (operator: string) => (value: SearchValue) => new Filter(name + operator + quote(value));
  const compareList = (operator: string) => (values: readonly SearchValue[]) => {
    if (values.length === 0) throw new TypeError(`${operator} needs at least one value`);
    return new Filter(`${name}${operator}(${values.map(quote).join(',')})`);
  };
  const match = (operator: string) => (pattern: string) => {
    return new Filter(`${name}${operator}"${pattern.replace(/[\\"]/g, '\\$&')}"`);
  };
  return {
    eq: compare('=='),
    ne: compare('!='),
    gt: compare('=gt='),
    ge: compare('=ge='),
    lt: compare('=lt='),
    le: compare('=le='),
    in: compareList('=in='),
    out: compareList('=out='),
    like: match('=='),
    notLike: match('!='),
    startsWith: (text) => new Filter(`${name}==${quote(text).slice(0, -1)}*"`),
  };
}

/** Quotes a value. A backslash makes quotes, backslashes and stars literal. */
function quote(value: SearchValue): string {
  const text = value instanceof Date ? value.toISOString() : String(value);
  return `"${text.replace(/[\\"*]/g, '\\$&')}"`;
}
