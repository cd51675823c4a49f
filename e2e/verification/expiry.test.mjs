// Users who do nothing: the verification expires at each step, and the open page shows it by itself.
import { describe } from 'node:test';
import { DEVICES, MOBILE_DATA, WIFI, inspect, nextNumber, open, pageTest, sendShownSms } from './browser.mjs';

const { android, computer } = DEVICES;
/** The shortest that a project can set. */
const TTL_SECONDS = 60;
const EXPIRY_TIMEOUT = { timeout: (TTL_SECONDS + 20) * 1000 };

// At the same time, because they wait.
describe('an open page shows that its verification has expired', { concurrency: true }, () => {
  pageTest('at the silent step and at the text step', { ...android, address: WIFI }, async (user) => {
    const { page, context, shop } = user;
    await shop.configure({ ttl: TTL_SECONDS });
    // Waits for a tap.
    await open({ ...user, address: MOBILE_DATA }, { redirect_url: undefined });
    await page.getByRole('heading', { name: 'Confirm your phone number' }).waitFor();

    // The operator loses the text messages of this number.
    const texting = { ...user, page: await context.newPage() };
    const { phone_number } = await open(texting, { phone_number: nextNumber('98'), methods: ['reverse_sms'] });
    await texting.page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
    await sendShownSms(texting, phone_number);

    await page.getByRole('heading', { name: 'This link has expired' }).waitFor(EXPIRY_TIMEOUT);
    await inspect(page);
    await texting.page.getByRole('heading', { name: 'This link has expired' }).waitFor(EXPIRY_TIMEOUT);
    await texting.page.getByRole('link', { name: /^Back to / }).click();
    await texting.page.getByRole('heading', { name: 'Not signed up: expired' }).waitFor();
  });

  pageTest('without JavaScript', { ...computer, address: WIFI, javaScriptEnabled: false }, async (user) => {
    await user.shop.configure({ ttl: TTL_SECONDS });
    await open(user);
    await user.page.getByRole('heading', { name: 'Send us a text message' }).waitFor();
    await user.page.getByRole('heading', { name: 'This link has expired' }).waitFor(EXPIRY_TIMEOUT);
  });
});
