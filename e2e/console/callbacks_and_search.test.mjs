// Callbacks that fail, test callbacks, search, filters, credentials and usage.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before } from 'node:test';
import { Backend } from './backend.mjs';
import { consoleTest } from './browser.mjs';
import { startReceiver } from './receiver.mjs';

const MATCHING = '+990123456700';
/** Nothing listens on the port of the discard service. */
const CLOSED = 'http://127.0.0.1:9/callbacks';
let receiver;

before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.stop());

/** Downloads a file and returns its lines. */
async function download(page, name) {
  const started = page.waitForEvent('download');
  await page.getByRole('link', { name }).click();
  const file = await started;
  return { name: file.suggestedFilename(), lines: (await readFile(await file.path(), 'utf8')).trim().split('\r\n') };
}

consoleTest('test callback is sent from the settings', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Settings');
  await page.getByLabel('Callback URL for all products').fill(receiver.url);
  await page.getByRole('button', { name: 'Save callback settings' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('link', { name: 'Send a test callback' }).click();
  await page.getByLabel('Callback URL of').selectOption('reverse_sms');
  await page.getByRole('button', { name: 'Send test callback' }).click();
  const callback = await receiver.next();
  assert.equal(callback.body.status, 'EXPIRED');
  assert.match(callback.headers.authorization, /^Signature keyId=/);
  await page.getByText('Test callback for Reverse SMS: 200').waitFor();
  await visitor.inspect('callbacks-test');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Callbacks' }).waitFor();
  assert.equal(await page.getByText('Test callback for').count(), 0);
});

consoleTest('failed callback is listed with its receiver and reason', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const check = await backend.createReverseSms({ phone_number: MATCHING, callback_url: CLOSED });
  await backend.sendSms(MATCHING, check);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Callbacks');
  await page.getByRole('link', { name: 'Retrying' }).click();
  const link = page.locator(`main a[href$="${check.check_id}#callback"]`);
  await visitor.reloadUntilSeen(link);
  await visitor.inspect('callbacks');
  await page.getByRole('link', { name: 'All deliveries' }).click();
  await page.getByRole('heading', { name: 'Response times' }).waitFor();
  await page.getByRole('link', { name: 'Today' }).click();
  await link.waitFor();
  await visitor.inspect('callbacks-all');
  await page.getByRole('link', { name: 'Retrying' }).click();
  await page.locator('#reason').selectOption('connection failed');
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.getByRole('link', { name: '127.0.0.1:9' }).waitFor();
  await link.click();
  await page.locator('.timeline .failed').first().waitFor();
  await visitor.inspect('check-failed-callback');
});

consoleTest('search finds a check by reference and number', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const number = '+990123456706';
  const check = await backend.createReverseSms({ phone_number: number, reference_id: 'basket 42' });
  await visitor.enterDemo();
  await page.goto(`/console/workspaces/${ringtrue.workspace.workspace_id}/projects/${ringtrue.project.project_id}/search`);
  const box = page.locator('main').getByRole('searchbox');
  const search = async (text) => {
    await box.fill(text);
    await page.locator('main').getByRole('button', { name: 'Search' }).click();
  };
  await search('basket 42');
  await page.getByText('Results for basket 42').waitFor();
  await visitor.inspect('search');
  await search(number);
  await page.getByText('Results for the number …06').waitFor();
  assert.ok(!page.url().includes('990123456706'));
  assert.ok(!(await page.content()).includes('990123456706'));
  await page.getByRole('button', { name: `Copy ${check.check_id}` }).waitFor();
  await search(check.check_id);
  await page.getByRole('heading', { level: 1, name: 'Check open' }).waitFor();
});

consoleTest('filters write the search expression, and the list is downloaded', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  await backend.createReverseSms({ phone_number: '+990123456708', reference_id: '=1+1' });
  await visitor.enterDemo();
  await visitor.choose('Project', 'Checks');
  await page.getByRole('navigation', { name: 'Products' }).getByRole('link', { name: 'Reverse SMS' }).click();
  await page.getByRole('link', { name: 'Accepted' }).click();
  await page.getByRole('link', { name: '7 days' }).click();
  assert.match(await page.getByLabel('Search expression').inputValue(), /^status==ACCEPTED;created_at=ge=.+T00:00:00Z$/);
  await page.getByText('=1+1', { exact: true }).waitFor();
  await visitor.inspect('checks-filtered');
  const file = await download(page, 'Download CSV');
  assert.equal(file.name, 'reverse_sms-checks.csv');
  assert.ok(file.lines.some((line) => line.includes(",'=1+1,")), file.lines.join('\n'));
  await page.getByLabel('From').fill('2020-01-01');
  await page.getByLabel('To', { exact: true }).fill('2020-01-31');
  await page.getByRole('button', { name: 'Apply dates' }).click();
  await page.getByText('No matching checks.').waitFor();

  await visitor.choose('Workspace', 'Usage');
  await page.getByRole('img', { name: /in total/ }).waitFor();
  await visitor.inspect('usage');
  assert.equal((await download(page, 'Download CSV')).name, 'usage.csv');
});

consoleTest('credential is created once, rotated and deleted', async (visitor) => {
  const { page } = visitor;
  await visitor.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Credentials');
  await page.getByLabel('Label').fill('Web shop');
  await page.getByRole('button', { name: 'Create credential' }).click();
  const secret = page.locator('#new-client-secret');
  const shown = await secret.textContent();
  await page.getByRole('button', { name: 'Copy client secret' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
  await visitor.inspect('credential-created');
  await page.reload();
  await page.getByText('Web shop').waitFor();
  assert.equal(await secret.count(), 0);
  assert.equal(await page.getByText('Web shop').count(), 1);

  await page.getByRole('row', { name: 'Web shop' }).getByRole('link', { name: 'Rotate' }).click();
  await visitor.inspect('credential-rotation');
  await page.getByLabel('The old secret stays valid for').selectOption('1 hour');
  await page.getByRole('button', { name: 'Rotate credential' }).click();
  await secret.waitFor();
  await page.getByText('replaced').waitFor();
  await visitor.inspect('credential-rotated');

  await page.getByRole('row', { name: 'replaced' }).getByRole('link', { name: 'Delete' }).click();
  await visitor.inspect('credential-deletion');
  await page.getByRole('button', { name: 'Delete credential' }).click();
  await page.getByRole('heading', { level: 1, name: 'Credentials' }).waitFor();
  assert.equal(await page.getByText('replaced').count(), 0);
});
