// The library as it would be published, and the programs of the README.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { launchBrowser, startSite, TIMEOUT_MS } from './site.mjs';

const run = promisify(execFile);
const folder = fileURLToPath(new URL('..', import.meta.url));
const MAX_BYTES = 5_000;

let site;
let browser;
let project;
let installed;
before(async () => {
  site = await startSite();
  browser = await launchBrowser();
  project = await mkdtemp(join(tmpdir(), 'ringtrue-web-'));
  // `test` has built the library. The project is empty except for the packed file.
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', project], { cwd: folder });
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }');
  const [file] = (await readdir(project)).filter((name) => name.endsWith('.tgz'));
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', `./${file}`], { cwd: project });
  installed = join(project, 'node_modules/@ringtrue/web');
});
after(async () => {
  await browser?.close();
  await site?.stop();
  await rm(project, { recursive: true, force: true });
});

test('the package contains what it needs, and nothing else', async () => {
  const files = (await readdir(installed)).sort();
  assert.deepEqual(files, ['LICENSE', 'README.md', 'dist', 'package.json']);
  const { dependencies } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  assert.equal(dependencies, undefined);
});

test(`the library has less than ${MAX_BYTES} bytes`, async () => {
  const { length } = await readFile(join(installed, 'dist/ringtrue.min.js'));
  assert.ok(length < MAX_BYTES, `${length} bytes`);
});

test('servers that render pages can import it', async () => {
  const program = `import { openVerification } from '@ringtrue/web'; console.log(typeof openVerification);`;
  const { stdout } = await run('node', ['--input-type=module', '--eval', program], { cwd: project });
  assert.equal(stdout.trim(), 'function');
});

/** The first block of code after a heading of the README. */
async function sample(heading) {
  const readme = await readFile(join(folder, 'README.md'), 'utf8');
  const [, section] = readme.split(`\n### ${heading}\n`);
  return /```\w+\n(.*?)```/s.exec(section)[1];
}

/** Bundles a program with the packed library. */
async function bundle(contents, { loader = 'js', nodePaths = [join(folder, 'node_modules')], define = {} } = {}) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: project, loader },
    bundle: true,
    format: 'esm',
    write: false,
    nodePaths,
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"', ...define },
    logLevel: 'error',
  });
  return outputFiles[0].text;
}

const script = (text) => `<script type="module">${text.replaceAll('</script', '<\\/script')}</script>`;

const FRAMEWORKS = {
  'Plain page': async () => {
    const page = (await sample('Plain page')).replace('/ringtrue.min.js', 'RINGTRUE');
    return page.replace('RINGTRUE', '/ringtrue.min.js');
  },
  React: async () => {
    const mount = `import { createRoot } from 'react-dom/client'; createRoot(document.getElementById('app')).render(<VerifyButton />);`;
    return `<div id="app"></div>${script(await bundle(`${await sample('React')}\n${mount}`, { loader: 'jsx' }))}`;
  },
  'React 18': async () => {
    const mount = `import { createRoot } from 'react-dom/client'; createRoot(document.getElementById('app')).render(<VerifyButton />);`;
    const options = { loader: 'jsx', nodePaths: [join(folder, 'tests/react18/node_modules')] };
    return `<div id="app"></div>${script(await bundle(`${await sample('React 18')}\n${mount}`, options))}`;
  },
  Vue: async () => {
    const { compileScript, parse } = await import('vue/compiler-sfc');
    const { descriptor } = parse(await sample('Vue'));
    const templateOptions = { compilerOptions: { isCustomElement: (tag) => tag === 'ringtrue-verify' } };
    const { content } = compileScript(descriptor, { id: 'verify', inlineTemplate: true, templateOptions });
    const program = `${content.replace('export default', 'const component =')}
      import { createApp } from 'vue'; createApp(component).mount('#app');`;
    const define = { __VUE_OPTIONS_API__: 'true', __VUE_PROD_DEVTOOLS__: 'false' };
    const flags = { ...define, __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: 'false' };
    return `<div id="app"></div>${script(await bundle(program, { define: flags }))}`;
  },
};

for (const [name, html] of Object.entries(FRAMEWORKS)) {
  test(`${name}: the program of the README verifies a number`, { timeout: 120_000 }, async () => {
    const context = await browser.newContext();
    context.setDefaultTimeout(TIMEOUT_MS);
    try {
      const page = await context.newPage();
      const errors = [];
      page.on('pageerror', (error) => errors.push(String(error)));
      const verification = await site.create();
      let redeemed;
      // The shop's backend.
      await page.route('**/sign-up', (route) => route.fulfill({ json: { url: verification.url } }));
      await page.route('**/verified', async (route) => {
        redeemed = await site.redeem(route.request().postDataJSON());
        await route.fulfill({ json: { verified: redeemed.match === true } });
      });
      await page.goto(`${site.origin}${site.page(await html())}`);
      const [popup] = await Promise.all([
        context.waitForEvent('page'),
        page.getByRole('button', { name: 'Verify my number' }).click(),
      ]);
      await popup.getByRole('heading', { name: 'Send us a text message' }).waitFor();
      await site.sendShownSms(popup, verification.number);
      await page.getByText('Your number is verified.').waitFor();
      assert.equal(redeemed.verification_id, verification.verification_id);
      assert.deepEqual(errors, []);
    } finally {
      await context.close();
    }
  });
}
