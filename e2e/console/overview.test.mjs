// What a project did, in numbers and charts.
import { Backend } from './backend.mjs';
import { journey } from './browser.mjs';

const MATCHING = '+990123456700';

journey('the overview counts what has happened', async (visitor, ringtrue) => {
  const { page } = visitor;
  const backend = new Backend(ringtrue);
  const check = await backend.createReverseSms({ phone_number: MATCHING });
  await backend.text(MATCHING, check);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Overview');
  await visitor.reloadUntilSeen(page.getByRole('heading', { name: 'How far they came' }));
  await visitor.look('overview');
  await page.locator('summary', { hasText: 'The same in numbers' }).first().click();
  await page.getByRole('region', { name: 'Checks' }).getByRole('table').first().waitFor();
  await visitor.look('overview-numbers');
});
