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

// A PNG image of 4 × 2 pixels.
const LOGO = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAQAAAACCAIAAADwyuo0AAAAEElEQVR4nGPgT86GIwZkDgBXAgbpD3BjZgAAAABJRU5ErkJggg==',
  'base64',
);
/** Waits until the logo is shown, and returns its URL. An image that is not loaded has no size. */
async function shownLogo(frame) {
  const image = frame.locator('header img');
  await image.waitFor({ state: 'visible' });
  return image.getAttribute('src');
}

consoleTest('logo file is previewed, saved and removed', async (visitor) => {
  const { page } = visitor;
  const frame = await openSettings(visitor);
  await brand(frame, 'First project');
  const part = page.getByRole('region', { name: 'Hosted page' });
  const [file, url] = [part.getByLabel('Logo file'), part.getByLabel('Logo URL')];
  const save = part.getByRole('button', { name: 'Save hosted page settings' });
  const entries = await page.evaluate(() => history.length);

  await file.setInputFiles({ name: 'logo.png', mimeType: 'image/png', buffer: LOGO });
  assert.match(await shownLogo(frame), /^data:image\/png;base64,/);
  await part.getByLabel('Name on the page').fill('Nordwind');
  await brand(frame, 'Nordwind');
  assert.match(await shownLogo(frame), /^data:/, 'the file is still chosen');
  await visitor.inspect('settings-logo');
  await page.getByLabel('State', { exact: true }).selectOption({ label: 'Confirmed' });
  await heading(frame, 'Number confirmed');
  assert.equal(await page.evaluate(() => history.length), entries, 'no entries in the history');

  await save.click();
  await part.getByText('Saved.').waitFor();
  assert.match(await url.inputValue(), /^http:\/\/.*\/logos\/.*\.png$/);
  await frame.locator('header img[src^="/logos/"]').waitFor();
  assert.equal(await url.inputValue(), new URL(await shownLogo(frame), page.url()).href);
  await page.reload();
  await shownLogo(frame);

  visitor.expectStatus(400);
  await file.setInputFiles({ name: 'logo.svg', mimeType: 'image/png', buffer: Buffer.from('<svg/>') });
  await save.click();
  await part.getByText('SVG images may contain scripts').waitFor();
  await visitor.inspect('settings-logo-invalid');

  await url.fill('');
  await frame.locator('header:not(:has(img))').waitFor();
  await part.getByLabel('Name on the page').fill('');
  await file.setInputFiles([]);
  await save.click();
  await part.getByText('Saved.').waitFor();
  await page.reload();
  await brand(frame, 'First project');
  assert.equal(await frame.locator('header img').count(), 0);
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
  const part = await page.evaluate(() => document.activeElement.closest('section').id);
  assert.equal(part, 'sign-in', 'one stop in the frame');
});

consoleTest('preview shows the saved brand without JavaScript', async (visitor) => {
  const { page } = visitor;
  const frame = await openSettings(visitor);
  await brand(frame, 'First project');
  assert.equal(await page.getByLabel('State', { exact: true }).isVisible(), false);
  await page.getByLabel('Name on the page').fill('Nordwind');
  await page.getByLabel('Accent colour').fill('#d64a1f');
  await page.getByLabel('Logo file').setInputFiles({ name: 'logo.png', mimeType: 'image/png', buffer: LOGO });
  await page.getByRole('button', { name: 'Save hosted page settings' }).click();
  await page.getByText('Saved.').waitFor();
  await brand(frame, 'Nordwind');
  await shownLogo(frame);
  assert.equal(await accent(frame), '#d64a1f');
}, { javaScriptEnabled: false });
