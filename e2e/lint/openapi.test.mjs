// The linters of npm `@redocly/cli` and `@stoplight/spectral-cli` find nothing in the OpenAPI document. `make check`
// runs them.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const file = (name) => fileURLToPath(new URL(name, import.meta.url));
const DOCUMENT = file('../../crates/api/api/openapi.yaml');

/** Runs a linter and returns its exit code and output. It must not send reports. */
function lint(name, ...options) {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', SCARF_ANALYTICS: 'false' };
  return new Promise((resolve) => {
    execFile(file(`../node_modules/.bin/${name}`), ['lint', DOCUMENT, ...options], { env }, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, output: stdout + stderr });
    });
  });
}

test('Redocly finds nothing', async () => {
  const { code, output } = await lint('redocly', '--config', file('redocly.yaml'), '--format', 'json');
  assert.equal(code, 0, output);
  const { totals } = JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1));
  assert.deepEqual(totals, { errors: 0, warnings: 0, ignored: 0 }, output);
});

test('Spectral finds nothing', async () => {
  const options = ['--ruleset', file('spectral.yaml'), '--fail-severity', 'hint'];
  const { code, output } = await lint('spectral', ...options);
  assert.equal(code, 0, output);
});
