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
  // As on a phone: without a QR code.
  await page.frameLocator('iframe').getByRole('button', { name: 'Confirm this phone' }).waitFor();
  await visitor.inspect('handset-verification');
  await page.getByRole('link', { name: 'View verification' }).click();
  await page.getByRole('heading', { level: 1, name: 'Verification' }).waitFor();
});

consoleTest('newcomer chooses a language', async (visitor) => {
  const { page } = visitor;
  await start(visitor);
  const tabs = page.getByRole('navigation', { name: 'Tools' });
  await tabs.locator('[aria-current=page]', { hasText: 'Command line' }).waitFor();
  for (const [title, name] of [['curl', 'curl'], ['Node.js', 'node'], ['Python', 'python'], ['Go', 'go']]) {
    await tabs.getByRole('link', { name: title, exact: true }).click();
    await tabs.locator('[aria-current=page]', { hasText: title }).waitFor();
    await visitor.inspect(`getting-started-${name}`);
  }
});

// In projects other than the demo, the page has the id of the credential, and a form for another one.
consoleTest('newcomer creates a credential in the chosen tab', async (visitor, ringtrue) => {
  const { page } = visitor;
  await visitor.enterDemo();
  const tabs = page.getByRole('navigation', { name: 'Tools' });
  const { workspace_id } = ringtrue.workspace;
  await page.goto(`/console/workspaces/${workspace_id}/new-project`);
  await page.getByLabel('Name').fill('Kiosk in the arrivals hall, beside the car rental');
  await page.getByRole('button', { name: 'Create project' }).click();
  const client_id = await page.locator('#new-client-id').textContent();
  await page.getByRole('link', { name: 'Getting started' }).first().click();
  await tabs.getByRole('link', { name: 'Python', exact: true }).click();
  const setup = page.locator('#setup-commands');
  await setup.getByText(client_id).waitFor();
  await visitor.inspect('getting-started-credential');
  await page.getByRole('button', { name: 'Create a credential' }).click();
  await page.getByText('Its secret is shown only once').waitFor();
  await tabs.locator('[aria-current=page]', { hasText: 'Python' }).waitFor();
  assert.match(await setup.textContent(), /RINGTRUE_CLIENT_SECRET=rts_/);
  await visitor.inspect('getting-started-secret');
  await page.reload();
  await setup.getByText('PASTE THE CLIENT SECRET').waitFor();
});

consoleTest('tabs work without JavaScript', async (visitor) => {
  const { page } = visitor;
  await start(visitor);
  const tabs = page.getByRole('navigation', { name: 'Tools' });
  await tabs.getByRole('link', { name: 'Go', exact: true }).click();
  await tabs.locator('[aria-current=page]', { hasText: 'Go' }).waitFor();
  assert.match(await page.locator('#verify-commands').textContent(), /^package main/);
}, { javaScriptEnabled: false });
