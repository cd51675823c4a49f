// CAMARA's own test definitions for Number Verification and SIM Swap, unmodified: the `.feature` files of the folder
// `CAMARA_DEFINITIONS`, with the releases in folders such as `NumberVerification-r3.2` (github.com/camaraproject). All
// responses are validated against the OpenAPI documents in the same folders. Without the folder, the tests in
// camara_api.test.mjs cover the same behaviour.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { AstBuilder, GherkinClassicTokenMatcher, Parser, compile } from '@cucumber/gherkin';
import { IdGenerator } from '@cucumber/messages';
import { OPERATIONS, createCamaraClient, scoped } from './camara/api-client.mjs';
import { startWithPast } from './camara/deployment.mjs';
import { Handset } from './camara/handset.mjs';
import { ApiDefinition } from './camara/schemas.mjs';
import { BY_TOKEN, IN_BODY, Scenario, leavesIdentificationOpen } from './camara/scenario.mjs';
import { nextNumber } from './sign-in.mjs';

const FOLDER = process.env.CAMARA_DEFINITIONS;

/** Releases, with their OpenAPI documents and the features that apply. */
const RELEASES = [
  {
    folder: 'NumberVerification-r3.2',
    document: 'number-verification.yaml',
    features: {
      'number-verification-phoneNumberVerify.feature': 'phoneNumberVerify',
      'number-verification-phoneNumberShare.feature': 'phoneNumberShare',
    },
  },
  {
    folder: 'SimSwap-r3.3',
    document: 'sim-swap.yaml',
    features: {
      'sim-swap-checkSimSwap.feature': 'checkSimSwap',
      'sim-swap-retrieveSimSwapDate.feature': 'retrieveSimSwapDate',
    },
  },
];

/** Features that cannot apply, each with its reason. */
const SKIPPED_FEATURES = {
  'sim-swap-subscriptions.feature': 'Ringtrue does not offer SIM Swap Subscriptions, which is an API of its own',
};

/** Scenarios that cannot apply, each with its reason. */
const SKIPPED_SCENARIOS = {
  '@check_sim_swap_400.3_max_age_out_of_monitored_period':
    'is for providers with a restricted monitored period; every simulated SIM is monitored for longer than the largest `maxAge`',
  '@retrieve_sim_swap_date_4_sim_never_associated':
    'is for providers that answer for numbers without a SIM card; to Ringtrue, such a number is unknown',
};

if (FOLDER === undefined) {
  const skip = 'set CAMARA_DEFINITIONS=DIR to the folder with the releases of CAMARA';
  test('the test definitions of CAMARA', { skip }, () => {});
} else {
  runFeatures();
}

function runFeatures() {
  const deployment = {};

  before(async () => {
    Object.assign(deployment, await startWithPast(issueTokens));
    const { client } = deployment.issued;
    client.clockOffset = 0;
    deployment.client = client;
    deployment.expired = deployment.issued.tokens;
    deployment.handset = await Handset.signIn(deployment, client.project_id);
  });
  after(async () => {
    assert.equal(await deployment.stop?.(), 0, 'exits with 0 on SIGTERM');
  });

  for (const { folder, document, features } of RELEASES) {
    const read = (name) => readFileSync(join(FOLDER, folder, name), 'utf8');
    const definition = new ApiDefinition(read(document));
    for (const name of readdirSync(join(FOLDER, folder)).filter((file) => file.endsWith('.feature')).sort()) {
      const operation = features[name];
      const skip = operation === undefined && (SKIPPED_FEATURES[name] ?? assert.fail(`unknown feature ${name}`));
      describe(name, { skip }, () => {
        if (skip) return;
        for (const pickle of parseFeature(read(name))) defineScenario(pickle, deployment, definition, operation);
      });
    }
  }
}

/** Parses a feature into scenarios: with the steps of its background, and one for each row of examples. */
function parseFeature(text) {
  const newId = IdGenerator.uuid();
  const parser = new Parser(new AstBuilder(newId), new GherkinClassicTokenMatcher());
  const pickles = compile(parser.parse(text), 'feature', newId);
  assert.ok(pickles.length > 0);
  return pickles;
}

/** Defines the test of a scenario. If its steps leave open how the number is identified, SIM Swap runs it both ways. */
function defineScenario({ name, tags, steps }, deployment, definition, operation) {
  const [tag] = tags.map((each) => each.name);
  const isOpen = operation.includes('SimSwap') && leavesIdentificationOpen(steps);
  // The name of an outline does not tell its examples apart.
  const examples = steps.map(({ text }) => /(?:swapped in the last|occurred more than) "(\d+)"/.exec(text));
  const example = examples.filter(Boolean).map(([, hours]) => ` ${hours} hours`).join('');
  for (const identification of isOpen ? [BY_TOKEN, IN_BODY] : [undefined]) {
    const suffix = identification ? ` (${identification})` : '';
    test(`${tag} ${name}${example}${suffix}`, { skip: SKIPPED_SCENARIOS[tag] }, async () => {
      const { client, handset, expired } = deployment;
      await new Scenario({ client, handset, expired, definition, operation, identification }).run(steps);
    });
  }
}

/** Obtains tokens that will have expired: for a user, and for the client alone where the operation permits it. Each
 * works now, so that later only its age is wrong. */
async function issueTokens(ringtrue, clockOffset) {
  const client = await createCamaraClient(ringtrue, { clockOffset });
  const number = nextNumber();
  const tokens = {};
  for (const [operation, { method, scope }] of Object.entries(OPERATIONS)) {
    const byCiba = () => client.tokensByCiba(scoped(scope), number);
    const byCredentials = () => client.tokensByCredentials(scoped(scope));
    const byNetwork = () => client.tokensByNetwork(scoped(scope), number);
    const issue = operation.includes('SimSwap') ? { user: byCiba, client: byCredentials } : { user: byNetwork };
    tokens[operation] = {};
    for (const [kind, obtain] of Object.entries(issue)) {
      // Tokens of Number Verification work once, so another one is tried.
      const [tried, kept] = [(await obtain()).access_token, (await obtain()).access_token];
      const isNumberInBody = method === 'POST' && !(operation.includes('SimSwap') && kind === 'user');
      const body = method === 'GET' ? undefined : isNumberInBody ? { phoneNumber: number } : {};
      const { status, text } = await client.call(operation, tried, body);
      assert.equal(status, 200, text);
      tokens[operation][kind] = kept;
    }
  }
  return { client, tokens };
}
