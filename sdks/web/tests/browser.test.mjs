// The library in Chromium, with the real hosted page.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { launchBrowser, MOBILE_DATA, PHONE, startSite, TIMEOUT_MS } from './site.mjs';

let site;
let browser;
before(async () => {
  site = await startSite();
  await site.configure({ frame_origins: [site.origin], brand: { name: 'Nordwind' } });
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await site?.stop();
});

/** A page with the element, which records what it dispatches in `events`. */
const PLAIN = `
  <main style="height: 3000px"><h1>Sign up</h1>
  <ringtrue-verify>Verify my number</ringtrue-verify></main>
  <script type="module">
    import { openVerification } from '/ringtrue.min.js';
    window.openVerification = openVerification;
    window.events = [];
    for (const name of ['verified', 'failed', 'closed', 'error']) {
      document.addEventListener(name, ({ detail }) => events.push([name, { ...detail }]), true);
    }
  </script>`;

/** Defines a test with a user on a page of the shop. `verification` is what its backend has created. */
function userTest(name, { mode = 'popup', body, device, elsewhere = false, html = PLAIN, in: used }, steps) {
  test(name, { timeout: 120_000 }, async () => {
    const context = await (used?.() ?? browser).newContext(device);
    context.setDefaultTimeout(TIMEOUT_MS);
    const errors = [];
    context.on('weberror', (error) => errors.push(String(error.error())));
    try {
      const page = await context.newPage();
      const verification = await site.create(body);
      await page.goto(`${elsewhere ? site.elsewhere : site.origin}${site.page(html)}`);
      const settings = { mode, url: verification.url };
      await page.evaluate((set) => Object.assign(document.querySelector('ringtrue-verify') ?? {}, set), settings);
      const tap = () => page.getByRole('button', { name: 'Verify my number' }).click();
      const openPopup = async () => (await Promise.all([context.waitForEvent('page'), tap()]))[0];
      await steps({ context, page, verification, tap, openPopup, frame: page.frameLocator('iframe') });
      assert.deepEqual(errors, [], 'no uncaught error');
    } finally {
      await context.close();
    }
  });
}

/** Waits for the first event of a page. */
async function nextEvent(page) {
  const handle = await page.waitForFunction(() => window.events.shift());
  return handle.jsonValue();
}

/** Navigates as a link does. Playwright's `goto` would take the window away from the one that opened it. */
const goTo = (page, url) => page.evaluate((url) => void window.location.assign(url), url);
/** Taps what closes its own window. Playwright's `click` may fail there, because it waits for what follows. */
const tapToLeave = (button) => button.evaluate((element) => void setTimeout(() => element.click()));
const noEvents = async (page) => assert.deepEqual(await page.evaluate(() => window.events), []);
const heading = (view, name) => view.getByRole('heading', { name }).waitFor();

userTest('pop-up: verified by a text message', { body: { reference_id: 'order 7' } }, async (user) => {
  const { page, verification, openPopup } = user;
  const { verification_id, number } = verification;
  const popup = await openPopup();
  await heading(popup, 'Send us a text message');
  assert.ok(!popup.url().includes(number.slice(1)), 'no number in the URL');
  await Promise.all([popup.waitForEvent('close'), site.sendShownSms(popup, number)]);
  const [event, detail] = await nextEvent(page);
  assert.equal(event, 'verified');
  assert.deepEqual({ ...detail, code: undefined }, { verification_id, reference_id: 'order 7', code: undefined });
  const { status, match, method } = await site.redeem(detail);
  assert.deepEqual([status, match, method], ['COMPLETED', true, 'reverse_sms']);
  await page.waitForTimeout(1000);
  await noEvents(page);
});

userTest('pop-up: verified silently', { body: { device_ip: MOBILE_DATA }, device: PHONE }, async (user) => {
  const popup = await user.openPopup();
  if (!popup.isClosed()) await popup.waitForEvent('close');
  const [event, detail] = await nextEvent(user.page);
  assert.equal(event, 'verified');
  const { match, method } = await site.redeem(detail);
  assert.deepEqual([match, method], [true, 'secure_sna']);
});

userTest(
  'pop-up: without a redirect URL, the message has no code',
  {
    body: { redirect_url: undefined, device_ip: MOBILE_DATA },
    device: PHONE,
  },
  async ({ page, verification, openPopup }) => {
    const popup = await openPopup();
    await popup.getByRole('button', { name: 'Confirm this phone' }).click();
    assert.deepEqual(await nextEvent(page), ['verified', { verification_id: verification.verification_id }]);
    assert.equal((await site.read(verification.verification_id)).match, true);
  },
);

userTest('pop-up: a failure is reported when the user taps to return', {}, async ({ page, openPopup }) => {
  const popup = await openPopup();
  await popup.getByRole('link', { name: 'Not your number?' }).click();
  await popup.getByRole('button', { name: 'That’s not my number' }).click();
  const back = popup.getByRole('link', { name: 'Back to Nordwind' });
  await back.waitFor();
  await page.waitForTimeout(2000);
  await noEvents(page);
  await Promise.all([popup.waitForEvent('close'), tapToLeave(back)]);
  const [event, { error, code }] = await nextEvent(page);
  assert.deepEqual([event, error, code], ['failed', 'wrong_number', undefined]);
});

userTest(
  'pop-up: a failure without a redirect URL has a button',
  {
    body: { redirect_url: undefined, methods: ['reverse_sms'] },
  },
  async ({ page, openPopup }) => {
    const popup = await openPopup();
    await popup.getByRole('link', { name: 'Not your number?' }).click();
    await popup.getByRole('button', { name: 'That’s not my number' }).click();
    const back = popup.getByRole('button', { name: 'Back to Nordwind' });
    await Promise.all([popup.waitForEvent('close'), tapToLeave(back)]);
    const [event, { error }] = await nextEvent(page);
    assert.deepEqual([event, error], ['failed', 'wrong_number']);
  },
);

userTest('pop-up: closed by the user, and opened again', {}, async ({ page, verification, tap, openPopup }) => {
  const popup = await openPopup();
  await heading(popup, 'Send us a text message');
  await tap();
  assert.equal(popup.isClosed(), false, 'a second tap shows the same window');
  await popup.close();
  assert.deepEqual(await nextEvent(page), ['closed', {}]);
  const again = await openPopup();
  await heading(again, 'Send us a text message');
  await site.sendShownSms(again, verification.number);
  assert.equal((await nextEvent(page))[0], 'verified');
});

userTest('messages of others are ignored', {}, async ({ context, page, verification, openPopup }) => {
  const popup = await openPopup();
  await heading(popup, 'Send us a text message');
  const forged = { source: 'ringtrue', event: 'verified', verification_id: 'x', code: 'forged' };
  // From the page itself, from a frame of another site, and from another window of the page's own origin.
  await page.evaluate((message) => window.postMessage(message, '*'), forged);
  const evil = site.page(`<script>parent.postMessage(${JSON.stringify(forged)}, '*')</script>`);
  await page.evaluate(
    (src) => document.body.append(Object.assign(document.createElement('iframe'), { src })),
    `${site.elsewhere}${evil}`,
  );
  const [other] = await Promise.all([
    context.waitForEvent('page'),
    page.evaluate((url) => void window.open(url, 'other'), verification.url),
  ]);
  await heading(other, 'Send us a text message');
  await other.evaluate((message) => window.opener.postMessage(message, '*'), forged);
  await other.close();
  // From the right window, while another site is in it.
  const evilPopup = site.page(`<h1>Evil</h1><script>opener.postMessage(${JSON.stringify(forged)}, '*')</script>`);
  const shown = popup.url();
  await goTo(popup, `${site.elsewhere}${evilPopup}`);
  await heading(popup, 'Evil');
  await page.waitForTimeout(1000);
  await noEvents(page);
  // From the right page, with what is no message of ours.
  await goTo(popup, shown);
  await heading(popup, 'Send us a text message');
  for (const message of [null, 'verified', { ...forged, source: 'other' }, { ...forged, event: 'constructor' }]) {
    await popup.evaluate((message) => window.opener.postMessage(message, '*'), message);
  }
  await page.waitForTimeout(500);
  await noEvents(page);
  await site.sendShownSms(popup, verification.number);
  const [event, { code }] = await nextEvent(page);
  assert.equal(event, 'verified');
  assert.notEqual(code, 'forged');
});

userTest(
  'a window that only has the name learns nothing',
  { elsewhere: true },
  async ({ context, page, verification }) => {
    await page.evaluate(() => addEventListener('message', ({ data }) => window.events.push(['message', data])));
    const [popup] = await Promise.all([
      context.waitForEvent('page'),
      page.evaluate((url) => void window.open(url, 'ringtrue-verify'), `${verification.url}?display=popup`),
    ]);
    await heading(popup, 'Send us a text message');
    await site.sendShownSms(popup, verification.number);
    // Nobody closes the window: the browser returns as without the library.
    await heading(popup, 'Welcome');
    await noEvents(page);
  },
);

userTest('blocked pop-up: opens in the tab', { in: () => blocking }, async ({ page, verification }) => {
  // Without a tap.
  const program = `import { openVerification } from '/ringtrue.min.js'; openVerification({ url: '${verification.url}' });`;
  await page.goto(`${site.origin}${site.page(`<script type="module">${program}</script>`)}`);
  await heading(page, 'Send us a text message');
  assert.equal(page.url(), verification.url);
  await site.sendShownSms(page, verification.number);
  await heading(page, 'Welcome');
});

let blocking;
before(async () => {
  blocking = await launchBrowser({ blocksPopups: true });
});
after(() => blocking?.close());

userTest('redirect: opens in the tab', { mode: 'redirect' }, async ({ page, verification, tap }) => {
  await tap();
  await page.waitForURL(verification.url);
  await site.sendShownSms(page, verification.number);
  await heading(page, 'Welcome');
});

userTest('frame: verified from an allowed origin', { mode: 'frame', device: PHONE }, async (user) => {
  const { page, verification, tap, frame } = user;
  await tap();
  await heading(frame, 'Send us a text message');
  const dialog = page.getByRole('dialog', { name: 'Phone number verification' });
  assert.equal(await dialog.getAttribute('aria-modal'), 'true');
  const { width, height, x, y } = await dialog.boundingBox();
  assert.deepEqual({ width, height, x, y }, { ...PHONE.viewport, x: 0, y: 0 });
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).overflow), 'hidden');
  await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const found = await window.axe.run(document, { resultTypes: ['violations'], iframes: false });
    return found.violations.map(({ id, nodes }) => `${id} at ${nodes.map(({ target }) => target.join(' '))}`);
  });
  assert.deepEqual(violations, []);
  await site.sendShownSms(frame, verification.number);
  const [event, detail] = await nextEvent(page);
  assert.equal(event, 'verified');
  assert.equal((await site.redeem(detail)).match, true);
  assert.equal(await page.locator('dialog').count(), 0);
});

userTest('frame: closed by its button and by Escape, and gives the focus back', { mode: 'frame' }, async (user) => {
  const { page, tap, frame } = user;
  const closeButton = page.getByRole('button', { name: 'Close' });
  const focusedTag = () => page.evaluate(() => document.activeElement.localName);
  for (const close of [
    () => closeButton.click(),
    () => page.keyboard.press('Escape'),
    async () => {
      await frame.getByRole('link').first().focus();
      await page.keyboard.press('Escape');
    },
  ]) {
    await tap();
    await heading(frame, 'Send us a text message');
    // The page around the dialog cannot get the focus.
    for (let presses = 0; presses < 12; presses++) {
      await page.keyboard.press('Tab');
      assert.ok(['button', 'iframe', 'body', 'dialog'].includes(await focusedTag()), await focusedTag());
    }
    await closeButton.focus();
    await close();
    assert.deepEqual(await nextEvent(page), ['closed', {}]);
    assert.equal(await focusedTag(), 'ringtrue-verify');
    assert.equal(await page.evaluate(() => document.documentElement.style.overflow), '');
  }
});

userTest('frame: refused from another origin, opens in the tab', { mode: 'frame', elsewhere: true }, async (user) => {
  const { page, verification, tap } = user;
  await tap();
  await page.waitForURL(verification.url);
  await site.sendShownSms(page, verification.number);
  await heading(page, 'Welcome');
});

userTest(
  'frame: a failure is reported when the user taps to return',
  { mode: 'frame' },
  async ({ page, tap, frame }) => {
    await tap();
    await frame.getByRole('link', { name: 'Not your number?' }).click();
    await frame.getByRole('button', { name: 'That’s not my number' }).click();
    await tapToLeave(frame.getByRole('link', { name: 'Back to Nordwind' }));
    const [event, { error }] = await nextEvent(page);
    assert.deepEqual([event, error], ['failed', 'wrong_number']);
  },
);

const onMobileData = { mode: 'frame', device: PHONE, body: { device_ip: MOBILE_DATA } };

userTest(
  'frame on a phone: the silent check leaves the frame',
  onMobileData,
  async ({ page, verification, tap, frame }) => {
    await tap();
    await frame.getByRole('button', { name: 'Confirm this phone' }).waitFor();
    await page.waitForTimeout(1000);
    assert.equal((await site.read(verification.verification_id)).status, 'ACCEPTED', 'it waits for a tap');
    await frame.getByRole('button', { name: 'Confirm this phone' }).click();
    await heading(page, 'Welcome');
  },
);

userTest(
  'frame on a phone: another way stays in the frame',
  onMobileData,
  async ({ page, verification, tap, frame }) => {
    await tap();
    await frame.getByRole('button', { name: 'Try another way' }).click();
    await heading(frame, 'Send us a text message');
    await site.sendShownSms(frame, verification.number);
    assert.equal((await nextEvent(page))[0], 'verified');
  },
);

userTest(
  'frame on a phone: without a redirect URL, another tab confirms',
  {
    ...onMobileData,
    body: { device_ip: MOBILE_DATA, redirect_url: undefined },
  },
  async ({ context, page, verification, tap, frame }) => {
    await tap();
    const [tab] = await Promise.all([
      context.waitForEvent('page'),
      frame.getByRole('button', { name: 'Confirm this phone' }).click(),
    ]);
    await heading(tab, 'Number confirmed');
    assert.deepEqual(await nextEvent(page), ['verified', { verification_id: verification.verification_id }]);
  },
);

userTest('the URL may come later, from a function', {}, async ({ page, verification, openPopup }) => {
  await page.evaluate((url) => {
    const element = document.querySelector('ringtrue-verify');
    element.url = () => new Promise((resolve) => Object.assign(window, { answer: () => resolve(url) }));
  }, verification.url);
  const popup = await openPopup();
  assert.equal(popup.url(), 'about:blank');
  await page.evaluate(() => window.answer());
  await heading(popup, 'Send us a text message');
});

userTest('a URL that cannot be opened is an error', {}, async ({ context, page, tap }) => {
  for (const [source, message] of [
    ['""', '<ringtrue-verify> has no url'],
    ['"javascript:events.push(1)"', 'The URL of a verification starts with https://'],
    ['() => { throw new Error("no backend") }', 'no backend'],
  ]) {
    await page.evaluate(`
      document.querySelector('ringtrue-verify').url = ${source};
      document.addEventListener('error', ({ detail }) => { window.failure = detail.message; }, { capture: true, once: true });
    `);
    await tap();
    await page.waitForFunction((expected) => window.failure === expected, message);
    await page.waitForTimeout(300);
    assert.equal(context.pages().length, 1, 'the window is closed');
  }
});

const LATE = `
  <ringtrue-verify disabled>Verify my number</ringtrue-verify>
  <script>
    Object.assign(document.querySelector('ringtrue-verify'), { url: 'https://early.example/', mode: 'frame' });
  </script>
  <script type="module" src="/ringtrue.min.js"></script>`;

userTest('properties that were set before the element was defined are kept', {}, async ({ page }) => {
  await page.goto(`${site.origin}${site.page(LATE)}`);
  const state = await page.evaluate(async () => {
    await customElements.whenDefined('ringtrue-verify');
    const element = document.querySelector('ringtrue-verify');
    const { url, mode, disabled } = element;
    const before = element.shadowRoot.querySelector('button').disabled;
    element.disabled = false;
    return {
      url,
      mode,
      disabled,
      attribute: element.getAttribute('mode'),
      before,
      after: element.shadowRoot.querySelector('button').disabled,
    };
  });
  assert.deepEqual(state, {
    url: 'https://early.example/',
    mode: 'frame',
    disabled: true,
    attribute: 'frame',
    before: true,
    after: false,
  });
});

userTest('an element that is removed closes its window', {}, async ({ page, openPopup }) => {
  const popup = await openPopup();
  await heading(popup, 'Send us a text message');
  await Promise.all([
    popup.waitForEvent('close'),
    page.evaluate(() => {
      const element = document.querySelector('ringtrue-verify');
      // Moving is not removing.
      document.body.append(element);
      setTimeout(() => element.remove(), 500);
    }),
  ]);
});

userTest('function: callbacks and result', {}, async ({ context, page, verification }) => {
  const [popup] = await Promise.all([
    context.waitForEvent('page'),
    page.evaluate((url) => {
      const record = (name) => (report) => window.events.push([name, { ...report }]);
      const options = {
        url,
        onVerified: record('onVerified'),
        onFailed: record('onFailed'),
        onClosed: record('onClosed'),
      };
      window.opened = window.openVerification(options);
      window.opened.result.then(({ event, ...report }) => window.events.push([`result ${event}`, report]));
    }, verification.url),
  ]);
  await heading(popup, 'Send us a text message');
  await site.sendShownSms(popup, verification.number);
  const events = [await nextEvent(page), await nextEvent(page)];
  assert.deepEqual(
    events.map(([name]) => name),
    ['onVerified', 'result verified'],
  );
  assert.deepEqual(events[0][1], events[1][1]);
});
