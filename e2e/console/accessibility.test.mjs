// The console on narrow screens, by keyboard, and without JavaScript.
import assert from 'node:assert/strict';
import { consoleTest } from './browser.mjs';

consoleTest('menu is collapsible on a narrow screen', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator('summary', { hasText: 'Demo / First project' }).click();
  await visitor.inspect('menu');
  await page.setViewportSize({ width: 390, height: 844 });
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
    assert.notEqual(outline, 'none', `visible focus: ${html}`);
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

/** Runs in the page. Returns the number of focusable elements. */
function countFocusable() {
  const reachable = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const visible = (element) => element.checkVisibility() && !element.disabled;
  return [...document.querySelectorAll(reachable)].filter(visible).length;
}
