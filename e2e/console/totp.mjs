// Codes of an authenticator app, and the setup of a second factor.
import { createHmac } from 'node:crypto';
import { PASSWORD } from './browser.mjs';

/** The code of the current time step plus `offset` steps, by RFC 6238. */
export function totp(secret, offset = 0) {
  const bits = [...secret].map((symbol) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(symbol).toString(2).padStart(5, '0'));
  const key = Buffer.from(bits.join('').match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigInt64BE(BigInt(Math.floor(Date.now() / 30_000) + offset));
  const mac = createHmac('sha1', key).update(step).digest();
  const word = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff;
  return String(word % 1_000_000).padStart(6, '0');
}

/** Confirms the new second factor, and returns its secret. */
export async function confirmSetup(page, password = PASSWORD) {
  const secret = await page.getByLabel('Secret').textContent();
  await page.getByLabel('Code that the app shows').fill(totp(secret));
  await page.getByLabel('Current password').fill(password);
  await page.getByRole('button', { name: /^(Turn on|Replace)$/ }).click();
  return secret;
}
