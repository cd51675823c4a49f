// What people see of a project while its backend works.
import assert from 'node:assert/strict';
import { Backend } from './backend.mjs';
import { journey } from './browser.mjs';

const MATCHING = '+990123456700';
const OTHER = '+990123456701';

journey('a new check shows by itself, and so does its end', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Live');
  await page.getByRole('status').getByText('Live.').waitFor();
  await visitor.look('live-empty');
  await page.evaluate(() => { window.wasNotLoadedAgain = true; });

  const check = await backend.createReverseSms({ phone_number: MATCHING, reference_id: 'order-7' });
  const row = page.getByRole('row', { name: 'order-7' });
  await row.getByText('ACCEPTED').waitFor();
  await backend.text(MATCHING, check);
  await row.getByText('COMPLETED').waitFor();
  assert.equal(await page.evaluate(() => window.wasNotLoadedAgain), true);
  const missed = await backend.createReverseSms({ phone_number: OTHER, reference_id: 'order-8' });
  await backend.text(OTHER, missed);
  await page.getByRole('row', { name: 'order-8' }).getByText('no match').waitFor();
  await visitor.look('live');

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused.').waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('status').getByText('Live.').waitFor();
  await row.getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'COMPLETED' }).waitFor();
});

journey('a rejected request is found by its id, and nothing secret with it', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const secret = '0044 not a number 7700';
  const body = { phone_number: secret, reference_id: 'order-9' };
  const answer = await backend.call('reverse_sms', '/v1/number-verification/reverse-sms-checks', body);
  assert.equal(answer.status, 400);
  const { error_code } = await answer.json();
  const request_id = answer.headers.get('x-request-id');

  await visitor.enterDemo();
  await visitor.choose('Project', 'Requests');
  await visitor.reloadUntilSeen(page.getByRole('row', { name: request_id }));
  await visitor.look('requests');
  await page.getByLabel('Request id').fill(request_id);
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('row', { name: request_id }).getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'Request' }).waitFor();
  await page.getByText(error_code).first().waitFor();
  await page.getByText('phone_number').first().waitFor();
  assert.ok(!(await page.content()).includes(secret));
  await visitor.look('request');
});
