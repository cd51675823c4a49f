// Test sign-in: a sign-in of the project with a simulated number, from the button to the claims that its client gets.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

const MATCHING = '+990123456700';

/** Opens the page from *Getting started*, and registers the redirect URI if a test before has not. */
async function openTest(visitor) {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Getting started');
  await page.getByRole('link', { name: 'test it' }).click();
  await page.getByRole('heading', { level: 1, name: 'Test sign-in' }).waitFor();
  const register = page.getByRole('button', { name: 'Add the redirect URI' });
  if ((await register.count()) > 0) {
    await visitor.inspect('sign-in-test-unregistered');
    await register.click();
  }
  await page.getByRole('heading', { name: 'Start the test' }).waitFor();
}

async function start(page) {
  await page.getByRole('button', { name: 'Test sign-in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sign in to First project' }).waitFor();
}

/** Returns the values of a table of claims by name. */
async function readClaims(page, title) {
  const rows = await page.getByRole('region', { name: title }).getByRole('row').filter({ has: page.getByRole('cell') }).all();
  const read = async (row) => [
    await row.getByRole('rowheader').innerText(),
    await row.getByRole('cell').first().locator('code').innerText(),
  ];
  return Object.fromEntries(await Promise.all(rows.map(read)));
}

consoleTest('test signs a simulated user in, and shows the decoded ID token', async (visitor, ringtrue) => {
  const { page } = visitor;
  await openTest(visitor);
  await visitor.inspect('sign-in-test');
  await page.getByLabel('SIM change').check();
  await start(page);
  await visitor.inspect('sign-in-test-number');
  await page.getByLabel('Mobile number').fill(MATCHING);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'The client knows the user' }).waitFor();
  assert.deepEqual(await page.locator('.marked li.missing').allTextContents(), []);
  assert.equal(await page.locator('.marked li.done').count(), 5);

  const header = await readClaims(page, 'Header of the ID token');
  assert.deepEqual([header.alg, header.typ], ['RS256', 'JWT']);
  const claims = await readClaims(page, 'Claims of the ID token');
  assert.equal(claims.iss, ringtrue.base_url);
  assert.equal(claims.aud, ringtrue.project.client_id);
  assert.equal(claims.phone_number, MATCHING);
  assert.deepEqual([claims.phone_number_verified, claims.sim_change], ['true', 'false']);
  assert.match(claims.acr, /silent$/);
  assert.equal((await readClaims(page, 'Userinfo')).sub, claims.sub);
  await visitor.inspect('sign-in-test-signed-in');

  // The code is redeemed once, so a reload does not sign in again.
  visitor.expectStatus(400);
  await page.reload();
  await page.getByRole('alert').getByText('has already ended').waitFor();
});

consoleTest('test shows the error that the client gets', async (visitor) => {
  const { page } = visitor;
  await openTest(visitor);
  await start(page);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('heading', { name: 'The user is not signed in' }).waitFor();
  await page.getByText('access_denied').waitFor();
  await visitor.inspect('sign-in-test-refused');
});
