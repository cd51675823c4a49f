// Checks on the simulated handset, and their callbacks.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { consoleTest } from './browser.mjs';
import { startReceiver } from './receiver.mjs';

const MATCHING = '+990123456700';
let receiver;

before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.stop());

consoleTest('Reverse SMS check completes, and its callback is delivered and resent', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Checks');
  await visitor.inspect('checks-empty');
  await visitor.choose('Project', 'Handset');
  await visitor.inspect('handset');
  await page.getByLabel('Product').selectOption('Reverse SMS');
  await page.getByLabel('Phone number').fill(MATCHING);
  await page.getByLabel('Reference').fill('order-1');
  await page.getByLabel('Callback URL').fill(receiver.url);
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.getByRole('heading', { name: 'New message' }).waitFor();
  await visitor.inspect('handset-message');
  await page.getByRole('button', { name: 'Send' }).click();

  const callback = await receiver.next();
  assert.equal(callback.body.status, 'COMPLETED');
  assert.equal(callback.body.match, true);
  assert.match(callback.headers.authorization, /^Signature keyId=/);

  await visitor.reloadUntilSeen(page.getByText('delivered'));
  await visitor.inspect('check');
  await page.locator('summary', { hasText: 'Attempt 1' }).click();
  await page.getByText('"match":true').first().waitFor();
  await visitor.inspect('check-attempt');
  await page.getByRole('button', { name: 'Resend callback' }).click();
  const again = await receiver.next();
  assert.deepEqual(again.body, callback.body);
  await visitor.reloadUntilSeen(page.locator('summary', { hasText: 'Attempt 2' }));

  await visitor.choose('Project', 'Checks');
  await page.getByRole('navigation', { name: 'Products' }).getByRole('link', { name: 'Reverse SMS' }).click();
  await page.getByText('Advanced search').click();
  await page.getByLabel('Search expression').fill('reference_id==order-*;verified==true');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('row', { name: 'order-1' }).getByText('match').waitFor();
  await visitor.inspect('checks');
  visitor.expectStatus(400);
  await page.getByLabel('Search expression').fill('status==NONE');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('alert').waitFor();
  await visitor.inspect('checks-fault');
});

for (const [product, result] of [['Secure SNA', 'match'], ['Discovery', 'number found']]) {
  const name = product.toLowerCase().replace(' ', '-');
  consoleTest(`${product} check is opened on the handset and its code redeemed`, async (visitor) => {
    const { page } = visitor;
    await visitor.enterDemo();
    await visitor.choose('Project', 'Handset');
    await page.getByLabel('Product').selectOption(product);
    await page.getByLabel('Phone number').fill(MATCHING);
    await page.getByRole('button', { name: 'Create check' }).click();
    await page.getByRole('heading', { name: 'Open the check URL' }).waitFor();
    await visitor.inspect(`handset-${name}`);
    await page.getByRole('button', { name: 'Open URL' }).click();
    await page.getByRole('list', { name: 'Redirects' }).waitFor();
    await visitor.inspect(`handset-${name}-opened`);
    await page.getByRole('button', { name: 'Redeem' }).click();
    await page.getByRole('heading', { level: 1, name: `Check ${result}` }).waitFor();
    await visitor.inspect(`check-${name}`);
  });
}

consoleTest('check URL opens in a new tab', async (visitor) => {
  const { page, context } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
  await page.getByLabel('Product').selectOption('Secure SNA');
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.locator('summary', { hasText: 'Open in your own browser' }).click();
  const opened = context.waitForEvent('page');
  await page.getByRole('button', { name: 'Open in a new tab' }).click();
  const device = await opened;
  const code = await device.getByLabel('Code').textContent();
  await device.close();
  await page.getByLabel('Code').fill(code.trim());
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByRole('heading', { level: 1, name: 'Check match' }).waitFor();
});

consoleTest('SIM Swap check reports a swapped SIM', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
  await page.getByLabel('Number', { exact: true }).fill(MATCHING);
  await page.getByRole('button', { name: 'Swap', exact: true }).click();
  await page.getByRole('button', { name: `Restore the original SIM of ${MATCHING}` }).waitFor();
  await page.getByLabel('Product').selectOption('SIM Swap');
  await page.getByLabel('Phone number').fill(MATCHING);
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.getByRole('heading', { name: 'SIM Swap COMPLETED' }).waitFor();
  await visitor.inspect('handset-sim-swap');
});
