// Verifies callbacks with the npm package `http-signature`.
//
// Reads {"keys": [JWK...], "requests": [{"method", "target", "headers", "body"}...]} from standard input; bodies are in
// base64. Writes an array with `null` for each valid request, otherwise the reason.

import { createHash, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import httpSignature from 'http-signature';

const { keys, requests } = JSON.parse(readFileSync(0, 'utf8'));
const COVERED = ['(request-target)', 'host', 'date', 'x-service-callback', 'digest'];

function findError({ method, target, headers, body }) {
  const parsed = httpSignature.parseRequest(
    { method, url: target, headers },
    { headers: COVERED, algorithms: ['rsa-sha256'], clockSkew: Number.MAX_SAFE_INTEGER },
  );
  const jwk = keys.find((key) => key.kid === parsed.keyId);
  if (!jwk) return 'unknown key';
  const pem = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  if (!httpSignature.verifySignature(parsed, pem)) return 'signature';
  const digest = `SHA-256=${createHash('sha256').update(Buffer.from(body, 'base64')).digest('base64')}`;
  return headers.digest === digest ? null : 'digest';
}

const verdicts = requests.map((request) => {
  try {
    return findError(request);
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
});
process.stdout.write(JSON.stringify(verdicts));
