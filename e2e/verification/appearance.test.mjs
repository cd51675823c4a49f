// How the hosted verification page looks on phones and computers, its languages, and what it does in hostile browsers.
import assert from 'node:assert/strict';
import { DEVICES, MOBILE_DATA, WIFI, inspect, open, pageTest, sendShownSms } from './browser.mjs';

const { iphone, android, computer } = DEVICES;
const smsPage = (page) => page.getByRole('heading', { name: 'Send us a text message' }).waitFor();

pageTest('computer: the code comes first, and no button for a messaging app', { ...computer, address: WIFI }, async (user) => {
  const { page } = user;
  await open(user);
  await smsPage(page);
  assert.equal(await page.getByRole('link', { name: 'Open messaging app' }).isVisible(), false);
  assert.equal(await page.getByRole('listitem').filter({ visible: true }).count(), 3, 'three steps');
  const code = await page.getByRole('img', { name: 'QR code with the text message' }).boundingBox();
  const steps = await page.getByRole('list').first().boundingBox();
  assert.ok(code.width > 250, `${code.width} pixels`);
  assert.ok(code.x + code.width <= steps.x, 'two columns');
  await inspect(page);
  await page.setViewportSize({ width: 480, height: 720 });
  const [above, below] = [await page.getByRole('img').first().boundingBox(), await page.getByRole('list').first().boundingBox()];
  assert.ok(above.y + above.height <= below.y, 'one column in a pop-up window');
});

pageTest('computer: a silent check continues on the phone', { ...computer, address: MOBILE_DATA }, async (user) => {
  const { page } = user;
  await open({ ...user, address: undefined }, { redirect_url: undefined });
  await page.getByRole('img', { name: 'QR code with this page' }).waitFor();
  assert.equal(await page.getByText('turn off Wi-Fi').isVisible(), false);
  assert.equal(await page.getByRole('button', { name: 'Confirm this phone' }).isVisible(), false);
  // A computer may have mobile data, too.
  await page.getByRole('button', { name: 'Continue on this device' }).click();
  await page.getByRole('heading', { name: 'Number confirmed' }).waitFor();
});

for (const [name, device] of Object.entries({ iphone, android })) {
  pageTest(`${name}: one button, and the text below it`, { ...device, address: WIFI }, async (user) => {
    const { page } = user;
    await open(user);
    await smsPage(page);
    const button = await page.getByRole('link', { name: 'Open messaging app' }).boundingBox();
    const text = await page.locator('#body').boundingBox();
    assert.ok(button.y < text.y);
    assert.equal(await page.locator('.qr').count(), 0, 'no code');
    assert.ok(button.y + button.height < 844, 'without scrolling');
  });
}

pageTest('every language fits a small phone', { ...android, address: WIFI }, async (user) => {
  const { page } = user;
  const { url: silent } = await open({ ...user, address: MOBILE_DATA }, { redirect_url: undefined });
  await page.getByRole('button', { name: 'Confirm this phone' }).waitFor();
  const { url } = await open(user);
  await smsPage(page);
  const tags = await page.locator('footer a[lang]').evaluateAll((links) => links.map(({ lang }) => lang));
  assert.equal(tags.length, 19);
  await page.setViewportSize({ width: 320, height: 640 });
  const problems = [];
  for (const [link, query] of [[silent, ''], [url, ''], [url, '&ask=give_up'], [url, '&ask=wrong_number']]) {
    for (const lang of ['en', ...tags]) {
      await page.goto(`${link}?lang=${lang}${query}`);
      const found = await page.evaluate(() => {
        const oneLine = 3.5 * Number.parseFloat(getComputedStyle(document.body).fontSize);
        const buttons = [...document.querySelectorAll('.button, button')];
        const tall = buttons.filter((button) => button.getBoundingClientRect().height > oneLine);
        const { scrollWidth, clientWidth } = document.documentElement;
        return [...tall.map(({ textContent }) => textContent), ...(scrollWidth > clientWidth ? ['too wide'] : [])];
      });
      problems.push(...found.map((problem) => `${lang}${query}: ${problem}`));
    }
  }
  assert.deepEqual(problems, []);
});

pageTest('users switch the language', { ...android, address: WIFI }, async (user) => {
  const { page } = user;
  const { phone_number } = await open(user);
  await smsPage(page);
  await page.getByText('Language: English').click();
  await inspect(page);
  await page.getByRole('link', { name: 'Deutsch' }).click();
  await page.getByRole('heading', { name: 'Senden Sie uns eine SMS' }).waitFor();
  await page.getByText('Sprache: Deutsch').click();
  await page.getByRole('link', { name: 'العربية' }).click();
  await page.locator('html[lang=ar][dir=rtl]').waitFor();
  await inspect(page);
  await sendShownSms(user, phone_number);
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('events that a proxy holds back: the page polls', { ...android, address: WIFI }, async (user) => {
  const { page, context } = user;
  await context.route((url) => url.pathname.endsWith('/events'), () => {});
  const { phone_number } = await open(user);
  await smsPage(page);
  await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname.endsWith('/state')),
    sendShownSms(user, phone_number),
  ]);
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('refused events: the page polls', { ...android, address: WIFI }, async (user) => {
  const { page, context } = user;
  await context.route((url) => url.pathname.endsWith('/events'), (route) => route.fulfill({ status: 429 }));
  const { phone_number } = await open(user);
  await smsPage(page);
  await sendShownSms(user, phone_number);
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('copying without the clipboard API', { ...computer, address: WIFI }, async (user) => {
  const { page, context } = user;
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.addInitScript(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await open(user);
  await page.getByRole('button', { name: 'Copy message' }).click();
  await page.getByText('Copied', { exact: true }).waitFor();
  const body = await page.locator('#body').textContent();
  const other = await context.newPage();
  await other.goto(`${user.base}/docs`);
  await other.bringToFront();
  assert.equal(await other.evaluate(() => navigator.clipboard.readText()), body);
});

pageTest('copying that the browser refuses: the page says so', { ...computer, address: WIFI }, async (user) => {
  const { page } = user;
  await page.addInitScript(() => {
    Object.defineProperty(navigator, 'clipboard', { value: undefined });
    document.execCommand = () => false;
  });
  await open(user);
  await page.getByRole('button', { name: 'Copy number' }).click();
  await page.getByText('Your browser blocked copying.').waitFor();
  const selected = await page.evaluate(() => getSelection().toString());
  assert.equal(selected, await page.locator('#receiver').textContent());
});

pageTest('the time left is counted down near the end', { ...android, address: WIFI }, async (user) => {
  const { page, shop } = user;
  await open(user);
  await smsPage(page);
  assert.equal(await page.getByRole('timer').isVisible(), false, 'ten minutes are left');
  await shop.configure({ ttl: 60 });
  try {
    await open(user);
    await page.getByRole('timer').waitFor();
    const shown = async () => Number(/^Time left: 0:(\d\d)$/.exec(await page.getByRole('timer').textContent())[1]);
    const first = await shown();
    await page.waitForFunction((first) => !document.querySelector('[role=timer]').textContent.endsWith(first), String(first).padStart(2, '0'));
    assert.ok((await shown()) < first);
    await inspect(page);
  } finally {
    await shop.configure({ ttl: null });
  }
});

pageTest('the end has a sign, and the tab says what happened', { ...android, address: WIFI }, async (user) => {
  const { page, shop } = user;
  await shop.configure({ brand: { name: 'Nordwind', support_url: 'https://nordwind.example/help' } });
  const { phone_number } = await open(user, { redirect_url: undefined, methods: ['reverse_sms'] });
  await smsPage(page);
  const support = page.getByRole('link', { name: 'Need help?' });
  assert.equal(await support.getAttribute('href'), 'https://nordwind.example/help');
  await sendShownSms(user, phone_number);
  await page.getByRole('heading', { name: 'Number confirmed' }).waitFor();
  assert.equal(await page.title(), 'Number confirmed – Nordwind');
  assert.ok(await page.locator('.sign.good').isVisible());
  await inspect(page);
});
