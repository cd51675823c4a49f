import { Callbacks } from './callbacks.js';
import { ManagementResource } from './management.js';
import {
  DiscoveryResource,
  EligibilityResource,
  ReverseSmsResource,
  SandboxResource,
  SecureSnaResource,
  SimSwapResource,
} from './resources.js';
import { type RingtrueOptions, Transport } from './transport.js';
import { VerificationsResource } from './verifications.js';

/**
 * A client of a Ringtrue deployment. Create one for each credential, and share it: it caches access tokens and public
 * keys.
 *
 * ```ts
 * const ringtrue = new Ringtrue(); // from RINGTRUE_URL, RINGTRUE_CLIENT_ID and RINGTRUE_CLIENT_SECRET
 * ```
 */
export class Ringtrue {
  /** Verifications: the best method for a number, and the others if it fails. */
  readonly verifications: VerificationsResource;
  /** Reverse SMS: the user proves control of a number by sending a prepared SMS. */
  readonly reverseSms: ReverseSmsResource;
  /** Secure SNA: the operator confirms the number of a device on mobile data. */
  readonly secureSna: SecureSnaResource;
  /** Discovery: the operator returns the number of a device on mobile data. */
  readonly discovery: DiscoveryResource;
  /** SIM Swap: whether a number's SIM card was changed recently. */
  readonly simSwap: SimSwapResource;
  /** Eligibility: the products that are available for a number or a device. */
  readonly eligibility: EligibilityResource;
  /** The simulated phones of sandbox projects. */
  readonly sandbox: SandboxResource;
  /** Management of workspaces and projects. It needs the credential of a workspace. */
  readonly management: ManagementResource;
  /** Verification of callbacks. */
  readonly callbacks: Callbacks;

  constructor(options: RingtrueOptions = {}) {
    const transport = new Transport(options);
    this.verifications = new VerificationsResource(transport);
    this.reverseSms = new ReverseSmsResource(transport);
    this.secureSna = new SecureSnaResource(transport);
    this.discovery = new DiscoveryResource(transport);
    this.simSwap = new SimSwapResource(transport);
    this.eligibility = new EligibilityResource(transport);
    this.sandbox = new SandboxResource(transport);
    this.management = new ManagementResource(transport);
    this.callbacks = new Callbacks(transport);
  }
}
