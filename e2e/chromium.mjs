// Debian's Chromium for tests, which can reach this machine only. The build without a user interface needs two thirds of
// the processor time.
import { chromium } from 'playwright-core';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Blocks all requests to other machines.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
];

export function launchChromium() {
  return chromium.launch({ executablePath: '/usr/bin/chromium-headless-shell', args: FLAGS });
}
