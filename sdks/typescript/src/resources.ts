import { type List, type SearchOptions, searchList } from './list.js';
import type {
  CallbackResend,
  CreatedReverseSmsCheck,
  CreatedSilentCheck,
  DiscoveryCheck,
  DiscoveryCheckInput,
  Eligibility,
  ReverseSmsCheck,
  ReverseSmsCheckInput,
  SandboxSms,
  SecureSnaCheck,
  SecureSnaCheckInput,
  SimSwapCheck,
  SimSwapCheckInput,
} from './openapi.js';
import type { Call, CreateOptions, RequestOptions, Scope, Transport } from './transport.js';

/** The service asks the operator during the request, for at most 15 seconds. */
export const OPERATOR_TIMEOUT_MS = 20_000;

/** Calls that all checks have. */
abstract class Checks<Created, Input, Check> {
  /** @internal */
  protected readonly transport: Transport;
  readonly #path: string;
  readonly #scope: Scope;

  /** @internal */
  constructor(transport: Transport, path: string, scope: Scope) {
    this.transport = transport;
    this.#path = path;
    this.#scope = scope;
  }

  /** Creates a check. */
  create(input: Input, options?: CreateOptions): Promise<Created> {
    return this.post('', undefined, { body: input, options, withKey: true });
  }

  /** Reads a check. */
  get(checkId: string, options?: RequestOptions): Promise<Check> {
    const path = `${this.#path}/{check_id}`;
    return this.transport.call({ method: 'GET', path, params: { check_id: checkId }, scope: this.#scope, options });
  }

  /** Lists the project's checks, newest first. */
  list(options?: SearchOptions): List<Check> {
    return searchList(this.transport, { path: this.#path, scope: this.#scope }, options);
  }

  /** @internal */
  protected post<T>(suffix: string, checkId: string | undefined, call: Partial<Call>): Promise<T> {
    const params = checkId === undefined ? {} : { check_id: checkId };
    return this.transport.call({ ...call, method: 'POST', path: this.#path + suffix, params, scope: this.#scope });
  }
}

/** Calls of checks that have callbacks. */
abstract class ChecksWithCallback<Created, Input, Check> extends Checks<Created, Input, Check> {
  /** Sends the callback of a concluded check again. */
  resendCallback(checkId: string, options?: CreateOptions): Promise<CallbackResend> {
    return this.post('/{check_id}/callback-resends', checkId, { options, withKey: true });
  }
}

/** Calls of checks that a device runs silently. */
abstract class SilentChecks<Input, Check> extends ChecksWithCallback<CreatedSilentCheck, Input, Check> {
  /**
   * Redeems the code that your app received at the end of the redirects, and returns the result. Accept the code only
   * from the session in which you created the check.
   *
   * A code can be redeemed once. The call is therefore not repeated after a broken connection: read the check with `get`.
   */
  redeemCode(checkId: string, code: string, options?: RequestOptions): Promise<Check> {
    return this.post('/{check_id}', checkId, { body: { code }, options });
  }
}

/** Reverse SMS: the user proves control of a number by sending a prepared SMS. */
export class ReverseSmsResource extends ChecksWithCallback<
  CreatedReverseSmsCheck,
  ReverseSmsCheckInput,
  ReverseSmsCheck
> {
  /** @internal */
  constructor(transport: Transport) {
    super(transport, '/v1/number-verification/reverse-sms-checks', 'reverse_sms');
  }
}

/** Secure SNA: the operator confirms the number of a device on mobile data. */
export class SecureSnaResource extends SilentChecks<SecureSnaCheckInput, SecureSnaCheck> {
  /** @internal */
  constructor(transport: Transport) {
    super(transport, '/v1/number-verification/secure-sna-checks', 'secure_sna');
  }
}

/** Discovery: the operator returns the number of a device on mobile data. */
export class DiscoveryResource extends SilentChecks<DiscoveryCheckInput, DiscoveryCheck> {
  /** @internal */
  constructor(transport: Transport) {
    super(transport, '/v1/number-verification/discovery-checks', 'discovery');
  }

  /** Creates a check. */
  override create(input: DiscoveryCheckInput = {}, options?: CreateOptions): Promise<CreatedSilentCheck> {
    return super.create(input, options);
  }
}

/** SIM Swap: whether a number's SIM card was changed recently. The result is in the response to `create`. */
export class SimSwapResource extends Checks<SimSwapCheck, SimSwapCheckInput, SimSwapCheck> {
  /** @internal */
  constructor(transport: Transport) {
    super(transport, '/v1/sim-swap-checks', 'sim_swap');
  }

  /** Asks the operator, which takes at most 15 seconds. */
  override create(input: SimSwapCheckInput, options?: CreateOptions): Promise<SimSwapCheck> {
    return this.post('', undefined, { body: input, options, withKey: true, defaultTimeout: OPERATOR_TIMEOUT_MS });
  }
}

/** Eligibility: the products that are available for a number or a device. */
export class EligibilityResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Products for a number in E.164 format, such as `+447700900001`. */
  ofNumber(phoneNumber: string, options?: RequestOptions): Promise<Eligibility> {
    const path = '/v1/eligibility/phone-numbers/{phone_number}';
    return this.#get(path, { phone_number: phoneNumber }, options);
  }

  /** Products for a device's public IPv4 or IPv6 address. */
  ofAddress(ip: string, options?: RequestOptions): Promise<Eligibility> {
    return this.#get('/v1/eligibility/device-ips/{ip}', { ip }, options);
  }

  #get(path: string, params: Record<string, string>, options?: RequestOptions): Promise<Eligibility> {
    return this.#transport.call({ method: 'GET', path, params, scope: 'eligibility', options });
  }
}

/** The simulated phones of sandbox projects. */
export class SandboxResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Sends an SMS from a simulated phone. */
  async sendSms(sms: SandboxSms, options?: RequestOptions): Promise<void> {
    const path = '/v1/sandbox/inbound-sms';
    await this.#transport.call({ method: 'POST', path, body: sms, scope: 'reverse_sms', options });
  }
}
