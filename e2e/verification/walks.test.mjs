// Walks of users through the hosted verification page.
import assert from 'node:assert/strict';
import decodeQr from 'qr/decode.js';
import {
  DEVICES, MOBILE_DATA, WIFI, inspect, nextNumber, open, pageTest, photograph, sendShownSms,
} from './browser.mjs';

const { iphone, android, computer } = DEVICES;

pageTest('mobile data: verified without a tap', { ...android, address: MOBILE_DATA }, async (user) => {
  const { verification_id } = await open(user);
  await user.page.getByRole('heading', { name: 'Welcome' }).waitFor();
  const result = user.shop.results.at(-1);
  assert.deepEqual(
    [result.verification_id, result.status, result.match, result.method],
    [verification_id, 'COMPLETED', true, 'secure_sna'],
  );
  assert.equal(new URL(user.page.url()).searchParams.get('cart'), '1', 'the redirect URL keeps its query');
});

pageTest('mobile data of another SIM: not verified', { ...iphone, address: MOBILE_DATA }, async (user) => {
  await open(user, {}, { sim: '+990123456702' });
  await user.page.getByRole('heading', { name: 'Not your number' }).waitFor();
});

// The last digits of a simulated number decide what its operator does.
for (const [ending, what, result] of [
  ['96', 'the operator has no silent check, only the text message', 'Welcome'],
]) {
  pageTest(`number ending in ${ending}: ${what}`, { ...android, address: MOBILE_DATA }, async (user) => {
    const { phone_number } = await open(user, { phone_number: nextNumber(ending) });
    await user.page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
    await sendShownSms(user, phone_number);
    await user.page.getByRole('heading', { name: result }).waitFor();
  });
}

pageTest('number ending in 99: the operator fails, then so does the text message', {
  ...iphone, address: MOBILE_DATA,
}, async (user) => {
  const { page } = user;
  const { phone_number } = await open(user, { phone_number: nextNumber('99') });
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  await sendShownSms(user, phone_number);
  await page.getByRole('heading', { name: 'We couldn’t confirm your number' }).waitFor();
  await inspect(page);
  await page.getByRole('link', { name: /^Back to / }).click();
  await page.getByRole('heading', { name: 'Not signed up: methods_exhausted' }).waitFor();
});

pageTest('number ending in 95: the operator does not answer in time, then texts come from another number', {
  ...iphone, address: MOBILE_DATA,
}, async (user) => {
  const { page } = user;
  const { phone_number } = await open(user, { phone_number: nextNumber('95') });
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  await sendShownSms(user, phone_number);
  await page.getByRole('heading', { name: 'Send it from the other SIM' }).waitFor();
  await page.getByText(`whose number ends in ${phone_number.slice(-4)}`).waitFor();
  await inspect(page);
  await sendShownSms(user, phone_number);
  await page.getByRole('heading', { name: 'Number not confirmed' }).waitFor();
  await inspect(page);
  // It waits for a tap.
  assert.equal(await page.locator('body[data-return-to]').count(), 0);
  await page.getByRole('link', { name: /^Back to / }).click();
  await page.getByRole('heading', { name: 'Not signed up: no_match' }).waitFor();
});

pageTest('number ending in 97: no method is supported, and no page exists', {}, async ({ shop }) => {
  const refused = await shop.tryCreate({ phone_number: nextNumber('97') });
  assert.deepEqual([refused.status, (await refused.json()).error_code], [400, 'mno_not_supported']);
});

for (const [name, address, way] of [['mobile data', MOBILE_DATA, 'secure_sna'], ['Wi-Fi', WIFI, 'reverse_sms']]) {
  pageTest(`SIM Swap on completion, on ${name}: the SIM is unchanged`, { ...android, address }, async (user) => {
    const { phone_number } = await open(user, { sim_swap_period: 1440 });
    if (way === 'reverse_sms') {
      await user.page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
      await sendShownSms(user, phone_number);
    }
    await user.page.getByRole('heading', { name: 'Welcome' }).waitFor();
    const { method, no_sim_change, steps } = user.shop.results.at(-1);
    assert.deepEqual([method, no_sim_change, steps.at(-1).method], [way, true, 'sim_swap']);
  });
}

for (const [name, device, separator] of [['iPhone', iphone, '&'], ['Android', android, '?']]) {
  pageTest(`Wi-Fi on ${name}: falls back to a text message`, { ...device, address: WIFI }, async (user) => {
    const { context, page } = user;
    await context.addInitScript(() => delete window.DigitalCredential);
    const { phone_number } = await open(user, { methods: undefined });
    await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
    assert.equal(await page.locator('.qr').count(), 0, 'no QR code on a phone');
    const [receiver, body] = await Promise.all(['#receiver', '#body'].map((id) => page.locator(id).textContent()));
    const link = await page.getByRole('link', { name: 'Open messaging app' }).getAttribute('href');
    assert.equal(link, `sms:${receiver}${separator}body=${encodeURIComponent(body)}`);
    assert.ok(!(await page.content()).includes(phone_number.slice(1, -2)), 'the number is not shown in full');
    await inspect(page);
    await sendShownSms(user, phone_number);
    // The page follows by itself.
    await page.getByRole('heading', { name: 'Welcome' }).waitFor();
    assert.equal(user.shop.results.at(-1).method, 'reverse_sms');
  });
}

pageTest('computer: QR code contains the text message', { ...computer, address: WIFI }, async (user) => {
  const { page, context } = user;
  await open(user);
  const qr = page.getByRole('img', { name: 'QR code with the text message' });
  await qr.waitFor();
  const [receiver, body] = await Promise.all(['#receiver', '#body'].map((id) => page.locator(id).textContent()));
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    assert.equal(decodeQr(await photograph(context, qr)), `SMSTO:${receiver}:${body}`);
  }
});

pageTest('copy buttons copy the number and the text', { ...computer, address: WIFI }, async (user) => {
  const { page, context } = user;
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(user);
  for (const [name, id] of [['Copy number', '#receiver'], ['Copy message', '#body']]) {
    await page.getByRole('button', { name }).click();
    await page.getByText('Copied').waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, await page.locator(id).textContent());
  }
});

pageTest('without JavaScript: text message, then back in the shop', {
  ...android, address: WIFI, javaScriptEnabled: false,
}, async (user) => {
  const { phone_number } = await open(user);
  await user.page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  await sendShownSms(user, phone_number);
  await user.page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('without JavaScript: silent check without a tap', {
  ...android, address: MOBILE_DATA, javaScriptEnabled: false,
}, async (user) => {
  await open(user);
  await user.page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('without a redirect URL: a visit verifies nothing, the button does', {
  ...android, address: MOBILE_DATA,
}, async (user) => {
  const { page } = user;
  await open(user, { redirect_url: undefined });
  await page.getByRole('heading', { name: 'Confirm your phone number' }).waitFor();
  await inspect(page);
  await page.getByRole('button', { name: 'Confirm this phone' }).click();
  await page.getByRole('heading', { name: 'Number confirmed' }).waitFor();
  await inspect(page);
});

pageTest('other way: leads to a text message, then to the end', { ...android, address: MOBILE_DATA }, async (user) => {
  const { page } = user;
  await open(user, { redirect_url: undefined });
  await page.getByRole('button', { name: 'Try another way' }).click();
  await page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
  await page.getByRole('link', { name: 'I can’t send a text' }).click();
  await page.getByRole('heading', { name: 'Can’t send a text?' }).waitFor();
  await inspect(page);
  await page.getByRole('link', { name: 'Go back' }).click();
  await page.getByRole('link', { name: 'I can’t send a text' }).click();
  assert.equal(await page.getByRole('button', { name: 'Try another way' }).count(), 0, 'no other method is left');
  await page.getByRole('button', { name: 'Stop without confirming' }).click();
  await page.getByRole('heading', { name: 'Number not confirmed' }).waitFor();
  await inspect(page);
});

pageTest('no other way: the page asks before it stops', { ...android, address: MOBILE_DATA }, async (user) => {
  const { page, shop } = user;
  const { verification_id } = await open(user, { redirect_url: undefined, methods: ['secure_sna'] });
  assert.equal(await page.getByRole('button', { name: 'Try another way' }).count(), 0);
  await page.getByRole('link', { name: 'Stop without confirming' }).click();
  await page.getByRole('heading', { name: 'Stop here?' }).waitFor();
  await inspect(page);
  await page.getByRole('link', { name: 'Go back' }).click();
  await page.getByRole('link', { name: 'Stop without confirming' }).click();
  await page.getByRole('button', { name: 'Stop without confirming' }).click();
  await page.getByRole('heading', { name: 'Number not confirmed' }).waitFor();
  assert.equal((await shop.read(verification_id)).error_code, 'given_up');
});

pageTest('cannot send a text: the silent check is left', { ...android, address: MOBILE_DATA }, async (user) => {
  const { page } = user;
  await open(user, { methods: ['reverse_sms', 'secure_sna'] });
  await page.getByRole('link', { name: 'I can’t send a text' }).click();
  await page.getByRole('button', { name: 'Try another way' }).click();
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
  assert.equal(user.shop.results.at(-1).method, 'secure_sna');
});

for (const [choice, answer, title, error] of [
  ['I can’t send a text', 'Stop without confirming', 'Number not confirmed', 'given_up'],
  ['Not your number?', 'That’s not my number', 'Thank you for telling us', 'wrong_number'],
]) {
  pageTest(`${choice} ends with ${error}`, { ...android, address: WIFI }, async (user) => {
    const { page } = user;
    const { phone_number } = await open(user);
    await page.getByText(`ending in ${phone_number.slice(-4)}`).waitFor();
    await page.getByRole('link', { name: choice }).click();
    await page.getByRole('button', { name: answer }).click();
    await page.getByRole('heading', { name: title }).waitFor();
    await inspect(page);
    await page.getByRole('link', { name: /^Back to / }).click();
    await page.getByRole('heading', { name: `Not signed up: ${error}` }).waitFor();
  });
}

pageTest('Not your number? is asked before the silent check', { ...android, address: MOBILE_DATA }, async (user) => {
  const { page, shop } = user;
  const { verification_id } = await open(user, { redirect_url: undefined });
  await page.getByRole('link', { name: 'Not your number?' }).click();
  await page.getByRole('heading', { name: 'Not your number?' }).waitFor();
  await inspect(page);
  await page.getByRole('link', { name: 'Go back' }).click();
  await page.getByRole('heading', { name: 'Confirm your phone number' }).waitFor();
  await page.getByRole('link', { name: 'Not your number?' }).click();
  await page.getByRole('button', { name: 'That’s not my number' }).click();
  await page.getByRole('heading', { name: 'Thank you for telling us' }).waitFor();
  assert.equal((await shop.read(verification_id)).error_code, 'wrong_number');
});

pageTest('computer without a redirect URL: QR code leads to the page on the phone', computer, async (user) => {
  const { page, context } = user;
  const { url } = await open({ ...user, address: undefined }, { redirect_url: undefined });
  const qr = page.getByRole('img', { name: 'QR code with this page' });
  await qr.waitFor();
  assert.equal(decodeQr(await photograph(context, qr)), url);
  await inspect(page);
});

pageTest('computer and phone: the computer waits, and both end', { ...computer, address: MOBILE_DATA }, async (user) => {
  const { page, newProfile } = user;
  await page.addInitScript(() => addEventListener('DOMContentLoaded', () => {
    const shown = JSON.parse(sessionStorage.getItem('shown') ?? '[]');
    sessionStorage.setItem('shown', JSON.stringify([...shown, document.querySelector('h1')?.textContent]));
  }));
  const { url } = await open(user, { redirect_url: undefined });
  await page.getByRole('img', { name: 'QR code with this page' }).waitFor();
  const phone = await newProfile(android);
  // The operator takes its time.
  await phone.context.route((url) => url.pathname === '/v1/sandbox/operator/authorize', async (route) => {
    await page.getByRole('heading', { name: 'Continue on your phone' }).waitFor();
    await route.continue();
  });
  await phone.page.goto(url);
  await phone.page.getByRole('button', { name: 'Confirm this phone' }).click();
  for (const device of [page, phone.page]) await device.getByRole('heading', { name: 'Number confirmed' }).waitFor();
  const shown = await page.evaluate(() => JSON.parse(sessionStorage.getItem('shown')));
  assert.deepEqual(shown, ['Confirm your phone number', 'Continue on your phone', 'Number confirmed']);
});

for (const [name, redirect_url] of [['by itself', undefined], ['by the button', null]]) {
  pageTest(`slow start ${name}: the event of the start does not cancel it`, {
    ...android, address: MOBILE_DATA,
  }, async (user) => {
    const { page, context } = user;
    const navigation = { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    await context.route((url) => url.pathname.endsWith('/silent'), async (route) => {
      const response = await route.fetch({ headers: { ...route.request().headers(), ...navigation } });
      // The page learns of changes within a second.
      await new Promise((resolve) => setTimeout(resolve, 2500));
      await route.fulfill({ response });
    });
    await open(user, redirect_url === null ? { redirect_url: undefined } : {});
    if (redirect_url === null) await page.getByRole('button', { name: 'Confirm this phone' }).click();
    await page.getByRole('heading', { name: redirect_url === null ? 'Number confirmed' : 'Welcome' }).waitFor();
  });
}

/** Loses the cookie that the button sets, as a browser that blocks cookies does. */
async function blockCookies(context) {
  await context.route((url) => url.pathname.endsWith('/silent'), async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    const headers = { ...route.request().headers(), 'sec-fetch-site': 'same-origin' };
    const response = await route.fetch({ headers, maxRedirects: 0 });
    await context.clearCookies();
    const { 'set-cookie': _, ...kept } = response.headers();
    return route.fulfill({ response, headers: kept });
  });
}

pageTest('blocked cookies: the page says so, and goes on when they are allowed', {
  ...android, address: MOBILE_DATA,
}, async (user) => {
  const { page, context } = user;
  await open(user, { redirect_url: undefined });
  await blockCookies(context);
  await page.getByRole('button', { name: 'Confirm this phone' }).click();
  await page.getByRole('alert').getByText('Allow cookies for this page').waitFor();
  await inspect(page);
  await context.unrouteAll();
  await page.getByRole('button', { name: 'Confirm this phone' }).click();
  await page.getByRole('heading', { name: 'Number confirmed' }).waitFor();
});

pageTest('the locale of the verification chooses before the browser', {
  ...android, address: WIFI, locale: 'pl',
}, async (user) => {
  await open(user, { locale: 'de' });
  await user.page.getByRole('heading', { name: 'Senden Sie uns eine SMS' }).waitFor();
});

pageTest('two tabs show the same end', { ...android, address: WIFI }, async (user) => {
  const { page, context } = user;
  const { phone_number, url } = await open(user, { redirect_url: undefined, methods: ['reverse_sms'] });
  const other = await context.newPage();
  await other.goto(url);
  await sendShownSms(user, phone_number);
  for (const tab of [page, other]) await tab.getByRole('heading', { name: 'Number confirmed' }).waitFor();
});

for (const [lang, dir, heading] of [['de-AT', 'ltr', 'Senden Sie uns eine SMS'], ['pl', 'ltr', 'Wyślij do nas SMS']]) {
  pageTest(`speaks the language of the browser: ${lang}`, { ...android, address: WIFI, locale: lang }, async (user) => {
    await open(user);
    await user.page.getByRole('heading', { name: heading }).waitFor();
    assert.equal(await user.page.locator('html').getAttribute('dir'), dir);
    await inspect(user.page);
  });
}

pageTest('right to left', { ...android, address: WIFI }, async (user) => {
  const { page } = user;
  await open(user, {}, { lang: 'ar' });
  await page.locator('html[dir=rtl] #receiver').waitFor();
  const { heading, receiver } = await page.evaluate(() => ({
    heading: getComputedStyle(document.querySelector('h1')).textAlign,
    receiver: getComputedStyle(document.querySelector('#receiver')).direction,
  }));
  assert.deepEqual([heading, receiver], ['start', 'ltr']);
  const [title, main] = await page.evaluate(() => {
    const range = document.createRange();
    range.selectNodeContents(document.querySelector('h1'));
    return [range.getBoundingClientRect().right, document.querySelector('h1').getBoundingClientRect().right];
  });
  assert.ok(Math.abs(title - main) < 1, 'text begins at the right');
  await inspect(page);
});

pageTest('unknown link', android, async ({ page, base }) => {
  const response = await page.goto(`${base}/v/${'A'.repeat(43)}`);
  assert.equal(response.status(), 404);
  await page.getByRole('heading', { name: 'This link isn’t valid' }).waitFor();
  await inspect(page);
});
