// Node.js 18 has Web Crypto in a module only. As a variable, bundlers for other runtimes do not look for it.
const NODE_MODULE = 'node:crypto';

/** Web Crypto of the runtime. */
export async function webCrypto(): Promise<Crypto> {
  const found: Crypto | undefined = globalThis.crypto;
  return found ?? (await import(/* webpackIgnore: true */ /* @vite-ignore */ NODE_MODULE)).webcrypto;
}

/** A random idempotency key. */
export async function randomKey(): Promise<string> {
  return (await webCrypto()).randomUUID();
}
