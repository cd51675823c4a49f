// API reference at /docs, which loads everything from the server itself.
import { consoleTest } from './browser.mjs';

consoleTest('error page links to an operation of the API reference', async ({ page }) => {
  await page.goto('/errors/project_name_taken');
  await page.getByRole('link', { name: 'Create a project' }).click();
  await page.waitForURL(/\/docs#tag\/projects\/createProject$/);
  await page.getByRole('heading', { name: 'Create a project' }).first().waitFor();
  await page.getByText('Idempotency-Key').first().waitFor();
});
