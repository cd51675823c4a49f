import type { Problem } from './openapi.js';

/** Base of all errors that this library throws, except the reason of an `AbortSignal` that you passed. */
export class RingtrueError extends Error {
  override name = 'RingtrueError';
}

/** The client's options are incomplete or invalid. */
export class ConfigurationError extends RingtrueError {
  override name = 'ConfigurationError';
}

/** The service sent no usable response: the connection failed, or the response took longer than `timeout`. */
export class ConnectionError extends RingtrueError {
  override name = 'ConnectionError';
  /** Whether the attempt took longer than `timeout`. */
  readonly timedOut: boolean;

  /** @internal */
  constructor(message: string, timedOut = false, options?: ErrorOptions) {
    super(message, options);
    this.timedOut = timedOut;
  }
}

/** The code for programs in an error response. New codes may be added without a new version. */
export type ErrorCode = Problem['error_code'];

/** The service responded with an error. */
export class ApiError extends RingtrueError {
  override name = 'ApiError';
  /** The HTTP status. */
  readonly status: number;
  /** The code for programs, such as `mno_not_supported`. */
  readonly errorCode: ErrorCode;
  /** Short summary; the same for each occurrence. */
  readonly title: string;
  /** Explanation of this occurrence, for developers. */
  readonly detail: string;
  /** The URL of a page that explains this error. */
  readonly type: string | undefined;
  /** The id under which the service logged the call. */
  readonly requestId: string | undefined;
  /** Seconds to wait before the next attempt, if the service says so. */
  readonly retryAfter: number | undefined;

  /** @internal */
  constructor(call: string, response: Response, problem: Partial<Problem>) {
    const { title = response.statusText, error_code = 'unknown_error', detail = title } = problem;
    const requestId = response.headers.get('x-request-id') ?? undefined;
    super(`${call}: ${response.status} ${error_code}: ${detail}${requestId ? ` (request id ${requestId})` : ''}`);
    this.status = response.status;
    this.errorCode = error_code;
    this.title = title;
    this.detail = detail;
    this.type = problem.type;
    this.requestId = requestId;
    this.retryAfter = parseRetryAfter(response.headers.get('retry-after'));
  }
}

/** 401: the credential is wrong, deleted or expired, or its project is disabled. */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError';
}

/** 404: the resource does not exist. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}

/** 429: too many requests, or too many checks for one number. `retryAfter` says how long to wait. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}

/** 400 `code_invalid`: the code is not the one with which the check ended. */
export class CodeInvalidError extends ApiError {
  override name = 'CodeInvalidError';
}

/** The project is in sandbox mode, whose results prove nothing, and the client does not have `allowSandbox`. */
export class SandboxRefusedError extends RingtrueError {
  override name = 'SandboxRefusedError';

  /** @internal */
  constructor(mode: string | null) {
    const found = mode === null ? 'the response has no X-Project-Mode header' : `the project is in ${mode} mode`;
    super(`${found}; set allowSandbox in test systems only`);
  }
}

/** A browser came back with a verification that its session did not start. No call was made. */
export class ForeignReturnError extends RingtrueError {
  override name = 'ForeignReturnError';
}

/** Why a callback was rejected. */
export type CallbackRejection =
  | 'header_missing'
  | 'authorization_malformed'
  | 'algorithm_unsupported'
  | 'components_incomplete'
  | 'digest_mismatch'
  | 'date_out_of_range'
  | 'key_unknown'
  | 'key_refused'
  | 'signature_invalid'
  | 'body_malformed'
  | 'body_too_large'
  | 'kind_unsupported'
  | 'keys_unavailable';

/** A callback was rejected. Respond with `status`. */
export class CallbackError extends RingtrueError {
  override name = 'CallbackError';
  /** Why, for programs. */
  readonly reason: CallbackRejection;
  /** The HTTP status for the response: 400, 401, 413 or 503. */
  readonly status: number;

  /** @internal */
  constructor(reason: CallbackRejection, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
    this.status = CALLBACK_STATUS[reason] ?? 401;
  }
}

const CALLBACK_STATUS: Partial<Record<CallbackRejection, number>> = {
  body_malformed: 400,
  kind_unsupported: 400,
  body_too_large: 413,
  keys_unavailable: 503,
};

/** The error for a response. `call` names it without ids and numbers, such as `GET /v1/verifications/{id}`. */
export function toApiError(call: string, response: Response, text: string): ApiError {
  let problem: Partial<Problem> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) problem = parsed;
  } catch {
    // A proxy may respond without a problem body.
  }
  return new (errorClass(response.status, problem.error_code))(call, response, problem);
}

function errorClass(status: number, code: string | undefined): typeof ApiError {
  if (code === 'code_invalid') return CodeInvalidError;
  switch (status) {
    case 401:
      return AuthenticationError;
    case 404:
      return NotFoundError;
    case 429:
      return RateLimitError;
    default:
      return ApiError;
  }
}

/** Seconds or a date, as RFC 9110 permits both. */
export function parseRetryAfter(value: string | null): number | undefined {
  if (!value) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

/** The error for a failed attempt. `call` names it as in `toApiError`. */
export function toConnectionError(call: string, timedOut: boolean, cause: unknown): ConnectionError {
  const message = `${call}: ${timedOut ? 'timed out' : `connection failed${describeCode(cause)}`}`;
  // Some runtimes write the URL into their errors, and with it the number.
  return new ConnectionError(message, timedOut, call.includes('{phone_number}') ? undefined : { cause });
}

/** The system's code, such as ECONNREFUSED. */
function describeCode(cause: unknown): string {
  const { code, cause: inner } = (cause ?? {}) as { code?: unknown; cause?: { code?: unknown } };
  const found = inner?.code ?? code;
  return typeof found === 'string' ? `: ${found}` : '';
}
