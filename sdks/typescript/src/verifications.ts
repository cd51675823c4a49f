import { ApiError, ForeignReturnError } from './errors.js';
import { type List, type SearchOptions, searchList } from './list.js';
import type {
  CreatedVerification,
  NextStepInput,
  Verification,
  VerificationCallbackResend,
  VerificationInput,
} from './openapi.js';
import { OPERATOR_TIMEOUT_MS } from './resources.js';
import { delay } from './time.js';
import { type Call, type CreateOptions, monotonicNow, type RequestOptions, type Transport } from './transport.js';

const PATH = '/v1/verifications';
const ONE = `${PATH}/{verification_id}`;
const scope = 'verification';
/** How long to wait for the operator's answer about a SIM change. */
const SIM_ANSWER_WAIT_MS = 15_000;
const SIM_ANSWER_POLL_MS = 500;
/** Errors of a redemption for which the verification says why it did not succeed. */
const REDEMPTION_REFUSALS = ['code_invalid', 'check_not_ready', 'check_already_completed', 'check_expired'];

/**
 * The query of the return URL, as your framework gives it: an object, `URLSearchParams`, the URL, or the text of the URL
 * or of its query.
 */
export type ReturnQuery = URLSearchParams | URL | string | Readonly<Record<string, unknown>>;

/** What your session keeps: the id of the verification that it started, or the response to `create`. */
export type SessionVerification = string | { readonly verification_id: string } | null | undefined;

/** Why a number is not verified. New reasons may be added. */
export type FailureReason =
  | 'no_match'
  | 'expired'
  | 'given_up'
  | 'wrong_number'
  | 'cancelled'
  | 'methods_exhausted'
  | 'internal_error'
  | 'code_invalid'
  | 'code_missing'
  | (string & {});

/** The user has the number. */
export interface VerifiedOutcome {
  verified: true;
  open: false;
  url?: undefined;
  reason?: undefined;
  /** The verification as the service returned it. */
  verification: Verification;
}

/** The verification goes on. Send the browser to `url`. */
export interface OpenOutcome {
  verified: false;
  open: true;
  /** The hosted page, which continues. */
  url: string;
  reason?: undefined;
  /** The verification as the service returned it. */
  verification: Verification;
}

/** The number is not verified. */
export interface FailedOutcome {
  verified: false;
  open: false;
  url?: undefined;
  /** Why, according to the service and not to the browser. */
  reason: FailureReason;
  /** The verification as the service returned it. */
  verification: Verification;
}

/** What came of a verification when the browser returned. */
export type Outcome = VerifiedOutcome | OpenOutcome | FailedOutcome;

/** Verifications: the best method for a number, and the others if it fails. */
export class VerificationsResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Starts a verification. Keep its `verification_id` in the user's session, and send the browser to its `url`. */
  create(input: VerificationInput, options?: CreateOptions): Promise<CreatedVerification> {
    return this.#transport.call({ method: 'POST', path: PATH, body: input, scope, options, withKey: true });
  }

  /** Reads a verification. */
  get(verificationId: string, options?: RequestOptions): Promise<Verification> {
    return this.#transport.call({ method: 'GET', path: ONE, params: id(verificationId), scope, options });
  }

  /** Lists the project's verifications, newest first. */
  list(options?: SearchOptions): List<Verification> {
    return searchList(this.#transport, { path: PATH, scope }, options);
  }

  /** Gives up the current step and starts the next method. With a `method`, only if it is the current one. */
  next(verificationId: string, input: NextStepInput = {}, options?: CreateOptions): Promise<Verification> {
    return this.#post('/next', verificationId, { body: input, options, withKey: true });
  }

  /** Ends an open verification. Returns a verification that has ended unchanged. */
  cancel(verificationId: string, options?: RequestOptions): Promise<Verification> {
    return this.#post('/cancel', verificationId, { options, isRepeatable: true });
  }

  /** Sends the callback of a concluded verification again. */
  resendCallback(verificationId: string, options?: CreateOptions): Promise<VerificationCallbackResend> {
    return this.#post('/callback-resends', verificationId, { options, withKey: true });
  }

  /**
   * Redeems a code without the checks of `redeem`, for apps with their own screens. Accept the code only from the
   * session in which you created the verification.
   *
   * The call can be repeated: the same code has the same result.
   */
  redeemCode(verificationId: string, code: string, options?: RequestOptions): Promise<Verification> {
    const call = { body: { code }, options, isRepeatable: true, defaultTimeout: OPERATOR_TIMEOUT_MS };
    return this.#post('', verificationId, call);
  }

  /**
   * Handles the return of a browser to your `redirect_url`:
   *
   * - throws `ForeignReturnError`, without a call, if the session did not start this verification;
   * - redeems the code. A return without a code never verifies a number, and the `error` of the query is ignored: the
   *   browser belongs to the user;
   * - throws `SandboxRefusedError` for sandbox projects, unless the client has `allowSandbox`;
   * - waits up to 15 seconds for the operator's answer about a SIM change.
   *
   * A page that is reloaded gets the same outcome again.
   */
  async redeem(session: SessionVerification, query: ReturnQuery, options: RequestOptions = {}): Promise<Outcome> {
    const expected = typeof session === 'string' ? session : session?.verification_id;
    const parameters = readQuery(query);
    if (!expected) throw new ForeignReturnError('the session has no verification');
    if (parameters('verification_id') !== expected) {
      throw new ForeignReturnError('the verification belongs to another session');
    }
    const code = parameters('code');
    if (!code) return toOutcome(await this.#settle(await this.get(expected, options), options), 'code_missing');
    try {
      return toOutcome(await this.#settle(await this.redeemCode(expected, code, options), options));
    } catch (error) {
      if (!(error instanceof ApiError) || !REDEMPTION_REFUSALS.includes(error.errorCode)) throw error;
      const verification = await this.get(expected, options);
      if (error.errorCode !== 'code_invalid') {
        return toOutcome(await this.#settle(verification, options), 'code_invalid');
      }
      return { verified: false, open: false, reason: 'code_invalid', verification };
    }
  }

  /** Waits while only the operator's answer about a SIM change is missing. */
  async #settle(verification: Verification, options: RequestOptions): Promise<Verification> {
    const deadline = monotonicNow() + SIM_ANSWER_WAIT_MS;
    let current = verification;
    while (isAskingOperator(current) && monotonicNow() < deadline) {
      await delay(SIM_ANSWER_POLL_MS, options.signal);
      current = await this.get(verification.verification_id, options);
    }
    return current;
  }

  #post<T>(suffix: string, verificationId: string, call: Partial<Call>): Promise<T> {
    return this.#transport.call({ ...call, method: 'POST', path: ONE + suffix, params: id(verificationId), scope });
  }
}

function id(verificationId: string): Record<string, string> {
  return { verification_id: verificationId };
}

function isOpen({ status }: Verification): boolean {
  return status === 'ACCEPTED' || status === 'PENDING';
}

function isAskingOperator(verification: Verification): boolean {
  return isOpen(verification) && verification.steps[verification.steps.length - 1]?.method === 'sim_swap';
}

/** `unproven`: the reason in place of a match that no redeemed code proves. */
function toOutcome(verification: Verification, unproven?: FailureReason): Outcome {
  const { status, match, url, error_code } = verification;
  if (isOpen(verification) && url !== undefined) return { verified: false, open: true, url, verification };
  const failed = (reason: FailureReason): FailedOutcome => ({ verified: false, open: false, reason, verification });
  if (status === 'EXPIRED') return failed('expired');
  if (status !== 'COMPLETED') return failed(error_code ?? 'internal_error');
  if (match !== true) return failed('no_match');
  return unproven === undefined ? { verified: true, open: false, verification } : failed(unproven);
}

/** Reads parameters of the query. A repeated parameter counts as absent: nobody can tell which one is meant. */
function readQuery(query: ReturnQuery): (name: string) => string | undefined {
  if (typeof query === 'string' || query instanceof URL || query instanceof URLSearchParams) {
    const parameters = new URLSearchParams(typeof query === 'string' ? queryText(query) : searchOf(query));
    return (name) => {
      const [value, ...others] = parameters.getAll(name);
      return others.length === 0 ? value : undefined;
    };
  }
  return (name) => {
    const value = Object.hasOwn(query, name) ? query[name] : undefined;
    return typeof value === 'string' ? value : undefined;
  };
}

function searchOf(query: URL | URLSearchParams): URLSearchParams {
  return query instanceof URL ? query.searchParams : query;
}

/** The query of a URL, a path with a query, or the query itself. */
function queryText(text: string): string {
  const start = text.indexOf('?');
  return (start < 0 ? text : text.slice(start + 1)).replace(/#.*$/, '');
}
