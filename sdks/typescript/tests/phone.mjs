// What users do: their phones and browsers.
import assert from 'node:assert/strict';
import { request } from 'node:http';

/** Opens the URL of a silent check, and returns the JSON at the end. */
export async function openSilently(url) {
  const response = await fetch(url, { headers: { accept: 'application/json' } });
  return response.json();
}

/** Sends the prepared SMS of a check or step. */
export async function sendSms(ringtrue, from, { receiver_phone_number: to, expected_sms_body: body }) {
  await ringtrue.sandbox.sendSms({ from, to, body });
}

// Headers of a browser that the page itself sends to one of its URLs.
const NAVIGATION = { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

/** A browser with cookies, without JavaScript. */
export class Browser {
  #cookies = new Map();

  /** Sends a request. `fetch` would set its own `Sec-Fetch-Mode`. */
  async send(url, { method = 'GET', headers = {}, body = '' } = {}) {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const options = { method, headers: { ...NAVIGATION, ...headers, ...(cookie && { cookie }) } };
    const response = await new Promise((resolve, reject) => {
      request(url, options, resolve).on('error', reject).end(body);
    });
    for (const text of response.headers['set-cookie'] ?? []) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(text);
      this.#cookies.set(name, value);
    }
    let text = '';
    for await (const chunk of response) text += chunk;
    return { status: response.statusCode, location: response.headers.location, text };
  }

  /** Runs the silent check of the hosted page. Returns the URL to which the page sends the browser, without opening it. */
  async checkSilently(pageUrl, returnUrl) {
    const leaving = await this.send(`${pageUrl}/silent`);
    let url = unescapeHtml(/data-operator="([^"]+)"/.exec(leaving.text)[1]);
    for (let hop = 0; hop < 10; hop++) {
      if (url.startsWith(returnUrl)) return url;
      const { status, location, text } = await this.send(url);
      assert.ok(location, `${status} ${text}`);
      url = new URL(location, url).href;
    }
    throw new Error('too many redirects');
  }

  /** Submits a form of the hosted page. */
  async submit(url, fields) {
    const origin = new URL(url).origin;
    const headers = { origin, 'content-type': 'application/x-www-form-urlencoded' };
    return this.send(url, { method: 'POST', body: new URLSearchParams(fields).toString(), headers });
  }

  /** The link back to the shop, which the page has at the end. */
  async returnLink(pageUrl, returnUrl) {
    // The events end with the verification.
    await this.send(`${pageUrl}/events`, { headers: { accept: 'text/event-stream' } });
    const { text } = await this.send(pageUrl);
    return unescapeHtml(text.slice(text.indexOf(`href="${returnUrl}`) + 6).split('"', 1)[0]);
  }
}

const unescapeHtml = (text) =>
  text.replace(/&amp;|&#38;/g, '&').replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
