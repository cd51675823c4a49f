// A scenario of CAMARA's test definitions: the request that its steps describe, and the response.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { nextNumber } from '../sign-in.mjs';
import { OPERATIONS, SHARE, VERIFY, scoped } from './api-client.mjs';
import { STEPS } from './steps.mjs';

const HOUR_MS = 3_600_000;

/** How a scenario identifies the number, where its steps leave it open. */
export const BY_TOKEN = 'number in the token';
export const IN_BODY = 'number in the body';

/** One run of a scenario. Steps describe the request; the first step about the response sends it. */
export class Scenario {
  #client;
  #handset;
  #expired;
  #definition;
  #operation;
  #identification;
  /** Settled when the request is sent, because a step may still change the number. */
  #token = 'valid';
  #headers = {};
  #body = () => undefined;
  #response;
  number = nextNumber();

  /** `expired` has tokens of the client that have expired. */
  constructor({ client, handset, expired, definition, operation, identification }) {
    this.#client = client;
    this.#handset = handset;
    this.#expired = expired;
    this.#definition = definition;
    this.#operation = operation;
    this.#identification = identification;
  }

  async run(steps) {
    for (const { text } of steps) {
      const found = STEPS.map(([pattern, step]) => [pattern.exec(text), step]).filter(([match]) => match);
      assert.equal(found.length, 1, `the step has ${found.length} definitions: ${text}`);
      const [[[, ...values], step]] = found;
      await step(this, ...values);
    }
  }

  get isNumberVerification() {
    return this.#operation === 'phoneNumberVerify' || this.#operation === 'phoneNumberShare';
  }

  get #isInBody() {
    return this.#token === 'two-legged' || (this.#token !== 'three-legged' && this.#identification === IN_BODY);
  }

  checkResource(path) {
    const { path: own } = OPERATIONS[this.#operation];
    assert.ok(own === path || own.startsWith(`${path}/`), `${own} is below ${path}`);
  }

  setHeader(name, value) {
    this.#headers[name] = value;
  }

  setCorrelator(pointer) {
    const correlator = randomUUID();
    this.#definition.assertComplies(pointer, correlator);
    this.setHeader('x-correlator', correlator);
  }

  setToken(kind) {
    this.#token = kind;
  }

  setDefaultBody() {
    this.#body = () => {
      const body = this.isNumberVerification || this.#isInBody ? { phoneNumber: this.number } : {};
      this.#definition.assertRequestComplies(this.#operation, body);
      return body;
    };
  }

  /** Replaces the body by a text, or by none. */
  setBody(text) {
    this.#body = () => text;
  }

  /** Replaces the body by one with this property alone. */
  setOnlyProperty(name, value) {
    this.#body = () => ({ [name]: value() });
  }

  setProperty(name, value) {
    const body = this.#body;
    this.#body = () => ({ ...body(), [name]: value() });
  }

  removeProperties(...names) {
    const body = this.#body;
    this.#body = () => Object.fromEntries(Object.entries(body()).filter(([name]) => !names.includes(name)));
  }

  assertProperty(pointer, value, isCompliant) {
    assert.equal(this.#definition.complies(pointer, value), isCompliant, `${pointer}: ${JSON.stringify(value)}`);
  }

  useNumber(ending) {
    this.number = nextNumber(ending);
  }

  async swap(when) {
    await this.#handset.swap(this.number, when);
  }

  async #accessToken() {
    const { scope } = OPERATIONS[this.#operation];
    const byNetwork = (name) => this.#client.tokensByNetwork(scoped(name), this.number);
    const byCiba = () => this.#client.tokensByCiba(scoped(scope), this.number);
    const byCredentials = () => this.#client.tokensByCredentials(scoped(scope));
    const valid = () => {
      if (this.isNumberVerification) return byNetwork(scope);
      return this.#isInBody ? byCredentials() : byCiba();
    };
    const obtain = {
      valid,
      // No token of Number Verification is for the client alone. One for a device identifies no number either: the number
      // comes with the request.
      'two-legged': () => (this.isNumberVerification ? byNetwork(scope) : byCredentials()),
      'three-legged': byCiba,
      'other scope': () => byNetwork(scope === VERIFY ? SHARE : VERIFY),
      'not by network': byCiba,
      invalid: () => ({ access_token: 'invalid' }),
      none: () => ({}),
      expired: () => {
        const { user, client } = this.#expired[this.#operation];
        return { access_token: this.#isInBody && !this.isNumberVerification ? client : user };
      },
    };
    return (await obtain[this.#token]()).access_token;
  }

  /** Sends the request, once. */
  async send() {
    if (this.#response) return this.#response;
    const headers = { ...this.#headers };
    const body = OPERATIONS[this.#operation].method === 'GET' ? undefined : this.#body();
    this.#response = await this.#client.call(this.#operation, await this.#accessToken(), body, headers);
    this.#definition.assertResponseComplies(this.#operation, this.#response);
    return this.#response;
  }

  async assertResponse(pointer) {
    this.#definition.assertComplies(pointer, (await this.send()).body);
  }

  async assertEchoed(name) {
    assert.equal((await this.send()).headers.get(name), this.#headers[name]);
  }

  async property(name) {
    const { body, text } = await this.send();
    assert.ok(name in body, `${name} in ${text}`);
    return body[name];
  }

  /** Full hours since the last change, as the API reports it. */
  async hoursSinceChange() {
    const scope = OPERATIONS.retrieveSimSwapDate.scope;
    const { access_token } = await this.#client.tokensByCredentials(scoped(scope));
    const { body } = await this.#client.call('retrieveSimSwapDate', access_token, { phoneNumber: this.number });
    return Math.floor((Date.now() - Date.parse(body.latestSimChange)) / HOUR_MS);
  }
}

/** Whether the steps of a scenario leave open how the number is identified. */
export const leavesIdentificationOpen = (steps) => {
  const says = /does not identify|identifying a phone number|"Authorization" is removed|an invalid access token/;
  return steps.every(({ text }) => !says.test(text));
};
