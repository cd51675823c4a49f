// Console tests in Debian's Chromium, against a real `ringtrue dev`. A test fails if a page sends a request to another
// origin, violates its content security policy, or logs an error.
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { launchChromium } from '../chromium.mjs';
import { startRingtrue } from '../ringtrue.mjs';
import { SCREENSHOTS, WIDE, inspectPage } from './inspect_page.mjs';

const TIMEOUT_MS = 30_000;
export const PASSWORD = 'correct horse battery staple';

/** Origins that tests visit besides the server's. */
export const otherOrigins = [];

let ringtrue;
let browser;
// Reused, because the console link is single-use.
let demoSession;

/** Settings of the deployment, as environment variables. Test files add theirs when they are loaded. */
export const settings = {};

// Each test file has its own deployment and browser.
before(async () => {
  await mkdir(SCREENSHOTS, { recursive: true });
  ringtrue = await startRingtrue(settings);
  browser = await launchChromium();
});
after(async () => {
  await browser?.close();
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

/** Defines a test with one visitor. `options` are those of Playwright's browser context. */
export function consoleTest(name, steps, options) {
  test(name, { timeout: 120_000 }, () => visit((visitor) => steps(visitor, ringtrue), options));
}

/** Runs steps in a new browser context, and asserts that no page had an error. */
export async function visit(steps, options = {}) {
  const visitor = await Visitor.start(options);
  try {
    await steps(visitor);
    assert.deepEqual(visitor.errors, [], 'no errors on any page');
  } catch (error) {
    await visitor.page.screenshot({ path: `${SCREENSHOTS}/failed.png`, fullPage: true }).catch(() => {});
    throw error;
  } finally {
    await visitor.context.close();
  }
}

/** A user with a new browser context, without cookies. */
class Visitor {
  /** Errors found so far. */
  errors = [];
  /** Error statuses that the test expects. */
  #expectedStatuses = new Set();

  static async start(options) {
    const context = await browser.newContext({ baseURL: ringtrue.base_url, viewport: WIDE, ...options });
    context.setDefaultTimeout(TIMEOUT_MS);
    const visitor = new Visitor();
    visitor.context = context;
    visitor.#watch(context);
    visitor.page = await context.newPage();
    return visitor;
  }

  #watch(context) {
    const ownOrigin = new URL(ringtrue.base_url).origin;
    context.on('request', (request) => {
      const url = new URL(request.url());
      const isAllowed = [ownOrigin, ...otherOrigins].includes(url.origin) || url.protocol === 'data:';
      if (!isAllowed) this.errors.push(`foreign request: ${url.origin}`);
    });
    context.on('response', (response) => {
      const path = new URL(response.url()).pathname;
      if (response.status() >= 400 && !this.#expectedStatuses.has(response.status())) {
        this.errors.push(`${response.status()} from ${response.request().method()} ${path}`);
      }
    });
    // Chromium also logs error statuses, which the response handler above has checked.
    context.on('console', (message) => {
      const isStatus = message.text().startsWith('Failed to load resource: the server responded');
      if (message.type() === 'error' && !isStatus) this.errors.push(`console error: ${message.text()}`);
    });
    context.on('weberror', (error) => this.errors.push(`uncaught exception: ${error.error()}`));
  }

  /** Allows responses with this error status from now on. */
  expectStatus(status) {
    this.#expectedStatuses.add(status);
  }

  /** Signs in as administrator with the link that `ringtrue dev` prints, and opens the sandbox project. */
  async enterDemo() {
    const { workspace, project } = ringtrue;
    if (demoSession) await this.context.addCookies(demoSession);
    else await this.page.goto(ringtrue.console_link);
    demoSession ??= await this.context.cookies();
    await this.page.goto(`/console/workspaces/${workspace.workspace_id}/projects/${project.project_id}`);
    await this.#waitUntilSignedIn();
  }

  /** Sets a password by a link. The account of an invitation then signs in and accepts it. */
  async acceptInvitation(link) {
    await this.setPassword(link);
    if (new URL(link).pathname === '/console/invitation') {
      await this.page.getByRole('button', { name: 'Accept invitation' }).click();
    }
    await this.#waitUntilSignedIn();
  }

  /** Sets a password by a link. The account of an invitation then signs in. */
  async setPassword(link) {
    await this.page.goto(link);
    await this.page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await this.page.getByLabel('Confirm password').fill(PASSWORD);
    await this.page.getByRole('button', { name: /^(Set password and sign in|Create account)$/ }).click();
    if (new URL(link).pathname === '/console/invitation') {
      await this.page.getByText('Sign in to accept the invitation').waitFor();
      await this.page.getByLabel('Password').fill(PASSWORD);
      await this.page.getByRole('button', { name: 'Sign in' }).click();
    }
  }

  async #waitUntilSignedIn() {
    await this.page.getByRole('button', { name: 'Sign out' }).waitFor();
  }

  /** Reloads a static page until it contains the element. */
  async reloadUntilSeen(locator) {
    const deadline = AbortSignal.timeout(TIMEOUT_MS);
    while ((await locator.count()) === 0) {
      deadline.throwIfAborted();
      await this.page.reload();
    }
  }

  /** Opens a page by its entry in an area of the menu: Workspace, Project or Deployment. */
  async choose(area, entry) {
    const menu = this.page.getByRole('navigation', { name: 'Console' }).locator(`[aria-label="${area}"]`);
    if (area === 'Deployment' && (await menu.count()) === 0) await this.#openDeployment();
    await menu.getByRole('link', { name: entry, exact: true }).click();
    // On narrow screens the menu is collapsed again.
    await this.page.locator('.menu [aria-current=page]', { hasText: entry }).first().waitFor({ state: 'attached' });
  }

  /** Pages of a project link to the deployment in the project switcher. */
  async #openDeployment() {
    await this.page.locator('.switcher > summary').click();
    await this.page.locator('.switcher').getByRole('link', { name: 'Deployment' }).click();
    await this.page.waitForURL('**/console/deployment/**');
  }

  /** Inspects the open page: wide and narrow, light and dark. */
  async inspect(name) {
    this.errors.push(...(await inspectPage(this.page, name)));
  }
}
