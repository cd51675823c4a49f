// Overview page of a project.
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
