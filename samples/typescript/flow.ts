// Reverse SMS check, from creation to callback. `node flow.ts listen` only receives and verifies callbacks.
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Callback, InvalidCallback, KeySet, verify } from './callbacks.ts';

const baseUrl = process.env.BASE_URL ?? 'http://127.0.0.1:8080';
const phoneNumber = process.env.PHONE_NUMBER ?? '+990123456700';
const MAX_BODY_BYTES = 64 * 1024;

const keySet = new KeySet(`${baseUrl}/.well-known/jwks.json`, { acceptSandbox: process.env.ACCEPT_SANDBOX === '1' });
const verified = new Map<string, Callback>(); // by check_id: a callback may be delivered more than once
let onVerified: () => void = () => {};

const server = createServer(async (request, response) => {
  response.statusCode = await receive(request);
  response.end();
});

async function receive(request: IncomingMessage): Promise<number> {
  try {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      if ((size += chunk.length) > MAX_BODY_BYTES) return 413;
    }
    const { method, url, rawHeaders } = request;
    const callback = await verify({ method: method!, target: url!, rawHeaders, body: Buffer.concat(chunks) }, keySet);
    // Store the callback before responding with 200; process it afterwards.
    if (!verified.has(callback.check_id)) verified.set(callback.check_id, callback);
    onVerified();
    console.log(`verified: ${callback.check_id} ${callback.status} match=${callback.match ?? null}`);
    return 200;
  } catch (error) {
    if (error instanceof InvalidCallback) {
      console.log(`rejected: ${error.message}`);
      return 401;
    }
    console.log(`failed to verify: ${error}`);
    return 503;
  }
}

async function call<Result>(path: string, authorization: string, body: URLSearchParams | object): Promise<Result> {
  const isForm = body instanceof URLSearchParams;
  const response = await fetch(baseUrl + path, {
    method: 'POST',
    headers: { authorization, ...(isForm ? {} : { 'content-type': 'application/json' }) },
    body: isForm ? body : JSON.stringify(body),
  });
  const text = await response.text();
  // A problem body explains the error in `detail`; `type` is the URL of its documentation.
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return (text ? JSON.parse(text) : undefined) as Result;
}

async function flow(callbackUrl: string): Promise<void> {
  const credential = Buffer.from(`${process.env.CLIENT_ID}:${process.env.CLIENT_SECRET}`).toString('base64');
  const grant = new URLSearchParams({ grant_type: 'client_credentials', scope: 'reverse_sms' });
  const { access_token } = await call<{ access_token: string }>('/oauth2/token', `Basic ${credential}`, grant);
  const token = `Bearer ${access_token}`;
  const check = await call<{ check_id: string; receiver_phone_number: string; expected_sms_body: string }>(
    '/v1/number-verification/reverse-sms-checks',
    token,
    { phone_number: phoneNumber, callback_url: callbackUrl },
  );

  // Your app shows this link. It opens the messaging app with the receiver and text filled in.
  const { receiver_phone_number: receiver, expected_sms_body: text } = check;
  console.log(`Android: sms:${receiver}?body=${encodeURIComponent(text)}`);
  console.log(`iOS:     sms:${receiver}&body=${encodeURIComponent(text)}`);
  const concluded = new Promise<void>((resolve) => {
    onVerified = () => verified.has(check.check_id) && resolve();
  });
  if (phoneNumber.startsWith('+990')) {
    // A sandbox number: a simulated handset sends the SMS.
    await call('/v1/sandbox/inbound-sms', token, { from: phoneNumber, to: receiver, body: text });
  }
  await concluded;
  const callback = verified.get(check.check_id)!;
  console.log(callback.match ? 'number verified' : `number not verified: ${JSON.stringify(callback)}`);
  server.close();
  server.closeIdleConnections();
}

server.listen(Number(process.env.CALLBACK_PORT ?? 9099), '127.0.0.1', async () => {
  const callbackUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callbacks`;
  console.log(`listening on ${callbackUrl}`);
  if (process.argv[2] !== 'listen') await flow(callbackUrl);
});
