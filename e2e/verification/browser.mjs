// Users of the hosted verification page, in Chromium, against a real `ringtrue dev`. A test fails if a page sends a
// request to a site other than Ringtrue and the shop, violates its content security policy, or logs an error.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { launchChromium } from '../chromium.mjs';
import { COLOR_RULES } from '../console/inspect_page.mjs';
import { startRingtrue } from '../ringtrue.mjs';
import { startShop } from './shop.mjs';

const TIMEOUT_MS = 30_000;
const NARROW = { width: 320, height: 640 };

/** Addresses of the sandbox, which the shop announces. */
export const MOBILE_DATA = '203.0.113.7';
export const WIFI = '198.51.100.7';

const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';
const ANDROID =
  'Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36';
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
/** Options of Playwright's browser context. */
export const DEVICES = {
  iphone: { ...PHONE, userAgent: IPHONE },
  android: { ...PHONE, userAgent: ANDROID },
  computer: { viewport: { width: 1280, height: 900 } },
};

let ringtrue;
let browser;
let shop;

before(async () => {
  ringtrue = await startRingtrue();
  browser = await launchChromium();
  shop = await startShop(ringtrue);
});
after(async () => {
  await browser?.close();
  await shop?.stop();
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Defines a test with one user, whose device has an address. `newProfile` gives the browser profile of another user,
 * or of another device. */
export function pageTest(name, { address, ...options }, steps) {
  test(name, { timeout: 120_000 }, async () => {
    const contexts = [];
    const errors = [];
    const newProfile = async (device = options) => {
      // An animation takes a fifth of a processor while a test waits.
      const context = await browser.newContext({ reducedMotion: 'reduce', ...device });
      contexts.push(context);
      context.setDefaultTimeout(TIMEOUT_MS);
      watch(context, errors);
      return { context, page: await context.newPage(), shop, address, ringtrue, base: ringtrue.base_url };
    };
    try {
      await steps({ ...(await newProfile()), newProfile });
      assert.deepEqual(errors, [], 'no errors on any page');
    } finally {
      for (const context of contexts) await context.close();
    }
  });
}

let numbers = 0;
/** A number without other checks. Its last digits decide what the simulated operator does; 00 matches its SIM. */
export function nextNumber(ending = '00') {
  numbers += 1;
  return `+99015${String(numbers).padStart(5, '0')}${ending}`;
}

/** Opens the page of a new verification, and returns the number and the verification. On Wi-Fi, the page asks for a text
 * message, unless `body` says otherwise: this browser has a wallet, which has tests of its own. */
export async function open({ page, shop, address }, body = {}, query = {}) {
  const phone_number = body.phone_number ?? nextNumber();
  const methods = address === WIFI && !('device_ip' in body) ? ['reverse_sms'] : undefined;
  const verification = await shop.create({ phone_number, device_ip: address, methods, ...body });
  const url = new URL(verification.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  await page.goto(url.href);
  return { phone_number, ...verification };
}

/** Sends the SMS that the page shows. */
export async function sendShownSms({ page, shop }, from) {
  const [receiver, body] = await Promise.all(['#receiver', '#body'].map((id) => page.locator(id).textContent()));
  await shop.sendSms(from, receiver, body);
}

function watch(context, errors) {
  const origins = [new URL(ringtrue.base_url).origin, shop.origin, shop.elsewhere];
  context.on('request', (request) => {
    const { origin } = new URL(request.url());
    if (!origins.includes(origin)) errors.push(`foreign request: ${origin}`);
  });
  context.on('response', async (response) => {
    const request = response.request();
    if (!request.isNavigationRequest() || response.status() >= 300) return;
    const length = (await response.body().catch(() => '')).length;
    if (length >= 50 * 1024) errors.push(`${length} bytes`);
  });
  context.on('console', (message) => {
    const isStatus = message.text().startsWith('Failed to load resource: the server responded');
    // Other sites may not frame the page.
    const isRefusedFrame = message.text().includes('frame-ancestors');
    if (message.type() === 'error' && !isStatus && !isRefusedFrame) errors.push(`console error: ${message.text()}`);
  });
  context.on('weberror', (error) => errors.push(`uncaught exception: ${error.error()}`));
}

/** Asserts that the open page passes axe-core and fits a narrow screen, in light and dark. */
export async function inspect(page) {
  const viewport = page.viewportSize();
  await page.setViewportSize(NARROW);
  await page.evaluate(axe.source);
  for (const [colorScheme, runOnly] of [['dark', COLOR_RULES], ['light', undefined]]) {
    await page.emulateMedia({ colorScheme });
    const violations = await page.evaluate(async (runOnly) => {
      const found = await window.axe.run(document, { runOnly, resultTypes: ['violations'] });
      return found.violations.map(({ id, nodes }) => `${id} at ${nodes.map(({ target }) => target.join(' '))}`);
    }, runOnly);
    assert.deepEqual(violations, [], `axe-core, ${colorScheme}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0, 'fits the screen');
  }
  await page.setViewportSize(viewport);
}

/** The pixels of an element as a camera sees them. */
export async function photograph(context, locator) {
  const png = (await locator.screenshot({ scale: 'css' })).toString('base64');
  const page = await context.newPage();
  const image = await page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
    canvas.drawImage(bitmap, 0, 0);
    const { data } = canvas.getImageData(0, 0, bitmap.width, bitmap.height);
    return { width: bitmap.width, height: bitmap.height, data: Array.from(data) };
  }, png);
  await page.close();
  return { ...image, data: Uint8ClampedArray.from(image.data) };
}
