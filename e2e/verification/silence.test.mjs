// An operator that never answers: numbers that end in 98. The page offers a way out, and never goes there again by itself.
import assert from 'node:assert/strict';
import { DEVICES, MOBILE_DATA, inspect, nextNumber, open, pageTest } from './browser.mjs';

const phone = { ...DEVICES.android, address: MOBILE_DATA };

/** Counts the visits of the operator. */
function countVisits(context) {
  const visits = [];
  context.on('request', (request) => {
    if (request.url().includes('/v1/sandbox/operator/authorize')) visits.push(request.url());
  });
  return visits;
}

/** Opens the page of a number whose operator never answers, and waits until the browser hangs. */
async function openSilence({ page, shop, address }) {
  const verification = await shop.create({ phone_number: nextNumber('98'), device_ip: address });
  const hangs = page.waitForRequest((request) => request.url().includes('/v1/sandbox/operator/authorize'));
  await page.goto(verification.url, { waitUntil: 'commit' });
  await hangs;
  return verification;
}

async function assertOffers(page) {
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await page.getByRole('button', { name: 'Try another way' }).waitFor();
}

/** Evaluates an expression in a page that is leaving. Playwright's own evaluation would wait until it has left. */
async function evaluateNow({ page, context }, expression) {
  const session = await context.newCDPSession(page);
  const { result } = await session.send('Runtime.evaluate', { expression, returnByValue: true });
  await session.detach();
  return result.value;
}

pageTest('after 8 seconds the page offers another way', phone, async (user) => {
  const { page, context } = user;
  const visits = countVisits(context);
  await openSilence(user);
  const shown = await evaluateNow(user, `['leaving', 'stalled'].map((id) => !document.getElementById(id).hidden)`);
  assert.deepEqual(shown, [true, false], 'the page waits for the operator, and stays visible');
  await assertOffers(page);
  assert.equal(visits.length, 1);
  await page.getByRole('button', { name: 'Try another way' }).click();
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
});

pageTest('reload, a second visit and the back button offer another way', phone, async (user) => {
  const { page, context } = user;
  const visits = countVisits(context);
  const { url } = await openSilence(user);
  await evaluateNow(user, 'location.reload()');
  await page.getByRole('heading', { name: 'No answer yet' }).waitFor();
  await assertOffers(page);
  await inspect(page);
  const second = await context.newPage();
  await second.goto(url);
  await second.getByRole('heading', { name: 'No answer yet' }).waitFor();
  // Again by a tap, then back.
  const hangs = second.waitForRequest((request) => request.url().includes('/v1/sandbox/operator/authorize'));
  await second.getByRole('button', { name: 'Try again' }).click({ noWaitAfter: true });
  await hangs;
  assert.equal(visits.length, 2, 'only the tap goes there again');
  await evaluateNow({ page: second, context }, 'history.back()');
  await second.getByRole('heading', { name: 'No answer yet' }).waitFor();
  await assertOffers(second);
  assert.equal(visits.length, 2);
});

pageTest('back from a page of the operator offers another way', phone, async (user) => {
  const { page, context } = user;
  const isOperator = (url) => url.pathname === '/v1/sandbox/operator/authorize';
  await context.route(isOperator, (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Operator</h1>' }));
  const visits = countVisits(context);
  await open(user);
  await page.getByRole('heading', { name: 'Operator' }).waitFor();
  await page.goBack();
  await assertOffers(page);
  assert.equal(visits.length, 1);
});

pageTest('without JavaScript the other way is there at once', { ...phone, javaScriptEnabled: false }, async (user) => {
  const { page } = user;
  await openSilence(user);
  const buttons = await evaluateNow(user, `[...document.querySelectorAll('#stalled button')].map((button) => {
    const { x, y, width, height } = button.getBoundingClientRect();
    return { text: button.textContent, x: x + width / 2, y: y + height / 2 };
  })`);
  assert.deepEqual(buttons.map(({ text }) => text), ['Try again', 'Try another way']);
  await page.mouse.click(buttons[1].x, buttons[1].y);
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
});
