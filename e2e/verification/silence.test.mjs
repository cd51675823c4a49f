// An operator that never answers: numbers that end in 98. The page offers a way out, and never goes there again by itself.
import assert from 'node:assert/strict';
import { DEVICES, MOBILE_DATA, inspect, nextNumber, open, pageTest } from './browser.mjs';

const phone = { ...DEVICES.android, address: MOBILE_DATA };
const isOperator = (url) => url.pathname === '/v1/sandbox/operator/authorize';

/** Counts the visits of the operator. */
function countVisits(context) {
  const visits = [];
  context.on('request', (request) => {
    if (request.url().includes('/v1/sandbox/operator/authorize')) visits.push(request.url());
  });
  return visits;
}

/** Opens the page of a number whose operator never answers, and waits until the browser hangs. Without a wallet, unless
 * the test wants one: with one, the page loads itself again to offer it. */
async function openSilence({ context, page, shop, address }, { hasWallet = false } = {}) {
  if (!hasWallet) await context.addInitScript(() => delete window.DigitalCredential);
  const verification = await shop.create({ phone_number: nextNumber('98'), device_ip: address });
  const hangs = page.waitForRequest((request) => request.url().includes('/v1/sandbox/operator/authorize'));
  await page.goto(verification.url, { waitUntil: 'commit' });
  await hangs;
  return verification;
}

/** Has the page leave. Its response to this call may be lost with the page. */
async function leave(page, action) {
  await page.evaluate(action).catch((error) => {
    if (!error.message.includes('Execution context was destroyed')) throw error;
  });
}

const walletButton = (page) => page.getByRole('button', { name: 'Confirm with this phone' });

async function assertOffers(page) {
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await page.getByRole('button', { name: 'Try another way' }).waitFor();
}

pageTest('after 8 seconds the page offers another way', phone, async (user) => {
  const { page, context } = user;
  const visits = countVisits(context);
  // Playwright waits until a page has left: the page itself notes what it shows meanwhile.
  await page.addInitScript(() => setTimeout(() => {
    const parts = ['leaving', 'stalled'].map((id) => document.getElementById(id));
    if (parts[0]) sessionStorage.setItem('shown', parts.map((part) => !part.hidden));
  }, 500));
  await openSilence(user);
  await assertOffers(page);
  assert.equal(await page.evaluate(() => sessionStorage.getItem('shown')), 'true,false', 'it waits, and stays visible');
  assert.equal(visits.length, 1);
  await page.getByRole('button', { name: 'Try another way' }).click();
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
});

pageTest('reload, a second visit and the back button offer another way', phone, async (user) => {
  const { page, context } = user;
  const visits = countVisits(context);
  const { url } = await openSilence(user);
  await leave(page, () => setTimeout(() => location.reload()));
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
  await leave(second, () => setTimeout(() => history.back()));
  await second.getByRole('heading', { name: 'No answer yet' }).waitFor();
  await assertOffers(second);
  assert.equal(visits.length, 2);
});

pageTest('another browser waits, then offers to take over', phone, async (user) => {
  const { url } = await openSilence(user);
  const { page } = await user.newProfile();
  await page.goto(url);
  await page.getByRole('heading', { name: 'Continue on your phone' }).waitFor();
  await inspect(page);
  await page.getByRole('heading', { name: 'No answer yet' }).waitFor();
  await assertOffers(page);
});

pageTest('Not your number? is asked when the operator does not answer', phone, async (user) => {
  const { page, shop } = user;
  const { verification_id } = await openSilence(user);
  await leave(page, () => setTimeout(() => location.reload()));
  await page.getByRole('heading', { name: 'No answer yet' }).waitFor();
  await page.getByRole('link', { name: 'Not your number?' }).click();
  await page.getByRole('button', { name: 'That’s not my number' }).click();
  await page.getByRole('heading', { name: 'Thank you for telling us' }).waitFor();
  assert.equal((await shop.read(verification_id)).error_code, 'wrong_number');
});

pageTest('back from a page of the operator offers another way', phone, async (user) => {
  const { page, context } = user;
  await context.route(isOperator, (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Operator</h1>' }));
  const visits = countVisits(context);
  await open(user);
  await page.getByRole('heading', { name: 'Operator' }).waitFor();
  await page.goBack();
  await assertOffers(page);
  await walletButton(page).waitFor();
  assert.equal(visits.length, 1);
});

pageTest('with a wallet, the page offers it after 8 seconds', phone, async (user) => {
  const { page, context } = user;
  const visits = countVisits(context);
  await openSilence(user, { hasWallet: true });
  await walletButton(page).waitFor();
  await assertOffers(page);
  await page.getByRole('heading', { name: 'No answer yet' }).waitFor();
  assert.equal(visits.length, 1);
  await page.reload();
  await walletButton(page).waitFor();
  assert.equal(visits.length, 1, 'a reload does not go there again');
  const hangs = page.waitForRequest((request) => isOperator(new URL(request.url())));
  await page.getByRole('button', { name: 'Try again' }).click({ noWaitAfter: true });
  await hangs;
  await leave(page, () => setTimeout(() => history.back()));
  await walletButton(page).waitFor();
  await assertOffers(page);
  assert.equal(visits.length, 2, 'only the tap goes there again');
});

pageTest('with a wallet, but without a connection, the other ways stay', phone, async (user) => {
  const { page, context } = user;
  const visits = countVisits(context);
  await openSilence(user, { hasWallet: true });
  // Requests over mobile data that is dead get no response, until the user turns on Wi-Fi.
  const held = [];
  await context.route((url) => url.pathname.startsWith('/v/'), (route) => held.push(route));
  await assertOffers(page);
  // Longer than the page waits before it polls.
  await new Promise((resolve) => setTimeout(resolve, 6000));
  assert.ok(held.every((route) => !route.request().isNavigationRequest()), 'the page does not leave');
  await assertOffers(page);
  assert.equal(await walletButton(page).count(), 0);
  await context.unrouteAll();
  for (const route of held) await route.continue().catch(() => {});
  await walletButton(page).waitFor();
  await page.getByRole('heading', { name: 'No answer yet' }).waitFor();
  assert.equal(visits.length, 1);
});

pageTest('without JavaScript the other way is there at once', { ...phone, javaScriptEnabled: false }, async (user) => {
  const { page, context } = user;
  // The browser stays on the page, as while it waits; Playwright could not look at it then.
  await context.route(isOperator, (route) => route.abort('aborted'));
  await openSilence(user);
  await assertOffers(page);
  await page.getByRole('button', { name: 'Try another way' }).click();
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
});
