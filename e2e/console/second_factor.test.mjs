// Second factor: setup with its QR code, sign-in with a code and with a recovery code.
import assert from 'node:assert/strict';
import { PASSWORD, consoleTest } from './browser.mjs';
import { confirmSetup, totp } from './totp.mjs';

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

async function readRecoveryCodes(visitor) {
  const { page } = visitor;
  await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
  await visitor.inspect('recovery-codes');
  const codes = await page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem').allTextContents();
  assert.equal(new Set(codes).size, 10);
  return codes;
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
  visitor.expectStatus(400);
  await confirmSetup(page, 'wrong password');
  await page.getByText('The current password is wrong.').waitFor();
  await visitor.inspect('second-factor-setup-refused');
  const secret = await confirmSetup(page, PASSWORD);
  const codes = await readRecoveryCodes(visitor);
  await page.getByRole('link', { name: 'Continue' }).click();
  await page.getByText('Unused recovery codes: 10').waitFor();

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
  await page.getByRole('link', { name: 'Replace app or recovery codes' }).click();
  await page.getByLabel('Code of the current second factor, or a recovery code').fill(codes[5]);
  await visitor.inspect('second-factor-replacement');
  await confirmSetup(page, PASSWORD);
  const newCodes = await readRecoveryCodes(visitor);
  await page.getByRole('link', { name: 'Continue' }).click();
  await page.getByLabel('Code, or a recovery code').fill(newCodes[0]);
  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByText('Second factor turned off.').waitFor();
});
