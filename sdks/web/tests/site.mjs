// A shop with sign-up pages that use the library, against a real `ringtrue dev`. The same server is two origins.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { chromium } from 'playwright-core';
import { Backend } from '../../../e2e/console/backend.mjs';
import { startRingtrue } from '../../../e2e/ringtrue.mjs';

export const TIMEOUT_MS = 30_000;
/** Addresses of the sandbox, which the shop announces. */
export const MOBILE_DATA = '203.0.113.7';
export const WIFI = '198.51.100.7';
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
];

/** Playwright lets all pop-ups open, unless `blocksPopups`. Only the build with a user interface can block them; the other
 * one needs two thirds of its processor time. */
export function launchBrowser({ blocksPopups = false } = {}) {
  const executablePath = blocksPopups ? '/usr/bin/chromium' : '/usr/bin/chromium-headless-shell';
  const ignoreDefaultArgs = blocksPopups ? ['--disable-popup-blocking'] : [];
  return chromium.launch({ executablePath, args: FLAGS, ignoreDefaultArgs });
}

let numbers = 0;

export async function startSite() {
  const ringtrue = await startRingtrue();
  const backend = new Backend(ringtrue);
  const library = await readFile(new URL('../dist/ringtrue.min.js', import.meta.url));
  const pages = new Map();
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, origin);
    const send = (type, body) => response.writeHead(200, { 'content-type': type }).end(body);
    if (url.pathname === '/ringtrue.min.js') return send('text/javascript', library);
    if (url.pathname === '/back') {
      const result = await site.redeem(Object.fromEntries(url.searchParams));
      return send('text/html', `<!doctype html><html lang="en"><title>Shop</title><h1>${headline(result)}</h1></html>`);
    }
    if (pages.has(url.pathname)) return send('text/html', pages.get(url.pathname));
    response.writeHead(404).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  const origin = `http://127.0.0.1:${port}`;
  const site = {
    origin,
    /** The origin of another site. */
    elsewhere: `http://localhost:${port}`,
    ringtrue,
    /** Serves a page, and returns its path. */
    page(html) {
      const path = `/page${pages.size}`;
      const head = '<meta name="viewport" content="width=device-width"><title>Shop</title>';
      pages.set(path, `<!doctype html><html lang="en">${head}${html}</html>`);
      return path;
    },
    /** Creates a verification as the shop's backend does. `number` is the number of its SIM. */
    async create(body = {}) {
      numbers += 1;
      const number = `+99017${String(numbers).padStart(5, '0')}00`;
      // On Wi-Fi, browsers with a wallet are offered it. These tests want a text message.
      const device = 'device_ip' in body ? {} : { device_ip: WIFI, methods: ['reverse_sms'] };
      const request = { phone_number: number, redirect_url: `${origin}/back?cart=1`, ...device, ...body };
      const response = await backend.call('verification', '/v1/verifications', request);
      if (response.status !== 201) throw new Error(`create failed: ${response.status} ${await response.text()}`);
      return { number, ...(await response.json()) };
    },
    /** Redeems what the browser brings back. */
    async redeem({ verification_id, code, error }) {
      if (!code) return { error };
      const response = await backend.call('verification', `/v1/verifications/${verification_id}`, { code });
      return response.json();
    },
    read: async (id) => (await backend.call('verification', `/v1/verifications/${id}`)).json(),
    /** Sends the SMS that the hosted page shows. */
    async sendShownSms(view, number) {
      const [receiver_phone_number, expected_sms_body] = await Promise.all(
        ['#receiver', '#body'].map((id) => view.locator(id).textContent()),
      );
      await backend.sendSms(number, { receiver_phone_number, expected_sms_body });
    },
    /** Changes the settings of verifications in the project. */
    configure: (verification) => patchProject(ringtrue, { configuration: { verification } }),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await ringtrue.stop();
    },
  };
  return site;
}

function headline({ status, match, error }) {
  if (error) return `Not signed up: ${error}`;
  return status === 'COMPLETED' && match ? 'Welcome' : 'Not your number';
}

async function patchProject({ base_url, workspace, project }, body) {
  const { client_id, client_secret, workspace_id } = workspace;
  const granted = await fetch(`${base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'management' }),
  });
  const { access_token } = await granted.json();
  const path = `/v1/management/workspaces/${workspace_id}/projects/${project.project_id}`;
  const response = await fetch(`${base_url}${path}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`patch failed: ${response.status} ${await response.text()}`);
}
