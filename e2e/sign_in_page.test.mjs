// The sign-in page in Chromium, from the files that the example `preview` writes: every state fits its screen and has no
// axe-core finding, and the script helps to enter a number.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import axe from 'axe-core';
import { launchChromium } from './chromium.mjs';
import { COLOR_RULES } from './console/inspect_page.mjs';

const LANGUAGES = ['en', 'de', 'ar'];
const SCREENSHOTS = process.env.SCREENSHOTS;
const ENTRY = 'sign_in_ask_number.en.html';

let folder;
let browser;
let files;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sign-in-page-'));
  // Built with the tests of the workspace. `cargo run` would compile its dependencies again, with other features.
  const preview = join(dirname(process.env.BINARY_UNDER_TEST), 'examples/preview');
  execFileSync(preview, [folder], { stdio: ['ignore', 'ignore', 'inherit'] });
  files = readdirSync(folder).filter((file) => file.startsWith('sign_in_'));
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** Runs steps in a new browser profile, and fails if its pages report errors. */
async function inPage(options, steps) {
  const context = await browser.newContext(options);
  const errors = [];
  context.on('weberror', (error) => errors.push(String(error.error())));
  try {
    const page = await context.newPage();
    await steps(page, (file) => page.goto(pathToFileURL(join(folder, file)).href));
    assert.deepEqual(errors, []);
  } finally {
    await context.close();
  }
}

for (const language of LANGUAGES) {
  test(`no state has an axe-core finding: ${language}`, async () => {
    await inPage({}, async (page, open) => {
      for (const file of files.filter((file) => file.split('.')[1] === language)) {
        await open(file);
        await page.evaluate(axe.source);
        for (const width of [390, 1280]) {
          await page.setViewportSize({ width, height: 844 });
          // The other rules find the same in light and dark.
          for (const [colorScheme, rules] of [['dark', COLOR_RULES], ['light', undefined]]) {
            await page.emulateMedia({ colorScheme });
            const violations = await page.evaluate(async (runOnly) => {
              // Without its own copy of the style sheets, which only an experimental rule reads.
              const options = { runOnly, resultTypes: ['violations'], preload: { assets: ['media'] } };
              const found = await window.axe.run(document, options);
              return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
            }, rules);
            const view = `${file}.${width}.${colorScheme}`;
            assert.deepEqual(violations, [], view);
            if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, `${view}.png`), fullPage: true });
          }
        }
      }
    });
  });
}

test('every language fits a small phone', async () => {
  await inPage({ viewport: { width: 320, height: 640 } }, async (page, open) => {
    const problems = [];
    for (const file of files) {
      await open(file);
      const found = await page.evaluate(() => {
        const oneLine = 3.5 * Number.parseFloat(getComputedStyle(document.body).fontSize);
        // The link back to the project has the length of its name.
        const controls = [...document.querySelectorAll('button, input, select')];
        const tall = controls.filter((control) => control.getBoundingClientRect().height > oneLine);
        const { scrollWidth, clientWidth } = document.documentElement;
        return [...tall.map(({ textContent }) => textContent), ...(scrollWidth > clientWidth ? ['too wide'] : [])];
      });
      problems.push(...found.map((problem) => `${file}: ${problem}`));
    }
    assert.deepEqual(problems, []);
  });
});

test('the country follows an international number', async () => {
  await inPage({}, async (page, open) => {
    await open(ENTRY);
    const [country, number] = [page.getByLabel('Country or region'), page.getByLabel('Mobile number')];
    assert.equal(await number.evaluate((input) => input === document.activeElement), true);
    for (const [typed, code] of [
      ['07700 900123', 'GB'],
      ['+49 151 123', 'DE'],
      ['0151 123', 'DE'],
      ['0033 6 12', 'FR'],
      ['+1 (416) 555-0123', 'US'],
      ['\u202a+380 50 123\u202c', 'UA'],
      ['＋８１ ９０', 'JP'],
      ['+990 123 456 700', 'JP'],
    ]) {
      await number.fill(typed);
      assert.equal(await country.inputValue(), code, typed);
      assert.equal(await number.inputValue(), typed, 'the number stays as it was typed');
    }
    // Canada and the United States share +1.
    await country.selectOption('CA');
    await number.fill('+1 416 555 0123');
    assert.equal(await country.inputValue(), 'CA');
  });
});

test('countries have names in the language of the page, in its order', async () => {
  await inPage({}, async (page, open) => {
    await open('sign_in_ask_number.de.html');
    const options = await page.locator('#country option').allTextContents();
    const position = (name) => options.indexOf(name);
    assert.ok(position('Österreich (\u2066+43\u2069)') > position('Oman (\u2066+968\u2069)'), options.join());
    assert.ok(position('Österreich (\u2066+43\u2069)') < position('Pakistan (\u2066+92\u2069)'), options.join());
    assert.equal(await page.locator('#country').inputValue(), 'GB', 'the selected country stays');
    assert.equal(await page.locator('#country').getAttribute('lang'), 'de');
    await open('sign_in_missing_country.ar.html');
    assert.equal(await page.locator('#country').inputValue(), '');
    assert.equal(await page.locator('#country').getAttribute('dir'), 'rtl');
  });
});

test('the form works without JavaScript, and is sent once with it', async () => {
  for (const javaScriptEnabled of [true, false]) {
    await inPage({ javaScriptEnabled }, async (page) => {
      const forms = [];
      await page.route('http://127.0.0.1/**', async (route) => {
        if (route.request().method() === 'POST') {
          forms.push(route.request().postData());
          return route.fulfill({ status: 204 });
        }
        return route.fulfill({ path: join(folder, ENTRY), contentType: 'text/html; charset=utf-8' });
      });
      await page.goto('http://127.0.0.1/signin');
      await page.getByLabel('Mobile number').fill('07700 900123');
      const sent = page.waitForRequest((request) => request.method() === 'POST');
      await page.getByLabel('Mobile number').press('Enter');
      await sent;
      if (javaScriptEnabled) await page.getByLabel('Mobile number').press('Enter');
      assert.deepEqual(forms, ['country=GB&phone_number=07700+900123']);
    });
  }
});

test('a problem is announced with its field, which has the focus', async () => {
  await inPage({}, async (page, open) => {
    for (const [file, label, text] of [
      ['sign_in_invalid.en.html', 'Mobile number', 'This doesn’t look like a phone number.'],
      ['sign_in_missing_country.en.html', 'Country or region', 'Choose your country'],
    ]) {
      await open(file);
      const described = await page.getByLabel(label).evaluate((field) => {
        const ids = field.getAttribute('aria-describedby').split(' ');
        return [field === document.activeElement, ids.map((id) => document.getElementById(id).textContent).join(' ')];
      });
      assert.equal(described[0], true, file);
      assert.ok(described[1].startsWith(text), described[1]);
    }
  });
});
