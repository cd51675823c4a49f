// The hosted page in the phone of the console's handset, and a SIM that is swapped there.
import assert from 'node:assert/strict';
import { DEVICES, MOBILE_DATA, nextNumber, open, pageTest } from './browser.mjs';

async function openHandset(page, { base_url, workspace, project }) {
  await page.goto(`${base_url}/console/workspaces/${workspace.workspace_id}/projects/${project.project_id}/handset`);
}

async function createVerification(page, number) {
  await page.getByLabel('Product').selectOption('Verification');
  await page.getByLabel('Phone number').fill(number);
  await page.getByRole('button', { name: 'Create check' }).click();
  return page.frameLocator('iframe.hosted-page');
}

pageTest('handset: silent check, text message, swapped SIM', DEVICES.computer, async (user) => {
  const { page, context, shop, ringtrue } = user;
  await shop.configure({ redirect_url: `${shop.origin}/back?cart=2`, brand: { name: 'Nordwind' } });
  await page.goto(ringtrue.console_link);
  await openHandset(page, ringtrue);

  // The frame does not leave for another site: a link opens it in another tab.
  let phone = await createVerification(page, nextNumber());
  await phone.getByRole('heading', { name: 'Almost done' }).waitFor();
  const [shopTab] = await Promise.all([
    context.waitForEvent('page'),
    phone.getByRole('link', { name: 'Back to Nordwind' }).click(),
  ]);
  await shopTab.getByRole('heading', { name: 'Welcome' }).waitFor();
  assert.equal(shop.results.at(-1).method, 'secure_sna');
  await phone.getByRole('heading', { name: 'Number confirmed' }).waitFor();
  assert.equal(await phone.getByRole('link', { name: 'Back to Nordwind' }).count(), 0, 'no second code');

  await shop.configure({ redirect_url: null });
  phone = await createVerification(page, nextNumber());
  await phone.getByRole('button', { name: 'Try another way' }).click();
  await phone.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  await page.getByRole('button', { name: 'Send SMS' }).click();
  await page.getByRole('definition').filter({ hasText: 'COMPLETED' }).waitFor();

  const number = nextNumber();
  await openHandset(page, ringtrue);
  await page.getByLabel('Number', { exact: true }).fill(number);
  await page.getByLabel('Time').selectOption('just now');
  await page.getByRole('button', { name: 'Swap', exact: true }).click();
  await page.getByRole('button', { name: `Restore the original SIM of ${number}` }).waitFor();
  const walk = { page: await context.newPage(), shop, address: MOBILE_DATA };
  await open(walk, { phone_number: number, sim_swap_period: 1440 });
  await walk.page.getByRole('heading', { name: 'Welcome' }).waitFor();
  const { match, no_sim_change, steps } = shop.results.at(-1);
  assert.deepEqual([match, no_sim_change, steps.at(-1).method], [true, false, 'sim_swap']);
});

pageTest('SIM Swap on completion, of an operator that cannot answer', {
  ...DEVICES.android, address: MOBILE_DATA,
}, async (user) => {
  // No operator answers a question that the project may not ask.
  await user.shop.setProducts(['verification', 'secure_sna', 'reverse_sms']);
  await open(user, { sim_swap_period: 1440 });
  await user.page.getByRole('heading', { name: 'Welcome' }).waitFor();
  const result = user.shop.results.at(-1);
  assert.deepEqual([result.match, 'no_sim_change' in result], [true, false]);
  assert.deepEqual([result.steps.at(-1).method, result.steps.at(-1).error_code], ['sim_swap', 'mno_not_supported']);
});
