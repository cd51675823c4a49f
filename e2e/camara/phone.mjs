// A phone on a mobile network. It follows redirects as the browser of an app does, from an address of its own.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';

/** More than any chain has, and few enough to notice a loop. */
const MAX_HOPS = 12;

export class Phone {
  #address;
  #sim;
  #insert;
  #cookies = new Map();

  /** `sim` names the simulated SIM to a sandbox project. `insert` returns the headers that the network adds to a request
   * to a URL, such as the number of the subscriber. */
  constructor({ address = '127.0.0.1', sim, insert = () => ({}) } = {}) {
    this.#address = address;
    this.#sim = sim;
    this.#insert = insert;
  }

  /** Sends one request, and does not follow its redirect. */
  async get(url) {
    const cookies = this.#cookies.get(url.origin) ?? new Map();
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const sent = request(url, {
      // `fetch` cannot choose the address.
      localAddress: this.#address,
      agent: false,
      headers: { accept: '*/*', ...(cookie && { cookie }), ...this.#insert(url) },
    }).end();
    const [response] = await once(sent, 'response');
    const chunks = [];
    for await (const chunk of response) chunks.push(chunk);
    for (const line of response.headers['set-cookie'] ?? []) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    this.#cookies.set(url.origin, cookies);
    return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks).toString() };
  }

  /** Follows redirects until there is none, or until the next URL begins with `end`, which is not opened. Returns the
   * hops with their responses, and the last response or the URL of the end. */
  async follow(start, end) {
    const hops = [];
    let next = new URL(start);
    for (;;) {
      if (this.#sim && next.pathname === '/oauth2/authorize') next.searchParams.set('sim', this.#sim);
      const response = await this.get(next);
      hops.push({ url: next, ...response });
      assert.ok(hops.length <= MAX_HOPS, `the chain does not end:\n${hops.map(({ url }) => url).join('\n')}`);
      const { location } = response.headers;
      if (!location) return { hops, response };
      next = new URL(location, next);
      if (end !== undefined && next.href.startsWith(end)) return { hops, url: next };
    }
  }
}
