/**
 * Route handlers of Next.js, and all other servers with `Request` and `Response`: Bun, Deno, Hono, edge runtimes.
 *
 * @module
 */
import type { Ringtrue } from './client.js';
import { type CallbackHandlerOptions, type CallbackListener, handleCallback } from './handler.js';

export type { CallbackHandlerOptions, CallbackListener };

/**
 * Receives callbacks:
 *
 * ```ts
 * // app/callbacks/route.ts
 * export const POST = callbackHandler(ringtrue, async (event) => { … });
 * ```
 */
export function callbackHandler(
  client: Ringtrue,
  listener: CallbackListener,
  options: CallbackHandlerOptions = {},
): (request: Request) => Promise<Response> {
  return async (request) => {
    const { status, body } = await handleCallback(client, listener, options, () => request);
    return new Response(body, { status, headers: { 'content-type': 'text/plain' } });
  };
}
