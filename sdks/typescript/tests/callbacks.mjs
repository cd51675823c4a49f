// Receives callbacks of the real service, and forges others with an own key.
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { createServer, request as httpRequest } from 'node:http';
import { sendSms } from './phone.mjs';
import { sendJson, startStub } from './stub.mjs';

export const COMPONENTS = '(request-target) host date x-service-callback digest';

/** Records requests as received, and responds with 200. */
export async function startRecorder() {
  const received = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url: target, rawHeaders: headers } = request;
    received.push({ method, target, headers, body: Buffer.concat(chunks) });
    response.end();
    waiting.shift()?.();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    // Characters that frameworks like to decode.
    url: `http://127.0.0.1:${server.address().port}/call%2Fbacks?order=7&note=%C3%A9`,
    async next() {
      if (received.length === 0) await new Promise((resolve) => waiting.push(resolve));
      return received.shift();
    },
    stop: () => new Promise((resolve) => server.close(resolve).closeAllConnections()),
  };
}

/** Completes a Reverse SMS check, which sends a callback. */
export async function completeCheck(ringtrue, phone_number, callback_url) {
  const check = await ringtrue.reverseSms.create({ phone_number, callback_url });
  await sendSms(ringtrue, phone_number, check);
  return check.check_id;
}

/** The value of a header. */
export function header(request, name) {
  return request.headers[request.headers.findIndex((text, at) => at % 2 === 0 && text.toLowerCase() === name) + 1];
}

/** A copy with another value of a header, or without it. */
export function withHeader(request, name, value) {
  const headers = [];
  for (let at = 0; at < request.headers.length; at += 2) {
    const isMeant = request.headers[at].toLowerCase() === name;
    if (!isMeant) headers.push(request.headers[at], request.headers[at + 1]);
    else if (value !== undefined) headers.push(request.headers[at], value);
  }
  return { ...request, headers };
}

/** Sends a recorded request to another port, with its headers unchanged. */
export function replay(recorded, port, path = recorded.target) {
  const pairs = [];
  for (let at = 0; at < recorded.headers.length; at += 2) {
    const name = recorded.headers[at];
    if (!/^(connection|content-length|transfer-encoding)$/i.test(name)) pairs.push(name, recorded.headers[at + 1]);
  }
  const headers = [...pairs, 'content-length', String(recorded.body.length), 'connection', 'close'];
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, method: recorded.method, headers, setHost: false };
    httpRequest(options, async (response) => {
      let text = '';
      for await (const chunk of response) text += chunk;
      resolve({ status: response.statusCode, text });
    })
      .on('error', reject)
      .end(recorded.body);
  });
}

/** A service with an own key, which signs anything. */
export async function startForger(members = {}) {
  const state = { isUp: true, headers: {}, keyIds: ['own'] };
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...publicKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', ...members };
  const stub = await startStub((_, response) => {
    if (!state.isUp) return sendJson(response, 503, {}, { 'retry-after': '0' });
    const keys = state.keyIds.map((kid) => ({ ...jwk, kid }));
    return sendJson(response, 200, { keys: [...keys, { kty: 'EC', kid: 'other' }] }, state.headers);
  });
  /** A signed callback. */
  const forge = ({
    keyId = 'own',
    kind = 'reverse_sms',
    body = '{"check_id":"01a1debb-088a-72d0-82af-11de1aae5598","status":"COMPLETED","match":true}',
    date = new Date().toUTCString(),
    components = COMPONENTS,
    algorithm = 'rsa-sha256',
    host = 'backend.example',
  } = {}) => {
    const digest = `SHA-256=${createHash('sha256').update(body).digest('base64')}`;
    const signedHeaders = { host, date, 'x-service-callback': kind, digest };
    const values = { '(request-target)': 'post /callbacks', ...signedHeaders };
    const text = components.split(' ').map((name) => `${name}: ${values[name]}`);
    const signature = sign('rsa-sha256', Buffer.from(text.join('\n')), privateKey).toString('base64');
    const authorization = `Signature keyId="${keyId}",algorithm="${algorithm}",headers="${components}",signature="${signature}"`;
    const headers = Object.entries({ ...signedHeaders, authorization }).flat();
    return { method: 'POST', target: '/callbacks', headers, body: Buffer.from(body) };
  };
  return { ...stub, state, forge };
}
