// Prints webhook requests of SMS vendors as JSON lines, signed or verified by the vendors' own libraries.
//
// twilio and @sinch/sdk-client can sign. telnyx, plivo and messagebird can only verify: here this script signs with
// node:crypto, and the vendor's library verifies the result.
//
// Run by crates/operators/tests/sms_http_vendors.rs.

import crypto from 'node:crypto';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const twilio = require('twilio');
const plivo = require('plivo');
const messagebird = require('messagebird/lib/webhook-signature-jwt');
const { Telnyx } = require('telnyx');
// Imported by file: the package does not load without an undeclared dependency.
const sinch = require('../node_modules/@sinch/sdk-client/dist/utils/authorization.helper.js');

const ORIGIN = 'https://nv.example.com';
const TOKEN = 'a token of the account';
const FORM = 'application/x-www-form-urlencoded';
const seconds = Math.floor(Date.now() / 1000);
const texts = ['VERIFY 4F7K2Q9X0Z', 'Ověř 4F7K ✓ 😀', 'a&b=c+d %41 "quoted" it\'s', ''];

let count = 0;
const lines = [];

function write(vendor, request) {
  const { path, headers = {}, body = '', method = 'POST', text, key = TOKEN } = request;
  lines.push({ vendor, method, path, headers, body, text, key, at: seconds });
}

function check(vendor, isValid) {
  if (!isValid) throw new Error(`${vendor}: rejected by the vendor's library`);
}

const form = (fields) => new URLSearchParams(fields).toString();
const hmac = (text) => crypto.createHmac('sha256', TOKEN).update(text).digest('base64');

for (const text of texts) {
  count += 1;
  const id = `id-${count}`;

  const sms = { MessageSid: id, From: '+447700900001', To: '+447700900999', Body: text, NumMedia: '0' };
  for (const origin of [ORIGIN, `${ORIGIN}:443`]) {
    for (const path of ['/sms/door', '/sms/door?foo=1&bar=%2F']) {
      const signature = twilio.getExpectedTwilioSignature(TOKEN, origin + path, sms);
      check('twilio', twilio.validateRequest(TOKEN, signature, ORIGIN + path, sms));
      write('twilio', { path, headers: { 'content-type': FORM, 'x-twilio-signature': signature }, body: form(sms), text });
    }
  }
  const query = `/sms/door?${form(sms)}`;
  const ofQuery = twilio.getExpectedTwilioSignature(TOKEN, ORIGIN + query, {});
  write('twilio', { method: 'GET', path: query, headers: { 'x-twilio-signature': ofQuery }, text });
  const json = JSON.stringify(sms);
  const hashed = `/sms/door?bodySHA256=${crypto.createHash('sha256').update(json).digest('hex')}`;
  const ofHash = twilio.getExpectedTwilioSignature(TOKEN, ORIGIN + hashed, {});
  check('twilio', twilio.validateRequestWithBody(TOKEN, ofHash, ORIGIN + hashed, json));
  write('twilio', {
    path: hashed, headers: { 'content-type': 'application/json', 'x-twilio-signature': ofHash }, body: json, text,
  });

  const nonce = `nonce-${count}`;
  const mo = JSON.stringify({ type: 'mo_text', id, from: '447700900001', to: '447700900999', body: text });
  const sinchHeaders = {
    'content-type': 'application/json',
    'x-sinch-webhook-signature-version': 'v1.0',
    'x-sinch-webhook-signature-algorithm': 'HmacSHA256',
    'x-sinch-webhook-signature-nonce': nonce,
    'x-sinch-webhook-signature-timestamp': String(seconds),
    'x-sinch-webhook-signature': sinch.calculateWebhookSignature(
      sinch.computeSignedData(mo, nonce, String(seconds)), TOKEN,
    ),
  };
  check('sinch', sinch.validateWebhookSignature(TOKEN, sinchHeaders, mo));
  write('sinch', { path: '/sms/door', headers: sinchHeaders, body: mo, text });

  const fields = { From: '447700900001', To: '447700900999', Text: text, Type: 'sms', MessageUUID: id, Units: '1' };
  const second = hmac(`${ORIGIN}/sms/door${nonce}`);
  check('plivo 2', plivo.validateSignature(`${ORIGIN}/sms/door?a=1`, nonce, second, TOKEN));
  write('plivo 2', {
    path: '/sms/door?a=1',
    headers: { 'content-type': FORM, 'x-plivo-signature-v2': second, 'x-plivo-signature-v2-nonce': nonce },
    body: form(fields),
    text,
  });
  const sorted = Object.keys(fields).sort().map((name) => name + fields[name]).join('');
  for (const [path, signed] of [['/sms/door', '?'], ['/sms/door?b=2&a=1', '?a=1&b=2.']]) {
    const third = hmac(`${ORIGIN}/sms/door${signed}${sorted}.${nonce}`);
    check('plivo 3', plivo.validateV3Signature('POST', ORIGIN + path, nonce, TOKEN, third, fields));
    write('plivo 3', {
      path,
      headers: { 'content-type': FORM, 'x-plivo-signature-v3': third, 'x-plivo-signature-v3-nonce': nonce },
      body: form(fields),
      text,
    });
  }

  const inbound = { id, originator: '447700900001', recipient: '447700900999', body: text };
  for (const [alg, hash] of [['HS256', 'sha256'], ['HS384', 'sha384'], ['HS512', 'sha512']]) {
    for (const method of ['POST', 'GET']) {
      const path = method === 'GET' ? `/sms/door?${form(inbound)}` : '/sms/door?a=%2F';
      const body = method === 'GET' ? '' : form(inbound);
      const sha256 = (data) => crypto.createHash('sha256').update(data).digest('hex');
      const claims = {
        iss: 'MessageBird', iat: seconds, nbf: seconds, exp: seconds + 60, jti: `jti-${count}-${alg}-${method}`,
        url_hash: sha256(ORIGIN + path), ...(body ? { payload_hash: sha256(body) } : {}),
      };
      const part = (json) => Buffer.from(JSON.stringify(json)).toString('base64url');
      const signed = `${part({ alg, typ: 'JWT' })}.${part(claims)}`;
      const jwt = `${signed}.${crypto.createHmac(hash, TOKEN).update(signed).digest('base64url')}`;
      // Throws unless the signature is valid.
      await messagebird.verify(ORIGIN + path, Buffer.from(body), jwt, crypto.createSecretKey(Buffer.from(TOKEN)));
      const headers = { 'messagebird-signature-jwt': jwt, ...(body ? { 'content-type': FORM } : {}) };
      write('messagebird', { method, path, headers, body, text });
    }
  }

  const pair = crypto.generateKeyPairSync('ed25519');
  const key = Buffer.from(pair.publicKey.export({ format: 'jwk' }).x, 'base64url').toString('base64');
  const event = JSON.stringify({
    data: {
      event_type: 'message.received',
      id: `event-${count}`,
      payload: {
        id, text, from: { phone_number: '+447700900001' }, to: [{ phone_number: '+447700900999' }], type: 'SMS',
      },
    },
  });
  const headers = {
    'content-type': 'application/json',
    'telnyx-timestamp': String(seconds),
    'telnyx-signature-ed25519': crypto.sign(null, Buffer.from(`${seconds}|${event}`), pair.privateKey).toString('base64'),
  };
  // Throws unless the signature is valid.
  await new Telnyx({ apiKey: 'unused' }).webhooks.unwrap(event, { headers, key });
  write('telnyx', { path: '/sms/door', headers, body: event, text, key });
}

for (const line of lines) console.log(JSON.stringify(line));
