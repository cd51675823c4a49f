// What people who run a deployment, and who look for the cause of something, are told.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { Backend } from './backend.mjs';
import { journey } from './browser.mjs';
import { startReceiver } from './receiver.mjs';

const MATCHING = '+990123456700';
let receiver;

before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.stop());

journey('eligibility is explained, gate by gate', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Eligibility');
  await visitor.look('eligibility');
  await page.getByLabel('Phone number or IP address').fill(MATCHING);
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByRole('region', { name: 'Gates' }).getByRole('row', { name: 'Reverse SMS' }).getByText('yes').waitFor();
  assert.ok(!page.url().includes(encodeURIComponent(MATCHING)));
  await visitor.look('eligibility-explained');
  await visitor.choose('Deployment', 'Eligibility');
  await page.getByLabel('Phone number or IP address').fill('+447700900123');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByRole('heading', { level: 2 }).waitFor();
  await visitor.look('eligibility-of-deployment');
});

journey('the callback key is rotated, and the audit log says by whom', async (visitor, ringtrue) => {
  const { page } = visitor;
  const published = async () => (await (await fetch(`${ringtrue.base_url}/.well-known/jwks.json`)).json()).keys.length;
  const before = await published();
  await visitor.enterDemo();
  await visitor.choose('Deployment', 'Keys');
  await visitor.look('keys');
  await page.locator('summary', { hasText: 'Relieve the callback key' }).click();
  await page.getByLabel('Make a new callback key').check();
  await visitor.look('keys-rotation');
  await page.getByRole('region', { name: 'Callback' }).getByRole('button', { name: 'Rotate', exact: true }).click();
  await page.getByRole('status').getByText('There is a new callback key.').waitFor();
  assert.equal(await published(), before + 1);

  await visitor.choose('Deployment', 'Audit log');
  await page.getByRole('row', { name: 'key' }).filter({ hasText: 'dev@localhost' }).first().waitFor();
  await visitor.look('deployment-audit');
  await visitor.choose('Deployment', 'Networks');
  await page.getByRole('heading', { name: 'Connectors' }).waitFor();
  await visitor.look('deployment-networks');
});

journey('a callback that does not verify is compared with what was signed', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const check = await backend.createReverseSms({ phone_number: MATCHING, callback_url: receiver.url });
  await backend.text(MATCHING, check);
  const { text } = await receiver.next();
  await visitor.enterDemo();
  await visitor.choose('Project', 'Signatures');
  await visitor.look('signatures');
  const compare = async (pasted) => {
    await page.getByLabel('The request').fill(pasted);
    await page.getByRole('button', { name: 'Compare' }).click();
  };
  await compare(text);
  await page.getByRole('heading', { name: 'The signature fits' }).waitFor();
  await visitor.look('signatures-good');
  await compare(text.replace('"match":true', '"match":false'));
  await page.getByRole('heading', { name: 'The callback is not valid' }).waitFor();
  await page.getByRole('row', { name: 'digest' }).getByText('differs first').waitFor();
  await visitor.look('signatures-differ');
});

journey('a workspace says who changed what, and a project whom it may ask', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Networks allowed');
  await visitor.look('networks-allowed');
  await visitor.choose('Workspace', 'Credentials');
  await visitor.look('workspace-credentials');
  await page.getByRole('button', { name: /^Make/ }).click();
  await page.getByText('shown this once').waitFor();
  await visitor.choose('Workspace', 'Audit log');
  await page.getByRole('row', { name: 'dev@localhost' }).first().waitFor();
  await visitor.look('audit');
});
