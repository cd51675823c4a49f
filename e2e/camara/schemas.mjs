// Validates requests and responses against an OpenAPI document of CAMARA.
import assert from 'node:assert/strict';
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';

export class ApiDefinition {
  #document;
  #ajv;

  constructor(text) {
    this.#document = parse(text);
    // The document also has members that are no schema, and keywords of OpenAPI. Its patterns are not for Unicode mode.
    this.#ajv = new Ajv({ strict: false, validateSchema: false, unicodeRegExp: false, allErrors: true });
    addFormats(this.#ajv);
    this.#ajv.addSchema(this.#document, 'api');
  }

  /** Whether a value complies with the schema at a pointer, which the features write with and without `#`. */
  complies(pointer, value) {
    return this.#ajv.validate({ $ref: `api#${pointer.replace('#', '')}` }, value);
  }

  assertComplies(pointer, value) {
    assert.ok(this.complies(pointer, value), `${pointer}: ${this.#ajv.errorsText()}\n${JSON.stringify(value)}`);
  }

  /** Finds an operation by its id. */
  #operation(id) {
    const operations = Object.entries(this.#document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
    const found = operations.find(({ operation }) => operation.operationId === id);
    assert.ok(found, `the document has no operation ${id}`);
    return found;
  }

  assertRequestComplies(id, body) {
    const { path, method } = this.#operation(id);
    const pointer = `/paths/${escape(path)}/${method}/requestBody/content/${escape('application/json')}/schema`;
    this.assertComplies(pointer, body);
  }

  /** Validates the status, headers and body of a response. Statuses that the document does not list are errors of the
   * common definitions, which have the same form. */
  assertResponseComplies(id, { status, headers, body }) {
    const { path, method, operation } = this.#operation(id);
    assert.equal(headers.get('content-type'), 'application/json');
    const correlator = headers.get('x-correlator');
    if (correlator !== null) this.assertComplies('/components/schemas/XCorrelator', correlator);
    if (!operation.responses[status]) return this.assertComplies('/components/schemas/ErrorInfo', body);
    const reference = operation.responses[status].$ref?.slice(1);
    const response = reference ?? `/paths/${escape(path)}/${method}/responses/${status}`;
    this.assertComplies(`${response}/content/${escape('application/json')}/schema`, body);
  }
}

/** Escapes a member for a JSON pointer in a URI fragment. */
const escape = (name) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));
