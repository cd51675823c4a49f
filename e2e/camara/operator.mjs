// The operator of ../oidc/operator.mjs, with a third-party authorization server, as a process beside the deployments.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Starts the operator for a client with this key and redirect URI. */
export async function startOperator({ jwk, redirectUri }) {
  const script = fileURLToPath(new URL('../oidc/operator.mjs', import.meta.url));
  const child = spawn(process.execPath, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  child.stdin.write(`${JSON.stringify({ jwk, redirectUri })}\n`);
  const [first] = await once(lines, 'line');
  return {
    issuer: JSON.parse(first).issuer,
    async stop() {
      const exited = once(child, 'exit');
      child.kill();
      await exited;
    },
  };
}
