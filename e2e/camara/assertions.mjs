// What the tests of CAMARA's APIs and of their tokens assert alike.
import assert from 'node:assert/strict';

/** Asserts that a response of an API is this error, in the form of CAMARA and with nothing else. */
export function assertApiError({ status, headers, body, text }, expectedStatus, code) {
  assert.deepEqual([status, body.code], [expectedStatus, code], text);
  assert.equal(headers.get('content-type'), 'application/json');
  assert.deepEqual(Object.keys(body).sort(), ['code', 'message', 'status']);
  assert.equal(body.status, status);
  assert.match(body.message, /\w \w/, 'a text for people');
}

/** Asserts that an OAuth endpoint answers with this error. */
export function assertOAuthError({ status, body, headers }, expectedStatus, error) {
  assert.deepEqual([status, body.error], [expectedStatus, error], JSON.stringify(body));
  assert.ok(body.error_description.length > 0);
  assert.match(headers.get('cache-control'), /no-store/);
}
