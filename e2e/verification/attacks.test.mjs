// Two browser profiles: somebody who knows a victim's number, and the victim, whose phone has it. Whatever the victim is
// made to open, the attacker's verification is not finished by it.
import assert from 'node:assert/strict';
import { DEVICES, MOBILE_DATA, open, pageTest } from './browser.mjs';

const phone = { ...DEVICES.android, address: MOBILE_DATA };

/** Begins a silent check in a browser, and returns the URL at the operator instead of going there. */
async function beginAndIntercept({ page, context }, begin) {
  const isOperator = (url) => url.pathname === '/v1/sandbox/operator/authorize';
  let resolve;
  const caught = new Promise((found) => { resolve = found; });
  await context.route(isOperator, (route) => {
    resolve(route.request().url());
    return route.abort('aborted');
  });
  await begin(page);
  const url = await caught;
  await context.unroute(isOperator);
  return url;
}

for (const [name, redirect_url] of [['without', null], ['with', undefined]]) {
  pageTest(`the victim follows the attacker's link, ${name} a redirect URL`, phone, async (attacker) => {
    const { shop } = attacker;
    const body = redirect_url === null ? { redirect_url: undefined } : {};
    let verification;
    const authorize = await beginAndIntercept(attacker, async (page) => {
      verification = await open(attacker, body);
      if (redirect_url === null) await page.getByRole('button', { name: 'Confirm this phone' }).click();
    });
    const victim = await attacker.newProfile();
    // As an image, and as a link.
    const image = victim.page.waitForRequest((request) => request.url().includes('/southbound/'));
    await victim.page.goto(shop.pageElsewhere(`<h1>Cats</h1><img src="${authorize.replaceAll('&', '&amp;')}">`));
    await image;
    await victim.page.goto(authorize);
    await victim.page.getByRole('heading', { name: 'Started in another browser' }).waitFor();
    assert.ok(victim.page.url().startsWith(victim.base), 'the victim is not sent to the shop');
    const { status, match } = await shop.read(verification.verification_id);
    assert.deepEqual([status, match], ['PENDING', undefined]);
    // The attacker's page has learned nothing.
    await attacker.page.goto(verification.url);
    await attacker.page.getByRole('heading', { name: 'No answer yet' }).waitFor();
    assert.ok(!(await attacker.page.content()).includes('code='));
    // The state was not consumed: the browser that began may still finish, and does so with its own phone.
    const tab = await attacker.context.newPage();
    await tab.goto(authorize);
    const end = redirect_url === null ? 'Number confirmed' : 'Welcome';
    await tab.getByRole('heading', { name: end }).waitFor();
  });
}

pageTest('images, links and frames of other sites start nothing', phone, async (victim) => {
  const { page, shop } = victim;
  const { url, verification_id } = await shop.create({ phone_number: '+990152000000', device_ip: MOBILE_DATA });
  const refused = page.waitForResponse((response) => response.url().endsWith('/silent'));
  await page.goto(shop.pageElsewhere(`<img src="${url}/silent">`));
  assert.equal((await refused).status(), 303);
  assert.equal((await shop.read(verification_id)).status, 'ACCEPTED');
  for (const framed of [url, `${url}/silent`]) {
    const response = page.waitForResponse((response) => response.url() === framed);
    await page.goto(shop.pageElsewhere(`<iframe src="${framed}"></iframe>`));
    await response;
    // The browser shows an error in place of the page, which could go on by itself.
    await page.waitForTimeout(1000);
    assert.equal(await page.frameLocator('iframe').locator('[data-state]').count(), 0);
    assert.equal((await shop.read(verification_id)).status, 'ACCEPTED');
  }
  await page.goto(shop.pageElsewhere(`<a href="${url}/silent">Cats</a>`));
  // The link leads to the page, which is the victim's own visit, with the victim's cookie. It waits for a tap.
  const requests = [];
  page.on('request', (request) => requests.push(new URL(request.url()).pathname.replace(/.*\/v\/[^/]+/, '/v')));
  await page.getByRole('link', { name: 'Cats' }).click();
  await page.getByRole('button', { name: 'Confirm this phone' }).waitFor();
  const visited = requests.filter((path) => path === '/v' || path === '/v/silent');
  assert.deepEqual(visited, ['/v/silent', '/v']);
  assert.equal((await shop.read(verification_id)).status, 'ACCEPTED');
  await page.getByRole('button', { name: 'Confirm this phone' }).click();
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('a second tab gets no code after the first was redeemed', phone, async (user) => {
  const { page, newProfile, shop } = user;
  const { url, verification_id } = await open(user);
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
  for (const { page: tab } of [await newProfile(), { page: await user.context.newPage() }]) {
    await tab.goto(url);
    await tab.getByRole('heading', { name: 'Number confirmed' }).waitFor();
    const content = await tab.content();
    assert.ok(!content.includes('code=') && !content.includes('data-return-to'), content);
  }
  assert.equal((await shop.read(verification_id)).status, 'COMPLETED');
});

pageTest('two verifications in two tabs of one browser', phone, async (user) => {
  const second = { ...user, page: await user.context.newPage() };
  await Promise.all([open(user), open(second)]);
  for (const { page } of [user, second]) await page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

pageTest('one verification in two tabs of one browser', phone, async (user) => {
  const { page, context } = user;
  let verification;
  const first = await beginAndIntercept(user, async () => { verification = await open(user); });
  // The other tab tries again before the first comes back.
  const tab = await context.newPage();
  const second = await beginAndIntercept({ page: tab, context }, async () => {
    await tab.goto(verification.url);
    await tab.getByRole('button', { name: 'Try again' }).click();
  });
  await page.goto(first);
  await page.getByRole('heading', { name: 'No answer yet' }).waitFor();
  await tab.goto(second);
  await tab.getByRole('heading', { name: 'Welcome' }).waitFor();
  await page.getByRole('heading', { name: 'Number confirmed' }).waitFor();
});

pageTest('a lost return is given again to the browser that began, and to no other', phone, async (user) => {
  const { page, context, shop, newProfile } = user;
  const isReturn = (request) => request.url().startsWith(`${shop.origin}/down`);
  const lost = context.waitForEvent('requestfailed', { predicate: isReturn });
  const { verification_id } = await open(user, { redirect_url: `${shop.origin}/down` });
  const code = new URL((await lost).url()).searchParams.get('code');
  assert.ok(code, 'the shop was down when the browser returned');
  const { url } = await shop.read(verification_id);
  const other = await newProfile();
  await other.page.goto(url);
  await other.page.getByRole('heading', { name: 'Almost done' }).waitFor();
  assert.ok(!(await other.page.content()).includes(code));
  await page.goto(url);
  const link = page.getByRole('link', { name: /^Back to / });
  assert.equal(new URL(await link.getAttribute('href')).searchParams.get('code'), code);
  assert.equal(await shop.redeem(verification_id, code), 200);
});
