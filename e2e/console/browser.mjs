// Debian's Chromium at the console of a real `ringtrue dev`: a journey is somebody's visit, from their first page to
// their last, and fails by itself when a page asks for anything outside, breaks a rule of its own, or says an error.
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { startRingtrue } from '../ringtrue.mjs';
import { SCREENSHOTS, WIDE, look } from './look.mjs';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Whatever a page asks for, nothing leaves this machine.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
];
const PATIENCE = 30_000;
export const PASSWORD = 'correct horse battery staple';

let ringtrue;
let browser;
// The link is good once.
let demoSession;

// Each file of tests has a deployment and a browser of its own.
before(async () => {
  await mkdir(SCREENSHOTS, { recursive: true });
  ringtrue = await startRingtrue();
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });
});
after(async () => {
  await browser?.close();
  assert.equal(await ringtrue.stop(), 0, 'SIGTERM ends it in good order');
});

/** A test that is one person's visit, with options of Playwright's for their browser. */
export function journey(name, walk, options) {
  test(name, { timeout: 120_000 }, () => visit((visitor) => walk(visitor, ringtrue), options));
}

/** A visit, from the first page to the last. */
export async function visit(walk, options = {}) {
  const visitor = await Visitor.arrive(options);
  try {
    await walk(visitor);
    assert.deepEqual(visitor.faults, [], 'nothing goes wrong on the way');
  } catch (error) {
    await visitor.page.screenshot({ path: `${SCREENSHOTS}/failed.png`, fullPage: true }).catch(() => {});
    throw error;
  } finally {
    await visitor.context.close();
  }
}

/** Somebody at a browser that has no cookies yet. */
class Visitor {
  /** What went wrong so far. */
  faults = [];
  /** Answers that the journey means to get. */
  #refusals = new Set();

  static async arrive(options) {
    const context = await browser.newContext({ baseURL: ringtrue.base_url, viewport: WIDE, ...options });
    context.setDefaultTimeout(PATIENCE);
    const visitor = new Visitor();
    visitor.context = context;
    visitor.#watch(context);
    visitor.page = await context.newPage();
    return visitor;
  }

  #watch(context) {
    const home = new URL(ringtrue.base_url).origin;
    context.on('request', (request) => {
      const url = new URL(request.url());
      if (url.origin !== home && url.protocol !== 'data:') this.faults.push(`asks outside: ${url.origin}`);
    });
    context.on('response', (response) => {
      const path = new URL(response.url()).pathname;
      if (response.status() >= 400 && !this.#refusals.has(response.status())) {
        this.faults.push(`${response.status()} from ${response.request().method()} ${path}`);
      }
    });
    // Chromium repeats the status of an answer here: of those, the line above has judged already.
    context.on('console', (message) => {
      const isStatus = message.text().startsWith('Failed to load resource: the server responded');
      if (message.type() === 'error' && !isStatus) this.faults.push(`says ${message.text()}`);
    });
    context.on('weberror', (error) => this.faults.push(`throws ${error.error()}`));
  }

  /** From here on an answer with this status is what the journey is about. */
  expectRefusal(status) {
    this.#refusals.add(status);
  }

  /** Comes in as who runs the deployment, by the link that `ringtrue dev` prints, to its sandbox project. */
  async enterDemo() {
    const { workspace, project } = ringtrue;
    if (demoSession) await this.context.addCookies(demoSession);
    else await this.page.goto(ringtrue.console_link);
    demoSession ??= await this.context.cookies();
    await this.page.goto(`/console/workspaces/${workspace.workspace_id}/projects/${project.project_id}`);
    await this.#isIn();
  }

  /** Comes in by an invitation, and chooses a password. */
  async acceptInvitation(link) {
    await this.page.goto(link);
    await this.page.getByLabel('Password').fill(PASSWORD);
    await this.page.getByLabel('The same again').fill(PASSWORD);
    await this.page.getByRole('button', { name: /^(Set password and sign in|Create account and accept)$/ }).click();
    await this.#isIn();
  }

  async #isIn() {
    await this.page.getByRole('button', { name: 'Sign out' }).waitFor();
  }

  /** Loads a page that does not change by itself until it shows what is to come. */
  async reloadUntilSeen(locator) {
    const deadline = AbortSignal.timeout(PATIENCE);
    while ((await locator.count()) === 0) {
      deadline.throwIfAborted();
      await this.page.reload();
    }
  }

  /** Opens a page by its entry in one of the menu's lists: Workspace, Project or Deployment. */
  async choose(list, entry) {
    const menu = this.page.getByRole('navigation', { name: 'Console' }).getByRole('list', { name: list });
    await menu.getByRole('link', { name: entry, exact: true }).click();
    // On narrow screens the menu is folded again.
    await this.page.locator('.menu [aria-current=page]', { hasText: entry }).first().waitFor({ state: 'attached' });
  }

  /** Looks closely at the page that is open: on wide and narrow screens, by day and by night. */
  async look(name) {
    this.faults.push(...(await look(this.page, name)));
  }
}
