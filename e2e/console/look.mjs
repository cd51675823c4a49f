// A close look at a page: axe-core's rules, the width of the screen, and pictures for people to look at.
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';

export const SCREENSHOTS = fileURLToPath(new URL('screenshots', import.meta.url));
/** Where pictures of a window's size go, if anywhere: `scripts/screenshots` takes some of them. */
const { PICTURES } = process.env;
export const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 390, height: 844 };

/** What differs by day and by night; all other rules are about the document. */
const COLOURS = ['color-contrast', 'link-in-text-block'];

/** What is wrong with the page, each in a line. */
export async function look(page, name) {
  const faults = [];
  await page.evaluate(axe.source);
  for (const viewport of [NARROW, WIDE]) {
    await page.setViewportSize(viewport);
    for (const [colorScheme, rules] of [['dark', COLOURS], ['light', undefined]]) {
      await page.emulateMedia({ colorScheme });
      // A field that has the focus may have scrolled the page to itself.
      await page.evaluate(() => window.scrollTo({ top: 0, behavior: 'instant' }));
      const view = `${name}-${viewport.width}-${colorScheme}`;
      await page.screenshot({ path: `${SCREENSHOTS}/${view}.png`, fullPage: true });
      if (PICTURES && viewport === WIDE) await page.screenshot({ path: `${PICTURES}/${name}-${colorScheme}.png` });
      faults.push(...(await page.evaluate(inspect, rules)).map((fault) => `${view}: ${fault}`));
    }
  }
  return faults;
}

/** Runs in the page. */
async function inspect(rules) {
  const { violations } = await window.axe.run(document, { runOnly: rules, resultTypes: ['violations'] });
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const faults = grave.map(({ id, nodes }) => `${id} at ${nodes.map(({ target }) => target.join(' ')).join(', ')}`);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`is ${root.scrollWidth} px wide on a screen of ${root.clientWidth}`);
  return faults;
}
