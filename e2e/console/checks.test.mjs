// Checks on the simulated handset, and what becomes of their callbacks.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { journey } from './browser.mjs';
import { startReceiver } from './receiver.mjs';

const MATCHING = '+990123456700';
let receiver;

before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.stop());

journey('a Reverse SMS check is texted, called back, and sent again', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Checks');
  await visitor.look('checks-empty');
  await visitor.choose('Project', 'Handset');
  await visitor.look('handset');
  await page.getByLabel('Product').selectOption('Reverse SMS');
  await page.getByLabel('Phone number').fill(MATCHING);
  await page.getByLabel('Reference').fill('order-1');
  await page.getByLabel('Callback URL').fill(receiver.url);
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.getByRole('heading', { name: 'New message' }).waitFor();
  await visitor.look('handset-message');
  await page.getByRole('button', { name: 'Send' }).click();

  const callback = await receiver.next();
  assert.equal(callback.body.status, 'COMPLETED');
  assert.equal(callback.body.match, true);
  assert.match(callback.headers.authorization, /^Signature keyId=/);

  await visitor.reloadUntilSeen(page.getByText('delivered'));
  await visitor.look('check');
  await page.locator('summary', { hasText: 'Attempt 1' }).click();
  await page.getByText('"match":true').first().waitFor();
  await visitor.look('check-attempt');
  await page.getByRole('button', { name: 'Send the callback again' }).click();
  const again = await receiver.next();
  assert.deepEqual(again.body, callback.body);
  await visitor.reloadUntilSeen(page.locator('summary', { hasText: 'Attempt 2' }));

  await visitor.choose('Project', 'Checks');
  await page.getByLabel('Search Reverse SMS checks').fill('reference_id==order-*;verified==true');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('row', { name: 'order-1' }).getByText('COMPLETED').waitFor();
  await visitor.look('checks');
  visitor.expectRefusal(400);
  await page.getByLabel('Search Reverse SMS checks').fill('status==NONE');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('alert').waitFor();
  await visitor.look('checks-fault');
});

for (const [product, result] of [['Secure SNA', 'match'], ['Discovery', 'number …00']]) {
  const name = product.toLowerCase().replace(' ', '-');
  journey(`a ${product} check is opened on the handset, and its code redeemed`, async (visitor) => {
    const { page } = visitor;
    await visitor.enterDemo();
    await visitor.choose('Project', 'Handset');
    await page.getByLabel('Product').selectOption(product);
    await page.getByLabel('Phone number').fill(MATCHING);
    await page.getByRole('button', { name: 'Create check' }).click();
    await page.getByRole('heading', { name: 'Open the check’s URL' }).waitFor();
    await visitor.look(`handset-${name}`);
    await page.getByRole('button', { name: 'Open the URL' }).click();
    await page.getByRole('list', { name: 'Hops of the device' }).waitFor();
    await visitor.look(`handset-${name}-opened`);
    await page.getByRole('button', { name: 'Redeem' }).click();
    await page.getByRole('heading', { level: 1, name: 'COMPLETED' }).getByText(result).waitFor();
    await visitor.look(`check-${name}`);
  });
}

journey('a check’s URL opens in another tab as well', async (visitor) => {
  const { page, context } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
  await page.getByLabel('Product').selectOption('Secure SNA');
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.locator('summary', { hasText: 'Or open it in a browser of yours' }).click();
  const opened = context.waitForEvent('page');
  await page.getByRole('button', { name: 'Open in a new tab' }).click();
  const device = await opened;
  const code = await device.getByLabel('Code').textContent();
  await device.close();
  await page.getByLabel('Code').fill(code.trim());
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByRole('heading', { level: 1, name: 'COMPLETED' }).waitFor();
});

journey('a SIM that was swapped shows in a SIM Swap check', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
  await page.getByLabel('Number', { exact: true }).fill(MATCHING);
  await page.getByRole('button', { name: 'Swap', exact: true }).click();
  await page.getByRole('button', { name: `Put back the first SIM of ${MATCHING}` }).waitFor();
  await page.getByLabel('Product').selectOption('SIM Swap');
  await page.getByLabel('Phone number').fill(MATCHING);
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.getByRole('heading', { name: 'SIM Swap COMPLETED' }).waitFor();
  await visitor.look('handset-sim-swap');
});
