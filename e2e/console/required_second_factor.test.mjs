// A deployment that requires a second factor of passwords.
import { consoleTest, settings } from './browser.mjs';
import { confirmSetup } from './totp.mjs';

settings.RINGTRUE_CONSOLE__REQUIRE_SECOND_FACTOR = 'true';

consoleTest('new member sets up the required second factor first', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { workspace_id } = ringtrue.workspace;
  const { url } = await ringtrue.run('console', 'link', '--member', 'eve@example.com', '--workspace', workspace_id);
  await visitor.setPassword(url);
  await page.getByText('This deployment requires a second factor').waitFor();
  await visitor.inspect('second-factor-required');
  // Neither pages nor forms lead elsewhere.
  for (const path of ['/console', '/console/account', `/console/workspaces/${workspace_id}/members`]) {
    await page.goto(path);
    await page.getByRole('heading', { name: 'Set up second factor' }).waitFor();
  }
  await page.goto(url);
  await page.getByRole('heading', { name: 'Set up second factor' }).waitFor();
  await confirmSetup(page);
  await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
  await page.getByRole('link', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await page.waitForURL(`**/console/workspaces/${workspace_id}**`);
  await page.goto('/console/account');
  await page.getByText('so you cannot turn it off').waitFor();
  await visitor.inspect('account-with-required-second-factor');
});

consoleTest('sign-in link of the operator needs no second factor', async (visitor) => {
  await visitor.enterDemo();
});
