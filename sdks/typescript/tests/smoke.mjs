// A sign-up and a callback. Runs in every runtime, in a project with the packed library.
import { CallbackError, Ringtrue } from '@ringtrue/server';
import { callbackHandler } from '@ringtrue/server/next';

const ringtrue = new Ringtrue({ allowSandbox: true });
const { recorded, url } = JSON.parse(process.env.SMOKE_CALLBACK);

const verification = await ringtrue.verifications.create({ phone_number: '+990500000000' });
const device = await fetch(verification.next_step.url, { headers: { accept: 'application/json' } });
const { code } = await device.json();
const query = { verification_id: verification.verification_id, code };
const outcome = await ringtrue.verifications.redeem(verification, query);
if (!outcome.verified) throw new Error(`not verified: ${outcome.reason}`);

const events = [];
const handler = callbackHandler(ringtrue, (event) => void events.push(event), { host: new URL(url).host });
const deliver = (body) => handler(new Request(url, { method: 'POST', headers: recorded.headers, body }));
const statuses = [(await deliver(recorded.body)).status, (await deliver(`${recorded.body} `)).status];
if (statuses.join() !== '200,401' || events.length !== 1) throw new Error(`callbacks: ${statuses}`);
const error = await ringtrue.callbacks.verify({ ...recorded, method: 'PUT', target: '/' }).catch((thrown) => thrown);
if (!(error instanceof CallbackError) || error.reason !== 'signature_invalid') throw error;

console.log('ok');
