// The console on narrow screens, by keyboard, and without JavaScript.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

consoleTest('menu is collapsible on a narrow screen', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.setViewportSize({ width: 320, height: 640 });
  await page.locator('.collapsible > details > summary').click();
  await visitor.inspect('menu');
  await page.setViewportSize({ width: 320, height: 640 });
  await visitor.choose('Project', 'Credentials');
  await page.getByRole('heading', { level: 1, name: 'Credentials' }).waitFor();
});

consoleTest('every control is reachable by keyboard with a visible focus', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Settings');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  const all = await page.evaluate(countFocusable);
  const seen = await page.evaluate(() => [document.activeElement.outerHTML]);
  for (let stop = 1; stop < all; stop += 1) {
    await page.keyboard.press('Tab');
    const { html, outline } = await page.evaluate(() => ({
      html: document.activeElement.outerHTML,
      outline: getComputedStyle(document.activeElement).outlineStyle,
    }));
    // In a frame, its page shows the focus.
    if (!html.startsWith('<iframe')) assert.notEqual(outline, 'none', `visible focus: ${html}`);
    seen.push(html);
  }
  assert.equal(new Set(seen).size, all, 'each control is focused once');
});

consoleTest('check completes without JavaScript', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await visitor.reloadUntilSeen(page.getByText('COMPLETED'));
}, { javaScriptEnabled: false });

consoleTest('the whole menu is visible in a window of 1280 by 720', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.setViewportSize({ width: 1280, height: 720 });
  const menu = page.locator('.menu.sidebar');
  assert.ok((await menu.getByRole('link').count()) >= 17);
  const { height, content } = await menu.evaluate((nav) => ({ height: nav.clientHeight, content: nav.scrollHeight }));
  assert.ok(content <= height, `${content} px of menu in ${height} px`);
  assert.ok(await menu.getByRole('link').last().isVisible());
});

consoleTest('project switcher opens another project without JavaScript', async (visitor, ringtrue) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Workspace', 'Projects');
  await page.getByRole('link', { name: 'New project' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Second project');
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByText('Its secret is shown only once').waitFor();
  await page.locator('.switcher > summary').click();
  await page.locator('.switcher').getByRole('link', { name: 'First project' }).click();
  await page.waitForURL(`**/projects/${ringtrue.project.project_id}/overview`);
}, { javaScriptEnabled: false });

consoleTest('project switcher closes on Escape', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.locator('.switcher > summary').click();
  await page.locator('.switcher').getByRole('link', { name: 'All workspaces' }).waitFor();
  await visitor.inspect('switcher');
  await page.keyboard.press('Escape');
  await page.locator('.switcher').getByRole('link', { name: 'All workspaces' }).waitFor({ state: 'hidden' });
});

consoleTest('theme is chosen, and kept on the next page', async (visitor) => {
  const { page } = visitor;
  await page.emulateMedia({ colorScheme: 'light' });
  await visitor.enterDemo();
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  const dark = await ground();
  assert.notEqual(dark, light);
  await visitor.choose('Project', 'Settings');
  assert.equal(await ground(), dark);
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.equal(await ground(), dark);
  await page.getByRole('button', { name: 'Theme: dark' }).click();
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).waitFor();
  assert.equal(await ground(), light, 'a light theme on a dark system');
});

consoleTest('times are relative, in the time zone of the user on hover', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Workspace', 'Projects');
  const time = page.locator('main time').first();
  await time.filter({ hasText: /just now|ago$/ }).waitFor();
  const [title, instant] = [await time.getAttribute('title'), new Date(await time.getAttribute('datetime'))];
  const local = new Date(instant.getTime() + 5.5 * 60 * 60 * 1000).toISOString().slice(0, 19).replace('T', ' ');
  assert.ok(title.startsWith(local), `${title} is ${local} in Kolkata`);
}, { timezoneId: 'Asia/Kolkata' });

consoleTest('id is shortened and copied whole', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { project_id } = ringtrue.project;
  await visitor.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await visitor.enterDemo();
  await visitor.choose('Project', 'Settings');
  await page.getByRole('button', { name: `Copy ${project_id}` }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), project_id);
});

/** Runs in the page. Returns the number of focusable elements. */
function countFocusable() {
  const reachable = 'a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, [tabindex="0"]';
  const visible = (element) => element.checkVisibility() && !element.disabled;
  return [...document.querySelectorAll(reachable)].filter(visible).length;
}
