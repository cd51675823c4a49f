// Preview of the hosted page in the settings of a project.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

async function openSettings(visitor) {
  await visitor.enterDemo();
  await visitor.choose('Project', 'Settings');
  return visitor.page.frameLocator('iframe[title="Preview of the hosted page"]');
}

const heading = (frame, name) => frame.getByRole('heading', { level: 1, name }).waitFor();
/** The accent colour is in the style sheet. Scripts of tests cannot read computed styles in the sandbox. */
const accent = async (frame) => (await frame.locator('style').last().textContent()).match(/--accent:(#\w+)/)[1];
const brand = (frame, name) => frame.locator('header').getByText(name, { exact: true }).waitFor();

consoleTest('preview follows the form, and saves nothing', async (visitor) => {
  const { page } = visitor;
  const frame = await openSettings(visitor);
  await heading(frame, 'Confirm your phone number');
  await brand(frame, 'First project');
  const entries = await page.evaluate(() => history.length);

  await page.getByLabel('Name on the page').pressSequentially('Nordwind <b>');
  await brand(frame, 'Nordwind <b>');
  await page.getByLabel('Accent colour').fill('#d64a1f');
  await page.getByLabel('Support URL').fill('https://shop.example/help');
  await frame.getByRole('link', { name: 'Need help?' }).waitFor();
  assert.equal(await accent(frame), '#d64a1f');
  await visitor.inspect('settings-preview');

  const states = page.getByLabel('State', { exact: true });
  for (const [state, title] of [
    ['Send a text', 'Send us a text message'],
    ['Text received', 'We received a message'],
    ['Confirmed', 'Number confirmed'],
    ['Not confirmed', 'Number not confirmed'],
    ['Expired', 'This link has expired'],
  ]) {
    await states.selectOption({ label: state });
    await heading(frame, title);
  }
  await states.selectOption({ label: 'Send a text' });
  const languages = page.getByLabel('Language', { exact: true });
  assert.equal(await languages.getByRole('option').count(), 20);
  await languages.selectOption({ label: 'Deutsch' });
  await heading(frame, 'Senden Sie uns eine SMS');
  await brand(frame, 'Nordwind <b>');
  await visitor.inspect('settings-preview-sms');
  await languages.selectOption({ label: 'العربية' });
  await frame.locator('html[dir=rtl]').waitFor();

  // Without a name of its own, the page shows the project's. A colour that is not valid is not used.
  await languages.selectOption({ label: 'English' });
  await page.getByLabel('Accent colour').fill('#d64a');
  await page.getByLabel('Name on the page').fill('');
  await page.getByLabel('Name', { exact: true }).fill('Renamed');
  await brand(frame, 'Renamed');
  assert.equal(await accent(frame), '#0f6b63', 'the default');
  assert.equal(await page.evaluate(() => history.length), entries, 'no entries in the history');

  await visitor.choose('Project', 'Settings');
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'First project');
  assert.equal(await page.getByLabel('Accent colour').inputValue(), '');
  await brand(frame, 'First project');
  assert.equal(await accent(frame), '#0f6b63');
});

consoleTest('preview is scrolled by keyboard', async (visitor) => {
  const { page } = visitor;
  const frame = await openSettings(visitor);
  await page.getByLabel('State', { exact: true }).selectOption({ label: 'Send a text' });
  await heading(frame, 'Send us a text message');
  await page.getByLabel('Language', { exact: true }).focus();
  await page.keyboard.press('Tab');
  await frame.locator('summary:focus-visible').waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'callbacks.retry_for', 'one stop in the frame');
});

consoleTest('preview shows the saved brand without JavaScript', async (visitor) => {
  const { page } = visitor;
  const frame = await openSettings(visitor);
  await brand(frame, 'First project');
  assert.equal(await page.getByLabel('State', { exact: true }).isVisible(), false);
  await page.getByLabel('Name on the page').fill('Nordwind');
  await page.getByLabel('Accent colour').fill('#d64a1f');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  await brand(frame, 'Nordwind');
  assert.equal(await accent(frame), '#d64a1f');
}, { javaScriptEnabled: false });
