// The steps of CAMARA's test definitions. Each has one definition here, which acts on a `Scenario`.
import assert from 'node:assert/strict';
import { nextNumber } from '../sign-in.mjs';
import { hash } from './api-client.mjs';
import { SWAP_TIMES } from './handset.mjs';

const HOUR_MS = 3_600_000;
/** `maxAge` of requests without one, and the largest one. */
const DEFAULT_MAX_AGE = 240;
const MAX_MAX_AGE = 2_400;

/** Values that do not comply with the schemas to which steps refer. */
const INVALID_PHONE_NUMBER = '990123456700';
const INVALID_MAX_AGE = 'a day';

/** Number Verification has the schemas of its properties within that of the body. */
const PROPERTIES = '#/components/schemas/NumberVerificationRequestBody/properties';

/** The latest swap that the handset offers within this many hours. */
const latestWithin = (hours) => Object.keys(SWAP_TIMES).filter((when) => SWAP_TIMES[when] < hours).at(-1);

const isTimestamp = (text) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text);

/** Pattern of a step: `{}` is a value with or without quotes, and `[…|…]` is one of these texts, or none. */
function pattern(text) {
  const source = text
    .replaceAll(/[.*+?^$()\\]/g, '\\$&')
    .replaceAll('[', '(?:')
    .replaceAll(']', ')?')
    .replaceAll('{}', '"?([^"]+?)"?');
  return new RegExp(`^ ?${source}$`);
}

const AUTHORIZATION = 'the header "Authorization" is';
const SWAPPED = 'the SIM for this phone number has been swapped';
const HASHED = ', hashed in SHA-256 (in hexadecimal representation)';

const DEFINITIONS = {
  // Background.
  'the resource {}[ as base url]': (scenario, path) => scenario.checkResource(path),
  'the header "Content-Type" is set to {}': (scenario, type) => scenario.setHeader('content-type', type),
  'the header "x-correlator" complies with the schema at {}': (scenario, pointer) => scenario.setCorrelator(pointer),
  'the request body is set by default to a request body compliant with the schema': (scenario) => scenario.setDefaultBody(),
  'the request body is set to a valid request body': (scenario) => scenario.setDefaultBody(),

  // Access tokens.
  [`${AUTHORIZATION} set to a valid access token`]: (scenario) => scenario.setToken('valid'),
  'the token has been obtained by a supported authentication method': (scenario) => scenario.setToken('valid'),
  [`${AUTHORIZATION} removed`]: (scenario) => scenario.setToken('none'),
  [`${AUTHORIZATION} set to an expired access token`]: (scenario) => scenario.setToken('expired'),
  [`${AUTHORIZATION} set to an invalid access token`]: (scenario) => scenario.setToken('invalid'),
  [`${AUTHORIZATION} set to an access token without the required scope`]: (scenario) => scenario.setToken('other scope'),
  [`${AUTHORIZATION} set to a token for which neither Network-based nor SIM-based authentication was used`]:
    (scenario) => scenario.setToken('not by network'),
  [`${AUTHORIZATION} set to a valid access token which does not identify a single phone number`]:
    (scenario) => scenario.setToken('two-legged'),
  [`${AUTHORIZATION} set to a valid access token identifying a phone number`]:
    (scenario) => scenario.setToken('three-legged'),

  // Numbers. Each scenario has its own, which the token and the body use.
  'a valid phone number[ supported by the service,] identified by the token[ and provided in the request body| or provided in the request body]':
    () => {},
  'a valid testing phoneNumber supported by the service, identified by the token': () => {},
  'that the service is not available for all phone numbers commercialized by the operator': () => {},
  'a valid phone number, identified by the token or provided in the request body, for which the service is not applicable':
    (scenario) => scenario.useNumber('97'),

  // Changes of SIM cards. A new subscription counts as one, so numbers that were never swapped have an old change.
  [SWAPPED]: (scenario) => scenario.swap('5h'),
  [`${SWAPPED} in the last {}[ hours]`]: (scenario, hours) => scenario.swap(latestWithin(Number(hours))),
  [`${SWAPPED} more than 240 hours ago`]: (scenario) => scenario.swap('20d'),
  [`${SWAPPED} before the limited history window threshold`]: (scenario) => scenario.useNumber('98'),
  'the last swap for this phone number\'s SIM was more than "maxAge" hours ago': () => {},
  'the SIM for this phone number has never been swapped': (scenario) => scenario.useNumber('00'),
  'the activation of the SIM occurred more than {} hours ago': async (scenario, hours) => {
    assert.ok((await scenario.hoursSinceChange()) > hours);
  },

  // Bodies.
  'the request body is not included': (scenario) => scenario.setBody(undefined),
  'the request body is set to "{}"': (scenario, text) => scenario.setBody(text),
  'the request body property "$.additional_property" is set to {}': (scenario, value) => {
    scenario.setProperty('additional_property', () => value);
  },
  'the request body does not contain neither "$.phoneNumber" nor "$.hashedPhoneNumber"': (scenario) => {
    scenario.removeProperties('phoneNumber', 'hashedPhoneNumber');
  },
  'the body property "$.phoneNumber" is set to the phone number identified by the access token': (scenario) => {
    scenario.setOnlyProperty('phoneNumber', () => scenario.number);
  },
  'the body property "$.phoneNumber" is set to a valid phone number different from the one identified by the access token':
    (scenario) => scenario.setOnlyProperty('phoneNumber', () => nextNumber()),
  [`the body property "$.hashedPhoneNumber" is set to the phone number identified by the access token${HASHED}`]:
    (scenario) => scenario.setOnlyProperty('hashedPhoneNumber', () => hash(scenario.number)),
  [`the body property "$.hashedPhoneNumber" is set to a valid phone number different from the one identified by the access token${HASHED}`]:
    (scenario) => scenario.setOnlyProperty('hashedPhoneNumber', () => hash(nextNumber())),
  'the request body property "$.phoneNumber" is set to a valid phone number': (scenario) => {
    scenario.setProperty('phoneNumber', () => scenario.number);
  },
  'the same phone number is compliant with OAS schema at {}': (scenario) => {
    scenario.assertProperty(`${PROPERTIES}/phoneNumber`, scenario.number, true);
  },
  'the request body property "$.hashedPhoneNumber" is set to a valid phone number compliant with OAS schema at {}':
    (scenario) => {
      scenario.assertProperty(`${PROPERTIES}/hashedPhoneNumber`, hash(scenario.number), true);
      scenario.setProperty('hashedPhoneNumber', () => hash(scenario.number));
    },
  'the request body property "$.phoneNumber" does not comply with the OAS schema at {}': (scenario, pointer) => {
    const schema = scenario.isNumberVerification ? `${PROPERTIES}/phoneNumber` : pointer;
    scenario.assertProperty(schema, INVALID_PHONE_NUMBER, false);
    scenario.setProperty('phoneNumber', () => INVALID_PHONE_NUMBER);
  },
  'the request body property "$.phoneNumber" is compliant with the schema but does not identify a valid phone number':
    (scenario) => {
      scenario.useNumber('94');
      scenario.assertProperty('#/components/schemas/PhoneNumber', scenario.number, true);
      scenario.setProperty('phoneNumber', () => scenario.number);
    },
  'the request body property "$.phoneNumber" is not included': (scenario) => scenario.removeProperties('phoneNumber'),
  'the "maxAge" request body property is set to a value equal or greater than {} within the allowed range':
    (scenario, hours) => scenario.setProperty('maxAge', () => Math.min(Number(hours), MAX_MAX_AGE)),
  'the request body property "maxAge" is set to a value less than {} within the allowed range': (scenario, hours) => {
    scenario.setProperty('maxAge', () => Math.max(Number(hours) - 1, 1));
  },
  'the request body property "maxAge" is set to the number of hours since the last SIM swap minus 1': async (scenario) => {
    await scenario.swap('20d');
    const hours = await scenario.hoursSinceChange();
    assert.ok(hours > DEFAULT_MAX_AGE, 'so that `maxAge` decides, and not the default');
    scenario.setProperty('maxAge', () => hours - 1);
  },
  'the request body property "$.maxAge" does not comply with the OAS schema at {}': (scenario, pointer) => {
    scenario.assertProperty(pointer, { maxAge: INVALID_MAX_AGE }, false);
    scenario.setProperty('maxAge', () => INVALID_MAX_AGE);
  },
  'the request body property "$.maxAge" is set to {}': (scenario, hours) => {
    // The value of another step begins like this one.
    assert.match(hours, /^\d+$/);
    scenario.setProperty('maxAge', () => Number(hours));
  },

  // The request and its response.
  'the request {} is sent': (scenario) => scenario.send(),
  'the response status code is {}': async (scenario, status) => {
    const response = await scenario.send();
    assert.equal(response.status, Number(status), response.text);
  },
  'the response header "Content-Type" is {}': async (scenario, type) => {
    assert.equal((await scenario.send()).headers.get('content-type'), type);
  },
  'the response header "x-correlator" has same value as the request header "x-correlator"': (scenario) => {
    return scenario.assertEchoed('x-correlator');
  },
  'the response body complies with the OAS schema at {}': (scenario, pointer) => scenario.assertResponse(pointer),
  'the response property "$.status" is {}': async (scenario, status) => {
    assert.equal(await scenario.property('status'), Number(status));
  },
  'the response property "$.code" is {}': async (scenario, code) => {
    assert.equal(await scenario.property('code'), code);
  },
  'the response property "$.message" contains a user friendly text': async (scenario) => {
    assert.match(await scenario.property('message'), /\w \w/);
  },
  'the response property "$.devicePhoneNumberVerified" == {}': async (scenario, value) => {
    assert.equal(await scenario.property('devicePhoneNumberVerified'), value === 'true');
  },
  'the value of response property "$.swapped" == {}': async (scenario, value) => {
    assert.equal(await scenario.property('swapped'), value === 'true');
  },
  'the response property "$.devicePhoneNumber" is equal to the phone number associated with the access token':
    async (scenario) => assert.equal(await scenario.property('devicePhoneNumber'), scenario.number),
  'the response property "$.latestSimChange" contains a valid timestamp': async (scenario) => {
    assert.ok(isTimestamp(await scenario.property('latestSimChange')));
  },
  'the response property "$.latestSimChange" contains the sim\'s activation timestamp': async (scenario) => {
    const text = await scenario.property('latestSimChange');
    // Simulated SIM cards are older than any period that clients can ask for.
    assert.ok(isTimestamp(text) && Date.now() - Date.parse(text) > MAX_MAX_AGE * HOUR_MS, text);
  },
  'the response property "$.latestSimChange" is null': async (scenario) => {
    assert.equal(await scenario.property('latestSimChange'), null);
  },
  'the response optionally contains the property "$.monitoredPeriod" with the value of monitored time frame (in days) supported by the MNO':
    async (scenario) => assert.ok((await scenario.property('monitoredPeriod')) > 0),
};

export const STEPS = Object.entries(DEFINITIONS).map(([text, step]) => [pattern(text), step]);
