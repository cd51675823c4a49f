// API reference at /docs, which loads everything from the server itself.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

// The reference takes the browser seconds to load, so each kind of visitor loads it once.

consoleTest('stranger comes from an error page, and sees neither internal operations nor a token', async ({ page }) => {
  await page.goto('/errors/project_name_taken');
  await page.getByRole('link', { name: 'Create a project' }).click();
  await page.waitForURL(/\/docs#tag\/projects\/createProject$/);
  await page.getByRole('heading', { name: 'Create a project' }).first().waitFor();
  await page.getByText('Idempotency-Key').first().waitFor();
  assert.equal(await page.getByRole('link', { name: 'Operators', exact: true }).count(), 0);
  assert.equal(await page.getByRole('button', { name: 'Get a sandbox token' }).isVisible(), false);
  const document = await page.evaluate(async () => (await fetch('/assets/reference.json')).json());
  assert.ok(document.paths['/v1/verifications'] && !document.paths['/livez']);
});

consoleTest('signed-in user keeps the theme of the console, and tries a request with a sandbox token', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  await page.goto('/errors');
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  assert.equal(await ground(), 'rgb(19, 22, 25)');
  await page.emulateMedia({ colorScheme: 'light' });
  assert.equal(await ground(), 'rgb(19, 22, 25)', 'the choice prevails over the system');

  await page.goto('/docs#tag/verifications/listVerifications');
  await page.locator('body.dark-mode').waitFor();
  await page.getByRole('heading', { name: 'List verifications' }).first().waitFor();
  await page.getByRole('button', { name: 'Get a sandbox token' }).click();
  await page.getByText(/Requests now use a token of First project with the scope verification, for 15 minutes/).waitFor();
  const operation = page.locator('[id$="listVerifications"]').first();
  await operation.getByRole('button', { name: /Test Request/i }).first().click();
  const [response] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname === '/v1/verifications'),
    page.getByRole('button', { name: /^Send/ }).first().click(),
  ]);
  assert.equal(response.status(), 200);
});
