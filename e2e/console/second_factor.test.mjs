// Second factor: setup with its QR code, sign-in with a code and with a recovery code.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { PASSWORD, consoleTest } from './browser.mjs';

/** The code of the current time step plus `offset` steps, by RFC 6238. */
function totp(secret, offset = 0) {
  const bits = [...secret].map((symbol) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(symbol).toString(2).padStart(5, '0'));
  const key = Buffer.from(bits.join('').match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigInt64BE(BigInt(Math.floor(Date.now() / 30_000) + offset));
  const mac = createHmac('sha1', key).update(step).digest();
  const word = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff;
  return String(word % 1_000_000).padStart(6, '0');
}

async function enterPassword(page, email) {
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Email address').fill(email);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Second factor' }).waitFor();
}

async function enterCode(page, code) {
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

consoleTest('user sets up a second factor and signs in with it', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { workspace_id } = ringtrue.workspace;
  const email = 'ada@example.com';
  const { url } = await ringtrue.run('console', 'link', '--member', email, '--workspace', workspace_id);
  await visitor.acceptInvitation(url);
  await page.goto('/console/account');
  await page.getByRole('link', { name: 'Set up' }).click();
  await page.getByRole('img', { name: 'QR code for your authenticator app' }).waitFor();
  await visitor.inspect('second-factor-setup');
  const secret = await page.getByLabel('Secret').textContent();
  await page.getByLabel('Code that the app shows').fill(totp(secret));
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
  await visitor.inspect('recovery-codes');
  const codes = await page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem').allTextContents();
  assert.equal(new Set(codes).size, 10);

  await enterPassword(page, email);
  await visitor.inspect('second-factor');
  visitor.expectStatus(401);
  await enterCode(page, codes[0].replaceAll(/[A-Z]/g, '2'));
  await page.getByRole('alert').waitFor();
  await visitor.inspect('second-factor-refused');
  // The code of the next step: the setup used the one of this step.
  await enterCode(page, totp(secret, 1));
  await page.getByRole('button', { name: 'Sign out' }).waitFor();

  await enterPassword(page, email);
  await enterCode(page, codes[4]);
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await page.goto('/console/account');
  await page.getByText('Unused recovery codes: 9').waitFor();
  await visitor.inspect('account-with-second-factor');
  await page.getByLabel('Code, or a recovery code').fill(codes[5]);
  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByText('Second factor turned off.').waitFor();
});
