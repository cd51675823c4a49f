// A Reverse SMS check from create to callback. `node flow.ts listen` only receives and verifies callbacks.
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Callback, KeySet, Refused, verify } from './callbacks.ts';

const baseUrl = process.env.BASE_URL ?? 'http://127.0.0.1:8080';
const phoneNumber = process.env.PHONE_NUMBER ?? '+990123456700';
const LARGEST_BODY = 64 * 1024;

const keySet = new KeySet(`${baseUrl}/.well-known/jwks.json`, { acceptSandbox: process.env.ACCEPT_SANDBOX === '1' });
const ended = new Map<string, Callback>(); // by check_id: a callback may come more than once
let tell: () => void = () => {};

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
      if ((size += chunk.length) > LARGEST_BODY) return 413;
    }
    const { method, url, rawHeaders } = request;
    const callback = await verify({ method: method!, target: url!, rawHeaders, body: Buffer.concat(chunks) }, keySet);
    // Remember it before answering 200; do the rest of the work after.
    if (!ended.has(callback.check_id)) ended.set(callback.check_id, callback);
    tell();
    console.log(`verified: ${callback.check_id} ${callback.status} match=${callback.match ?? null}`);
    return 200;
  } catch (error) {
    if (error instanceof Refused) {
      console.log(`refused: ${error.message}`);
      return 401;
    }
    console.log(`not verified: ${error}`);
    return 503;
  }
}

async function call<Answer>(path: string, authorization: string, body: URLSearchParams | object): Promise<Answer> {
  const isForm = body instanceof URLSearchParams;
  const answer = await fetch(baseUrl + path, {
    method: 'POST',
    headers: { authorization, ...(isForm ? {} : { 'content-type': 'application/json' }) },
    body: isForm ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  // A problem says what is wrong (`detail`), and `type` is a page about it.
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
  return (text ? JSON.parse(text) : undefined) as Answer;
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

  // What your app shows: a link that opens the user's messages, with everything filled in.
  const { receiver_phone_number: receiver, expected_sms_body: text } = check;
  console.log(`Android: sms:${receiver}?body=${encodeURIComponent(text)}`);
  console.log(`iOS:     sms:${receiver}&body=${encodeURIComponent(text)}`);
  const told = new Promise<void>((resolve) => {
    tell = () => ended.has(check.check_id) && resolve();
  });
  if (phoneNumber.startsWith('+990')) {
    // Nobody has such a number: in a sandbox project a simulated handset sends the SMS.
    await call('/v1/sandbox/inbound-sms', token, { from: phoneNumber, to: receiver, body: text });
  }
  await told;
  const callback = ended.get(check.check_id)!;
  console.log(callback.match ? 'the number is theirs' : `not proven: ${JSON.stringify(callback)}`);
  server.close();
  server.closeIdleConnections();
}

server.listen(Number(process.env.CALLBACK_PORT ?? 9099), '127.0.0.1', async () => {
  const callbackUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callbacks`;
  console.log(`listening on ${callbackUrl}`);
  if (process.argv[2] !== 'listen') await flow(callbackUrl);
});
