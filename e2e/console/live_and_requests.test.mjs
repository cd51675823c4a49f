// Live page and request log of a project.
import assert from 'node:assert/strict';
import { Backend } from './backend.mjs';
import { consoleTest } from './browser.mjs';

const MATCHING = '+990123456700';
const OTHER = '+990123456701';

consoleTest('live page shows new checks and their conclusion without a reload', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Live');
  await page.getByRole('status').getByText('Live.').waitFor();
  await visitor.inspect('live-empty');
  await page.evaluate(() => { window.wasNotReloaded = true; });

  const check = await backend.createReverseSms({ phone_number: MATCHING, reference_id: 'order-7' });
  const row = page.getByRole('row', { name: 'order-7' });
  await row.getByText('open', { exact: true }).waitFor();
  await backend.sendSms(MATCHING, check);
  await row.getByText('match', { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => window.wasNotReloaded), true);
  const missed = await backend.createReverseSms({ phone_number: OTHER, reference_id: 'order-8' });
  await backend.sendSms(OTHER, missed);
  await page.getByRole('row', { name: 'order-8' }).getByText('no match').waitFor();
  await visitor.inspect('live');

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused.').waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('status').getByText('Live.').waitFor();
  await row.getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'Check match' }).waitFor();
});

consoleTest('rejected request is found by its id, without its secret values', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const secret = '0044 not a number 7700';
  const body = { phone_number: secret, reference_id: 'order-9' };
  const response = await backend.call('reverse_sms', '/v1/number-verification/reverse-sms-checks', body);
  assert.equal(response.status, 400);
  const { error_code } = await response.json();
  const request_id = response.headers.get('x-request-id');

  await visitor.enterDemo();
  await visitor.choose('Project', 'Requests');
  await visitor.reloadUntilSeen(page.getByRole('row', { name: request_id }));
  await visitor.inspect('requests');
  await page.getByLabel('Request id').fill(request_id);
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.getByRole('row', { name: request_id }).getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'Request' }).waitFor();
  await page.getByText(error_code).first().waitFor();
  await page.getByText('phone_number').first().waitFor();
  assert.ok(!(await page.content()).includes(secret));
  await visitor.inspect('request');
});
