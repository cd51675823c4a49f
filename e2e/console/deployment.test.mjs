// Deployment pages and diagnostics.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { Backend } from './backend.mjs';
import { consoleTest } from './browser.mjs';
import { startReceiver } from './receiver.mjs';

const MATCHING = '+990123456700';
let receiver;

before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.stop());

consoleTest('eligibility page explains each condition', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Eligibility');
  await visitor.inspect('eligibility');
  await page.getByLabel('Phone number or IP address').fill(MATCHING);
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByRole('region', { name: 'Gates' }).getByRole('row', { name: 'Reverse SMS' }).getByText('yes').waitFor();
  assert.ok(!page.url().includes(encodeURIComponent(MATCHING)));
  await visitor.inspect('eligibility-explained');
  await visitor.choose('Deployment', 'Eligibility');
  await page.getByLabel('Phone number or IP address').fill('+447700900123');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByRole('heading', { level: 2 }).waitFor();
  await visitor.inspect('eligibility-of-deployment');
});

consoleTest('callback key rotation appears in the audit log', async (visitor, ringtrue) => {
  const { page } = visitor;
  const published = async () => (await (await fetch(`${ringtrue.base_url}/.well-known/jwks.json`)).json()).keys.length;
  const before = await published();
  await visitor.enterDemo();
  await visitor.choose('Deployment', 'Keys');
  await visitor.inspect('keys');
  await page.locator('summary', { hasText: 'Rotate the callback key' }).click();
  await page.getByLabel('Create a new callback key').check();
  await visitor.inspect('keys-rotation');
  await page.getByRole('region', { name: 'Callback' }).getByRole('button', { name: 'Rotate', exact: true }).click();
  await page.getByRole('status').getByText('A new callback key was created.').waitFor();
  assert.equal(await published(), before + 1);

  await visitor.choose('Deployment', 'Audit log');
  await page.getByRole('row', { name: 'key' }).filter({ hasText: 'dev@localhost' }).first().waitFor();
  await visitor.inspect('deployment-audit');
  await visitor.choose('Deployment', 'Networks');
  await page.getByRole('heading', { name: 'Connectors' }).waitFor();
  await visitor.inspect('deployment-networks');
});

consoleTest('signature page finds the difference between a callback and its signed text', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const check = await backend.createReverseSms({ phone_number: MATCHING, callback_url: receiver.url });
  await backend.sendSms(MATCHING, check);
  const { text } = await receiver.next();
  await visitor.enterDemo();
  await visitor.choose('Project', 'Signatures');
  await visitor.inspect('signatures');
  const compare = async (pasted) => {
    await page.getByLabel('Received request').fill(pasted);
    await page.getByRole('button', { name: 'Compare' }).click();
  };
  await compare(text);
  await page.getByRole('heading', { name: 'The signature is valid' }).waitFor();
  await visitor.inspect('signatures-good');
  await compare(text.replace('"match":true', '"match":false'));
  await page.getByRole('heading', { name: 'The callback is invalid' }).waitFor();
  await page.getByRole('row', { name: 'digest' }).getByText('first difference').waitFor();
  await visitor.inspect('signatures-differ');
});

consoleTest('allowed networks, workspace credentials and audit log are shown', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Allowed networks');
  await visitor.inspect('networks-allowed');
  await visitor.choose('Workspace', 'Credentials');
  await visitor.inspect('workspace-credentials');
  await page.getByRole('button', { name: /^Create/ }).click();
  await page.getByText('shown only once').waitFor();
  await visitor.choose('Workspace', 'Audit log');
  await page.getByRole('row', { name: 'dev@localhost' }).first().waitFor();
  await visitor.inspect('audit');
});
