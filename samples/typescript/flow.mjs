// @ts-check
// Verifies a number from creation to callback: `node flow.mjs [reverse-sms | secure-sna | verification]`.
// `node flow.mjs listen` only receives and verifies callbacks. The types are in JSDoc comments, which TypeScript checks,
// so that this file runs without a build step on Node.js 18 and later.
import { Ringtrue } from '@ringtrue/server';
import { startReceiver } from './callbacks.mjs';

// Receiving callbacks needs no credential.
const { BASE_URL = 'http://127.0.0.1:8080', CLIENT_ID = '', CLIENT_SECRET = '' } = process.env;
const { PHONE_NUMBER: phone_number = '+990123456700', ACCEPT_SANDBOX, CALLBACK_PORT = '9099' } = process.env;
// A sandbox number: the code below also acts as its phone.
const isSimulated = phone_number.startsWith('+990');

const ringtrue = new Ringtrue({
  url: BASE_URL,
  clientId: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  allowSandbox: ACCEPT_SANDBOX === '1',
});

/** Creates a check or verification, acts as the phone, and returns the id. */
/** @type {Record<string, (callback_url: string) => Promise<string>>} */
const PRODUCTS = {
  async 'reverse-sms'(callback_url) {
    const check = await ringtrue.reverseSms.create({ phone_number, callback_url });
    await askForSms(check);
    return check.check_id;
  },
  async 'secure-sna'(callback_url) {
    const { check_id, url } = await ringtrue.secureSna.create({ phone_number, callback_url });
    const code = await openSilently(url);
    if (code) await ringtrue.secureSna.redeemCode(check_id, code);
    return check_id;
  },
  async verification(callback_url) {
    const { verification_id, next_step } = await ringtrue.verifications.create({ phone_number, callback_url });
    /** @type {import('@ringtrue/server').NextStep | undefined} */
    let step = next_step;
    while (step) {
      if (step.method === 'secure_sna') {
        const code = await openSilently(step.url);
        // Without a code, the operator has failed: the verification goes on with its next method.
        const { verification } = await ringtrue.verifications.redeem(verification_id, { verification_id, code });
        step = isSimulated ? verification.next_step : undefined;
      } else {
        await askForSms(step);
        step = await followingStep(verification_id, step.expected_sms_body);
      }
    }
    return verification_id;
  },
};

/** Your app opens the URL over mobile data, and passes the code to your backend. @param {string} url */
async function openSilently(url) {
  console.log(`Phone: open ${url}`);
  if (!isSimulated) return undefined;
  const response = await fetch(url, { headers: { accept: 'application/json' } });
  return /** @type {{ code?: string }} */ (await response.json()).code;
}

/**
 * Your app shows this link. It opens the messaging app with the receiver and text filled in.
 * @param {{ receiver_phone_number: string, expected_sms_body: string }} step
 */
async function askForSms({ receiver_phone_number: to, expected_sms_body: body }) {
  console.log(`Android: sms:${to}?body=${encodeURIComponent(body)}`);
  console.log(`iOS:     sms:${to}&body=${encodeURIComponent(body)}`);
  if (isSimulated) await ringtrue.sandbox.sendSms({ from: phone_number, to, body });
}

/**
 * Waits until a verification goes on or ends. A text from another number may be sent once more, with a new text.
 * @param {string} id
 * @param {string} text
 */
async function followingStep(id, text) {
  for (;;) {
    const { next_step: step } = await ringtrue.verifications.get(id);
    if (step?.method !== 'reverse_sms' || step.expected_sms_body !== text) return step;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

const [, , name = 'reverse-sms'] = process.argv;
const product = PRODUCTS[name];
if (!product && name !== 'listen') {
  console.error(`unknown argument: ${name}; expected ${Object.keys(PRODUCTS).join(', ')} or listen`);
  process.exit(2);
}
if (product && !(CLIENT_ID && CLIENT_SECRET)) {
  console.error('CLIENT_ID and CLIENT_SECRET are not set: export the credential of a project');
  process.exit(2);
}
const receiver = await startReceiver(ringtrue, Number(CALLBACK_PORT)).catch((error) => {
  console.error(`${error.message}; set CALLBACK_PORT to a free port, or to 0 for any`);
  process.exit(1);
});
console.log(`listening on ${receiver.url}`);
if (product) {
  const { data } = await receiver.wait(await product(receiver.url));
  const isVerified = 'match' in data && data.match === true;
  console.log(isVerified ? 'number verified' : `number not verified: ${JSON.stringify(data)}`);
  receiver.close();
}
