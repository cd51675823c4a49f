// The first page of a new deployment: a check of each product, from its button to its result.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

/** Opens the page to which the sign-in link of `ringtrue dev` leads. */
async function start(visitor) {
  await visitor.enterDemo();
  await visitor.choose('Project', 'Getting started');
}

async function expectOutcome(page, text) {
  await page.getByRole('heading', { name: /^Check/ }).getByText(text, { exact: true }).waitFor();
}

consoleTest('newcomer tries each product in the browser', async (visitor) => {
  const { page } = visitor;
  await start(visitor);
  await visitor.inspect('getting-started');

  await page.getByRole('button', { name: 'Try Reverse SMS' }).click();
  await page.getByRole('heading', { name: 'New message' }).waitFor();
  // A reload neither asks nor creates another check.
  const message = await page.getByLabel('Message', { exact: true }).inputValue();
  await page.reload();
  assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), message);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await visitor.reloadUntilSeen(page.locator('h1 .badge.match'));

  for (const [product, outcome] of [['Secure SNA', 'match'], ['Discovery', 'number found']]) {
    await start(visitor);
    await page.getByRole('button', { name: `Try ${product}` }).click();
    await page.getByRole('button', { name: 'Open URL' }).click();
    await page.getByRole('list', { name: 'Redirects' }).waitFor();
    await visitor.inspect(`handset-${product.toLowerCase().replace(' ', '-')}`);
    await page.getByRole('button', { name: 'Redeem' }).click();
    await expectOutcome(page, outcome);
  }

  await start(visitor);
  await page.getByRole('button', { name: 'Try SIM Swap' }).click();
  await page.getByText('SIM not changed in the last 7 days').waitFor();
  await page.getByRole('link', { name: 'View check' }).click();
  await expectOutcome(page, 'no SIM change');

  await start(visitor);
  await page.getByRole('button', { name: 'Try Eligibility' }).click();
  await page.getByText('A verification uses Secure SNA, then Reverse SMS.').waitFor();

  await start(visitor);
  await page.getByRole('button', { name: 'Start a verification' }).click();
  await page.frameLocator('iframe').getByRole('heading').first().waitFor();
  await visitor.inspect('handset-verification');
  await page.getByRole('link', { name: 'View verification' }).click();
  await page.getByRole('heading', { level: 1, name: 'Verification' }).waitFor();
});
