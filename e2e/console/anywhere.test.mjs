// The console for everybody: on a phone, by keyboard, and without scripts.
import assert from 'node:assert/strict';
import { journey } from './browser.mjs';

journey('on a narrow screen the menu folds, and leads everywhere', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator('summary', { hasText: 'Demo / First project' }).click();
  await visitor.look('menu');
  await page.setViewportSize({ width: 390, height: 844 });
  await visitor.choose('Project', 'Credentials');
  await page.getByRole('heading', { level: 1, name: 'Credentials' }).waitFor();
});

journey('the keyboard reaches everything, and shows where it is', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Settings');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  const all = await page.evaluate(countStops);
  const seen = await page.evaluate(() => [document.activeElement.outerHTML]);
  for (let stop = 1; stop < all; stop += 1) {
    await page.keyboard.press('Tab');
    const { html, outline } = await page.evaluate(() => ({
      html: document.activeElement.outerHTML,
      outline: getComputedStyle(document.activeElement).outlineStyle,
    }));
    assert.notEqual(outline, 'none', `a focus that shows: ${html}`);
    seen.push(html);
  }
  assert.equal(new Set(seen).size, all, 'each once');
});

journey('without scripts a check is made, texted and seen', async (visitor) => {
  const { page } = visitor;
  await visitor.enterDemo();
  await visitor.choose('Project', 'Handset');
  await page.getByRole('button', { name: 'Create check' }).click();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await visitor.reloadUntilSeen(page.getByText('COMPLETED'));
}, { javaScriptEnabled: false });

/** Runs in the page: how many things the keyboard should reach. */
function countStops() {
  const reachable = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const visible = (element) => element.checkVisibility() && !element.disabled;
  return [...document.querySelectorAll(reachable)].filter(visible).length;
}
