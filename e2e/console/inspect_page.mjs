// Inspects a page: axe-core rules and horizontal overflow.
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';

/** Folder for screenshots of failed tests, and, if `SCREENSHOTS` is set, of every inspected page. */
export const SCREENSHOTS = fileURLToPath(new URL('screenshots', import.meta.url));
/** Folder for screenshots of the window, set by `scripts/screenshots`. */
const { PICTURES } = process.env;
export const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 320, height: 640 };

/** Rules that depend on the color scheme. */
export const COLOR_RULES = ['color-contrast', 'link-in-text-block'];

/** Returns the errors found on the page. */
export async function inspectPage(page, name) {
  const errors = [];
  await page.evaluate(axe.source);
  for (const viewport of [NARROW, WIDE]) {
    await page.setViewportSize(viewport);
    for (const [colorScheme, rules] of [['dark', COLOR_RULES], ['light', undefined]]) {
      await page.emulateMedia({ colorScheme });
      // A focused field may have scrolled the page.
      await page.evaluate(() => window.scrollTo({ top: 0, behavior: 'instant' }));
      const view = `${name}-${viewport.width}-${colorScheme}`;
      // Whole pages take the browser longer than their inspection.
      if (process.env.SCREENSHOTS) await page.screenshot({ path: `${SCREENSHOTS}/${view}.png`, fullPage: true });
      if (PICTURES && viewport === WIDE) await page.screenshot({ path: `${PICTURES}/${name}-${colorScheme}.png` });
      errors.push(...(await page.evaluate(findErrors, rules)).map((error) => `${view}: ${error}`));
    }
  }
  return errors;
}

/** Runs in the page. */
async function findErrors(rules) {
  // Without its own copy of the style sheets, which only an experimental rule reads.
  const preload = { assets: ['media'] };
  const { violations } = await window.axe.run(document, { runOnly: rules, resultTypes: ['violations'], preload });
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const errors = serious.map(({ id, nodes }) => `${id} at ${nodes.map(({ target }) => target.join(' ')).join(', ')}`);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) errors.push(`overflow: ${root.scrollWidth} px on ${root.clientWidth} px`);
  return errors;
}
