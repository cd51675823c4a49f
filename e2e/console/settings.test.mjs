// Parts of a project's settings, each saved on its own.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

async function openSettings(visitor) {
  await visitor.enterDemo();
  await visitor.choose('Project', 'Settings');
  return visitor.page.getByRole('region', { name: 'Callbacks' });
}

consoleTest('part is saved in place, and other parts keep what is typed', async (visitor) => {
  const { page } = visitor;
  const callbacks = await openSettings(visitor);
  const address = page.url();
  const [url, save] = [callbacks.getByLabel('Callback URL for all products'), callbacks.getByRole('button')];
  await page.getByLabel('Prefix of the message').fill('UNSAVED');

  visitor.expectStatus(400);
  await url.fill('ftp://shop.example/');
  await save.click();
  await callbacks.getByRole('alert').getByText('No changes were saved.').waitFor();
  assert.equal(await url.inputValue(), 'ftp://shop.example/');
  assert.equal(await url.getAttribute('aria-invalid'), 'true');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'callbacks.url', 'focus is on the invalid field');
  await callbacks.getByText('scheme').waitFor();
  await visitor.inspect('settings-invalid');

  await url.fill('https://shop.example/callbacks');
  await save.click();
  await callbacks.getByText('Saved.').waitFor();
  assert.equal(await url.getAttribute('aria-invalid'), null);
  assert.equal(await page.getByLabel('Prefix of the message').inputValue(), 'UNSAVED');
  assert.equal(page.url(), address);

  const general = page.getByRole('region', { name: 'General' });
  await general.getByLabel('Name', { exact: true }).fill('Renamed');
  await general.getByRole('button', { name: 'Save' }).click();
  await general.getByText('Saved.').waitFor();
  await page.locator('.switcher summary').getByText('Renamed').waitFor();
  await page.getByLabel('Type “Renamed” to confirm').waitFor();

  await page.reload();
  assert.equal(await url.inputValue(), 'https://shop.example/callbacks');
  assert.equal(await page.getByLabel('Prefix of the message').inputValue(), '');
});

consoleTest('part is not saved while the server cannot be reached', async (visitor) => {
  const { page } = visitor;
  const callbacks = await openSettings(visitor);
  await callbacks.getByLabel('Callback URL for all products').fill('https://shop.example/callbacks');
  await page.route('**/settings', (route) => route.abort());
  await callbacks.getByRole('button').click();
  await callbacks.getByRole('alert').getByText('The server cannot be reached').waitFor();
  await page.unroute('**/settings');
  await callbacks.getByRole('button').click();
  await callbacks.getByText('Saved.').waitFor();
  assert.deepEqual(visitor.errors.splice(0), ['console error: Failed to load resource: net::ERR_FAILED']);
});

consoleTest('part is saved without JavaScript', async (visitor) => {
  const { page } = visitor;
  const callbacks = await openSettings(visitor);
  const url = callbacks.getByLabel('Callback URL for all products');
  await callbacks.getByText('Different URLs for single products').click();
  await callbacks.getByLabel('Discovery callback URL').fill('https://shop.example/discovery');
  visitor.expectStatus(400);
  await url.fill('shop.example');
  await callbacks.getByRole('button').click();
  await callbacks.getByRole('alert').waitFor();
  assert.equal(await url.inputValue(), 'shop.example');
  assert.equal(await callbacks.getByLabel('Discovery callback URL').inputValue(), 'https://shop.example/discovery');
  await url.fill('https://shop.example/callbacks');
  await callbacks.getByRole('button').click();
  await callbacks.getByText('Saved.').waitFor();
  assert.match(page.url(), /\/settings\?saved=callbacks#callbacks$/);
  assert.equal(await url.inputValue(), 'https://shop.example/callbacks');
}, { javaScriptEnabled: false });
