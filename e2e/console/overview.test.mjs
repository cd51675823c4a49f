// Overview page of a project.
import assert from 'node:assert/strict';
import { Backend } from './backend.mjs';
import { consoleTest } from './browser.mjs';

const MATCHING = '+990123456700';

consoleTest('overview counts checks', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const check = await backend.createReverseSms({ phone_number: MATCHING });
  await backend.sendSms(MATCHING, check);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Overview');
  await visitor.reloadUntilSeen(page.getByRole('heading', { name: 'Funnel' }));
  await visitor.inspect('overview');
  await page.locator('summary', { hasText: 'Show data table' }).first().click();
  await page.getByRole('region', { name: 'Checks' }).getByRole('table').first().waitFor();
  await visitor.inspect('overview-numbers');
});

consoleTest('overview updates by itself until it is paused', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  await visitor.enterDemo();
  await page.getByText('Updates by itself.').waitFor();
  await page.evaluate(() => { window.wasNotReloaded = true; });
  const count = async () => Number((await page.locator('.outcomes .no-match dd').innerText()).split(' ')[0]);
  const before = (await page.locator('.outcomes').count()) === 0 ? 0 : await count();
  const check = await backend.createReverseSms({ phone_number: '+990123456702' });
  await backend.sendSms('+990777777702', check);
  await page.locator('.outcomes .no-match dd', { hasText: String(before + 1) }).waitFor();
  assert.equal(await page.evaluate(() => window.wasNotReloaded), true);
  await page.getByRole('region', { name: 'By network' }).getByRole('table').waitFor();
  await visitor.inspect('overview-no-match');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused.').waitFor();
});

consoleTest('overview shows a custom period without JavaScript', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.locator('summary', { hasText: 'Custom period' }).click();
  await page.getByLabel('From, UTC').fill('2026-01-01T00:00');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.waitForURL('**/overview?span=custom&**');
  await page.getByLabel('From, UTC').waitFor();
}, { javaScriptEnabled: false });
