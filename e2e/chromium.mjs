// Debian's Chromium for tests, which can reach this machine only. The build without a user interface needs two thirds of
// the processor time.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Blocks all requests to other machines.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
];

export function launchChromium() {
  return chromium.launch({ executablePath: '/usr/bin/chromium-headless-shell', args: FLAGS });
}

/** Runs steps in a new browser profile, and fails if one of its pages reports an error. */
export async function inProfile(browser, options, steps) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(60_000);
  const errors = [];
  context.on('weberror', (error) => errors.push(String(error.error())));
  context.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) errors.push(message.text());
  });
  try {
    const page = await context.newPage();
    await steps(page, context);
    assert.deepEqual(errors, []);
  } finally {
    await context.close();
  }
}

/** Enters a number on the first page of a sign-in. */
export async function enterNumber(page, number) {
  await page.getByLabel('Mobile number').fill(number);
  await page.getByRole('button', { name: 'Continue' }).click();
}
