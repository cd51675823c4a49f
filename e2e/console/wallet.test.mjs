// The wallet of the simulated phone: the hosted page asks it on Wi-Fi.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

const MATCHING = '+990123456700';
const NO_MATCH = '+990123456701';

/** Creates a verification, and opens the wallet from its page on the phone. */
async function openWallet({ page }, number = MATCHING) {
  await page.getByLabel('Product').selectOption('Verification');
  await page.getByLabel('Phone number').fill(number);
  await page.locator('#connection').selectOption('Wi-Fi');
  await page.getByRole('button', { name: 'Create check' }).click();
  const phone = page.frameLocator('iframe.hosted-page');
  await phone.getByRole('button', { name: 'Confirm with this phone' }).click();
  const wallet = page.getByRole('dialog', { name: 'Share your number?' });
  await wallet.getByText('Ringtrue asks the simulated operator').waitFor();
  return { phone, wallet };
}

async function openHandset(visitor) {
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
}

const chosenSim = (wallet) => wallet.getByLabel('SIM', { exact: true }).inputValue();

consoleTest('wallet confirms the number, and the number of another SIM differs', async (visitor) => {
  const { page } = visitor;
  await openHandset(visitor);
  let { phone, wallet } = await openWallet(visitor);
  assert.equal(await chosenSim(wallet), MATCHING, 'the SIM of the phone comes first');
  await visitor.inspect('handset-wallet');
  await wallet.getByRole('button', { name: 'Confirm', exact: true }).click();
  await phone.getByRole('heading', { name: 'Number confirmed' }).waitFor();
  await page.getByText('The wallet has confirmed.').waitFor();

  ({ phone, wallet } = await openWallet(visitor, '+990123456788'));
  assert.equal(await chosenSim(wallet), '+990123456788');
  await wallet.getByLabel('SIM', { exact: true }).selectOption(NO_MATCH);
  await wallet.getByRole('button', { name: 'Confirm', exact: true }).click();
  await phone.getByRole('heading', { name: 'Number not confirmed' }).waitFor();
});

for (const [name, act, status] of [
  ['declines', (wallet) => wallet.getByRole('button', { name: 'Decline' }).click(), 'The wallet has declined.'],
  ['closes on Escape', (wallet) => wallet.press('Escape'), 'The wallet has declined.'],
  ['has no SIM', async (wallet) => {
    await wallet.getByLabel('SIM', { exact: true }).selectOption('No SIM in this phone');
    await wallet.getByRole('button', { name: 'Confirm', exact: true }).click();
  }, 'The wallet has no SIM.'],
  ['forges its answer', async (wallet) => {
    await wallet.getByText('Wallet faults').click();
    await wallet.getByRole('button', { name: 'Forge' }).click();
  }, 'The wallet has sent a forged answer.'],
]) {
  consoleTest(`wallet ${name}, and the page goes on with a text message`, async (visitor) => {
    await openHandset(visitor);
    const { phone, wallet } = await openWallet(visitor);
    await act(wallet);
    await visitor.page.getByText(status).waitFor();
    await wallet.waitFor({ state: 'hidden' });
    await phone.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  });
}

consoleTest('wallet hangs, and the phone changes to mobile data', async (visitor) => {
  const { page } = visitor;
  await openHandset(visitor);
  const { phone, wallet } = await openWallet(visitor);
  await wallet.getByText('Wallet faults').click();
  await visitor.inspect('handset-wallet-faults');
  await wallet.getByRole('button', { name: 'Hang' }).click();
  await page.getByText('The wallet does not answer.').waitFor();
  await wallet.waitFor({ state: 'hidden' });
  await page.locator('#page_connection').selectOption('Mobile data');
  await page.getByRole('button', { name: 'Reopen page' }).click();
  await phone.getByRole('button', { name: 'Confirm this phone' }).click();
  await phone.getByRole('heading', { name: 'Number confirmed' }).waitFor();
});

consoleTest('wallet of a SIM that never answers', async (visitor) => {
  await openHandset(visitor);
  visitor.expectStatus(400);
  const { wallet } = await openWallet(visitor, '+990123456798');
  await wallet.getByRole('button', { name: 'Confirm', exact: true }).click();
  await visitor.page.getByText('The wallet of this simulated phone never answers').waitFor();
  await wallet.waitFor({ state: 'hidden' });
});
