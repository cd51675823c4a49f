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
  await page.getByRole('region', { name: 'By country and network' }).getByRole('table').waitFor();
  await visitor.inspect('overview-no-match');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused.').waitFor();
});

consoleTest('overview shows how far verifications got', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const create = async (phone_number) => {
    const response = await backend.call('verification', '/v1/verifications', { phone_number, methods: ['reverse_sms'] });
    assert.equal(response.status, 201);
    return response.json();
  };
  const { url: verifiedPage, next_step: step } = await create('+990123456704');
  await page.goto(verifiedPage);
  await backend.sendSms('+990123456704', step);
  await page.getByRole('heading', { name: 'Number confirmed' }).waitFor();
  const { url: givenUpPage } = await create('+990123456706');
  await page.goto(givenUpPage);
  await page.getByRole('link', { name: 'I can’t send a text' }).click();
  await page.getByRole('button', { name: 'Stop without confirming' }).click();
  await page.getByRole('heading', { name: 'Number not confirmed' }).waitFor();
  await create('+990123456708');

  await visitor.enterDemo();
  await visitor.choose('Project', 'Overview');
  const funnel = page.getByRole('region', { name: 'Funnel' });
  await visitor.reloadUntilSeen(funnel.getByText('1 gave up'));
  const stages = await funnel.locator('.name').allTextContents();
  assert.deepEqual(stages, ['Created', 'Page opened', 'SMS shown', 'SMS sent', 'Verified']);
  await visitor.inspect('overview-verifications');
  await page.getByRole('link', { name: 'Checks', exact: true }).last().click();
  await page.getByRole('combobox', { name: 'Product' }).waitFor();

  await visitor.choose('Project', 'Checks');
  await page.getByRole('row', { name: /given_up/ }).getByRole('link').first().click();
  await page.getByText('On a computer or another device.').waitFor();
  await visitor.inspect('verification-timeline');
});

consoleTest('overview shows a custom period without JavaScript', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.locator('summary', { hasText: 'Custom period' }).click();
  await page.getByLabel('From, UTC').fill('2026-01-01T00:00');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.waitForURL(/overview\?view=\w+&span=custom&/);
  await page.getByLabel('From, UTC').waitFor();
}, { javaScriptEnabled: false });
