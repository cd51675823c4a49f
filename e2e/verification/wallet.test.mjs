// The phone's wallet on the hosted page, over Wi-Fi: Chromium's virtual wallet gives the answers that the sandbox makes.
import assert from 'node:assert/strict';
import { DEVICES, MOBILE_DATA, WIFI, inspect, nextNumber, open, pageTest, sendShownSms } from './browser.mjs';

// How long the page waits for the response to the wallet's answer.
const ANSWER_TIMEOUT_MS = 20_000;

const { android, computer, iphone } = DEVICES;
const PROTOCOL = 'openid4vp-v1-unsigned';
const BUTTON = 'Confirm with this phone';

/** Opens the page of a new verification on a phone that is on Wi-Fi, and waits for its button. */
async function openOnWifi(user, body = {}) {
  const opened = await open(user, { device_ip: undefined, ...body }, { ip: WIFI });
  await button(user).waitFor();
  return opened;
}

const button = ({ page }) => page.getByRole('button', { name: BUTTON });
const heading = ({ page }, name) => page.getByRole('heading', { name }).waitFor();
const isTexting = (user) => heading(user, 'Send us a text message');

/** Makes the browser's wallet behave in a way. */
async function setWallet({ context, page }, behavior) {
  const devtools = await context.newCDPSession(page);
  await devtools.send('DigitalCredentials.setVirtualWalletBehavior', behavior);
}

/** Makes the wallet confirm each request, with the answer of the sandbox after a change. */
async function confirmRequests(user, sim, {
  origin = new URL(user.base).origin, change = (data) => data, keepsCookies = true,
} = {}) {
  await user.page.route('**/wallet-request*', async (route) => {
    const response = await route.fetch();
    const { data } = await user.shop.confirmCredential(await response.json(), sim, origin);
    await setWallet(user, { action: 'respond', protocol: PROTOCOL, response: await change(data) });
    const { 'set-cookie': cookie, ...headers } = response.headers();
    if (keepsCookies) headers['set-cookie'] = cookie;
    else await user.context.clearCookies();
    await route.fulfill({ response, headers });
  });
}

/** Notes what the page sends after it has asked the wallet, and the status of each response. */
function noteAnswers({ page }) {
  const answers = [];
  page.on('response', (response) => {
    const request = response.request();
    if (request.method() !== 'POST' || !new URL(request.url()).pathname.endsWith('/wallet')) return;
    const [sent] = Object.keys(request.postDataJSON());
    answers.push([sent, response.status()]);
  });
  return answers;
}

/** Returns the first step of a verification. */
async function firstStep(user, id) {
  const { steps } = await user.shop.read(id);
  return steps[0];
}

pageTest('Wi-Fi: verified with one tap', { ...android, address: WIFI }, async (user) => {
  const { phone_number, verification_id } = await openOnWifi(user);
  await inspect(user.page);
  await confirmRequests(user, phone_number);
  await button(user).click();
  await heading(user, 'Welcome');
  const result = user.shop.results.at(-1);
  assert.deepEqual(
    [result.verification_id, result.status, result.match, result.method],
    [verification_id, 'COMPLETED', true, 'secure_sna'],
  );
});

pageTest('Wi-Fi, without a redirect URL: the page shows the result', { ...android, address: WIFI }, async (user) => {
  const { phone_number } = await openOnWifi(user, { redirect_url: undefined });
  await confirmRequests(user, phone_number);
  await button(user).click();
  await heading(user, 'Number confirmed');
});

pageTest('Wi-Fi, SIM with another number: not verified', { ...android, address: WIFI }, async (user) => {
  await openOnWifi(user);
  await confirmRequests(user, '+990123456702');
  await button(user).click();
  await heading(user, 'Not your number');
});

pageTest('the user declines: the text message follows', { ...android, address: WIFI }, async (user) => {
  const { phone_number, verification_id } = await openOnWifi(user);
  await setWallet(user, { action: 'decline' });
  await button(user).click();
  await isTexting(user);
  assert.equal((await firstStep(user, verification_id)).error_code, 'given_up');
  await sendShownSms(user, phone_number);
  await heading(user, 'Welcome');
});

pageTest('the wallet does not answer in time: the text message follows', { ...android, address: WIFI }, async (user) => {
  await user.context.addInitScript(() => {
    const { timeout } = AbortSignal;
    // The page waits for the wallet longer than a test should take.
    AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, milliseconds === 90_000 ? 500 : milliseconds);
  });
  await openOnWifi(user);
  await setWallet(user, { action: 'wait' });
  await button(user).click();
  await isTexting(user);
});

pageTest('another tab continues while the wallet is open: the page follows', { ...android, address: WIFI }, async (user) => {
  const { url } = await openOnWifi(user);
  await setWallet(user, { action: 'wait' });
  await button(user).click();
  await user.page.getByText('Your mobile operator is confirming your number').waitFor();
  assert.equal(await user.page.evaluate(() => document.activeElement.getAttribute('aria-disabled')), 'true');
  const other = await user.context.newPage();
  await other.goto(`${url}?ip=${WIFI}`);
  await other.getByRole('button', { name: 'Try another way' }).click();
  await isTexting(user);
});

pageTest('the request comes late: the page asks for another tap', { ...android, address: WIFI }, async (user) => {
  // The time that browsers give after a tap cannot pass here: each step of this test counts as one.
  await user.context.addInitScript(() => {
    let taps = 0;
    addEventListener('click', () => { taps += 1; }, true);
    Object.defineProperty(navigator, 'userActivation', { get: () => ({ isActive: taps > 1 }) });
  });
  const { phone_number } = await openOnWifi(user);
  let requests = 0;
  await confirmRequests(user, phone_number, {
    change: (data) => {
      requests += 1;
      return data;
    },
  });
  await button(user).click();
  const again = user.page.getByRole('button', { name: 'Continue' });
  await again.waitFor();
  await user.page.getByRole('status').getByText('Tap the button again').waitFor();
  assert.ok(await again.evaluate((element) => element === document.activeElement), 'the button keeps the focus');
  await again.click();
  await heading(user, 'Welcome');
  assert.equal(requests, 1);
});

for (const [what, path, response, expected] of [
  ['no request', '**/wallet-request*', { status: 503 }, [['error', 200]]],
  ['a refused answer', '**/wallet?*', { status: 413 }, [['digital_credential', 413], ['error', 200]]],
  ['blocked cookies', '**/wallet?*', null, [['digital_credential', 403], ['error', 200]]],
]) {
  pageTest(`${what}: the text message follows`, { ...android, address: WIFI }, async (user) => {
    const { phone_number, verification_id } = await openOnWifi(user);
    const answers = noteAnswers(user);
    await confirmRequests(user, phone_number, { keepsCookies: response !== null });
    if (response) {
      await user.page.route(path, (route) => {
        const { digital_credential } = route.request().postDataJSON();
        return path.includes('request') || digital_credential ? route.fulfill(response) : route.continue();
      });
    }
    await button(user).click();
    await isTexting(user);
    assert.equal((await firstStep(user, verification_id)).error_code, 'not_mobile_ip');
    assert.deepEqual(answers, expected);
  });
}

for (const [what, respond] of [
  ['is lost', () => {}],
  ['is an error of a proxy', (route) => route.fulfill({ status: 502 })],
]) {
  pageTest(`the response to the answer ${what}: the verdict counts`, { ...android, address: WIFI }, async (user) => {
    await user.context.addInitScript((limit) => {
      const { timeout } = AbortSignal;
      AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, milliseconds === limit ? 1000 : milliseconds);
    }, ANSWER_TIMEOUT_MS);
    const { phone_number } = await openOnWifi(user);
    await confirmRequests(user, phone_number);
    const sent = [];
    await user.page.route('**/wallet?*', async (route) => {
      sent.push(...Object.keys(route.request().postDataJSON()));
      await route.fetch();
      await respond(route);
    });
    await button(user).click();
    await heading(user, 'Almost done');
    await user.page.getByRole('link', { name: /^Back to / }).click();
    await heading(user, 'Welcome');
    assert.deepEqual(sent, ['digital_credential']);
  });
}

pageTest('the answer gets lost: the page offers the wallet again', { ...android, address: WIFI }, async (user) => {
  const { phone_number } = await openOnWifi(user);
  const answers = noteAnswers(user);
  await confirmRequests(user, phone_number);
  await user.page.route('**/wallet?*', (route) => route.fulfill({ status: 503 }), { times: 1 });
  const reloaded = user.page.waitForEvent('load');
  await button(user).click();
  await reloaded;
  await button(user).click();
  await heading(user, 'Welcome');
  assert.deepEqual(answers, [['digital_credential', 503], ['digital_credential', 200]]);
});

pageTest('a wallet without a result: the text message follows', { ...android, address: WIFI }, async (user) => {
  await user.context.addInitScript(() => {
    navigator.credentials.get = () => Promise.resolve(null);
  });
  const { verification_id } = await openOnWifi(user);
  await button(user).click();
  await isTexting(user);
  assert.equal((await firstStep(user, verification_id)).error_code, 'not_mobile_ip');
});

pageTest('an operator that hangs: the page offers the wallet', { ...android, address: MOBILE_DATA }, async (user) => {
  const verification = await user.shop.create({ phone_number: nextNumber('98') });
  await user.page.goto(`${verification.url}?ip=${MOBILE_DATA}`, { waitUntil: 'commit' });
  await button(user).waitFor();
  await user.page.getByRole('button', { name: 'Try again' }).waitFor();
  await confirmRequests(user, '+990123456702');
  await button(user).click();
  await heading(user, 'Not your number');
});

pageTest('the user chooses another way while the wallet waits', { ...android, address: WIFI }, async (user) => {
  await openOnWifi(user);
  await setWallet(user, { action: 'wait' });
  await button(user).click();
  await user.page.getByText('Your mobile operator is confirming your number').first().waitFor();
  await user.page.getByRole('button', { name: 'Try another way' }).click();
  await isTexting(user);
});

/** Changes a character in the middle of a text. */
const tamper = (text, at = Math.floor(text.length / 2)) =>
  `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`;

for (const [what, options] of [
  ['forged', {
    change: ({ vp_token }) => ({
      vp_token: Object.fromEntries(Object.entries(vp_token).map(([id, [token]]) => [id, [tamper(token)]])),
    }),
  }],
  ['of another site', { origin: 'https://elsewhere.example' }],
  ['malformed', { change: () => ({ vp_token: {} }) }],
]) {
  pageTest(`an answer that is ${what}: the text message follows`, { ...android, address: WIFI }, async (user) => {
    const { phone_number, verification_id } = await openOnWifi(user);
    await confirmRequests(user, phone_number, options);
    await button(user).click();
    await isTexting(user);
    assert.equal((await firstStep(user, verification_id)).error_code, 'mno_response_error');
  });
}

pageTest('the answer of another verification: the text message follows', { ...android, address: WIFI }, async (user) => {
  const { phone_number } = await openOnWifi(user);
  let other;
  await confirmRequests(user, phone_number, { change: (data) => (other ??= data) });
  await setWallet(user, { action: 'wait' });
  await user.page.evaluate((url) => fetch(url, { method: 'POST' }), await user.page.locator('body').getAttribute('data-wallet-request'));
  assert.ok(other);
  const second = await openOnWifi(user);
  await button(user).click();
  await isTexting(user);
  assert.equal((await firstStep(user, second.verification_id)).error_code, 'mno_response_error');
});

for (const [ending, code] of [['99', 'mno_server_error'], ['95', 'mno_timeout']]) {
  pageTest(`number ending in ${ending}: the operator refuses the token, then the text message`, {
    ...android, address: WIFI,
  }, async (user) => {
    const { phone_number, verification_id } = await openOnWifi(user, { phone_number: nextNumber(ending) });
    await confirmRequests(user, phone_number);
    await button(user).click();
    await isTexting(user);
    assert.equal((await firstStep(user, verification_id)).error_code, code);
  });
}

pageTest('mobile data fails: the page offers the wallet', { ...android, address: MOBILE_DATA }, async (user) => {
  const { phone_number } = await open(user, { phone_number: nextNumber('99'), device_ip: undefined }, { ip: MOBILE_DATA });
  await button(user).waitFor();
  await inspect(user.page);
  // The simulated operator answers for the other SIM, so there is a verdict.
  await confirmRequests(user, '+990123456702');
  await button(user).click();
  await heading(user, 'Not your number');
  assert.ok(phone_number.endsWith('99'));
});

pageTest('mobile data fails again: the page still offers the wallet', { ...android, address: MOBILE_DATA }, async (user) => {
  await open(user, { phone_number: nextNumber('99'), device_ip: undefined }, { ip: MOBILE_DATA });
  await button(user).waitFor();
  const left = user.page.waitForRequest((request) => request.url().includes('/v1/sandbox/operator/authorize'));
  await user.page.getByRole('button', { name: 'Try again' }).click();
  await left;
  await button(user).waitFor();
});

pageTest('the wallet is left: other links keep its button', { ...android, address: MOBILE_DATA }, async (user) => {
  const { page } = user;
  const redirects = [];
  page.on('request', (request) => new URL(request.url()).pathname.endsWith('/silent') && redirects.push(request.url()));
  await open(user, { device_ip: undefined }, { ip: MOBILE_DATA, start: 'wallet' });
  await button(user).waitFor();
  await page.getByRole('link', { name: 'Not your number?' }).click();
  await page.getByRole('link', { name: 'Go back' }).click();
  await button(user).waitFor();
  await page.getByText('Language').click();
  await page.getByRole('link', { name: 'Deutsch' }).click();
  await page.getByRole('button', { name: 'Mit Telefon bestätigen' }).waitFor();
  assert.deepEqual(redirects, []);
});

pageTest('mobile data works: the wallet is not asked', { ...android, address: MOBILE_DATA }, async (user) => {
  await setWallet(user, { action: 'decline' });
  await open(user, { device_ip: undefined }, { ip: MOBILE_DATA });
  await heading(user, 'Welcome');
});

pageTest('a browser without wallets: the text message follows without a tap', { ...android, address: WIFI }, async (user) => {
  await user.context.addInitScript(() => delete window.DigitalCredential);
  await open(user, { device_ip: undefined }, { ip: WIFI });
  await isTexting(user);
});

pageTest('a browser without JavaScript: the text message follows without a tap', {
  ...android, javaScriptEnabled: false, address: WIFI,
}, async (user) => {
  await open(user, { device_ip: undefined }, { ip: WIFI });
  await isTexting(user);
});

for (const [what, device] of [['a computer', computer], ['an iPhone', iphone]]) {
  pageTest(`${what}: no button for a wallet`, { ...device, address: WIFI }, async (user) => {
    await open(user, { device_ip: undefined }, { ip: WIFI });
    await isTexting(user);
  });
}
