/**
 * Fastify.
 *
 * @module
 */
import { type CallbackHeaders, MAX_CALLBACK_BYTES } from './callbacks.js';
import type { Ringtrue } from './client.js';
import { CallbackError } from './errors.js';
import { type CallbackHandlerOptions, type CallbackListener, handleCallback } from './handler.js';

export type { CallbackHandlerOptions, CallbackListener };

/** The members of a request that are used. */
export interface FastifyRequestLike {
  method: string;
  originalUrl: string;
  raw: { rawHeaders: string[] };
  body: unknown;
}

/** The members of a reply that are used. */
export interface FastifyReplyLike {
  code(status: number): { type(contentType: string): { send(body: string): unknown } };
}

/** The members of an instance that are used. Parameters are `never`, so that the instances of all versions fit. */
export interface FastifyLike {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(contentType: string, options: never, parser: never): unknown;
  post(path: string, options: never, handler: never): unknown;
}

/** Options of the plugin. */
export interface FastifyCallbackOptions extends CallbackHandlerOptions {
  /** Path of the route. Defaults to `/callbacks`. */
  path?: string | undefined;
}

/**
 * A plugin that receives callbacks. It has its own body parser, and leaves those of other routes alone:
 *
 * ```ts
 * app.register(callbackPlugin(ringtrue, async (event) => { … }, { path: '/callbacks' }));
 * ```
 */
export function callbackPlugin(
  client: Ringtrue,
  listener: CallbackListener,
  { path = '/callbacks', ...options }: FastifyCallbackOptions = {},
): (instance: FastifyLike) => Promise<void> {
  return async (instance) => {
    instance.removeAllContentTypeParsers();
    const parse = (_: unknown, body: unknown, done: (error: Error | null, body?: unknown) => void) => done(null, body);
    const limits = { parseAs: 'buffer', bodyLimit: MAX_CALLBACK_BYTES };
    instance.addContentTypeParser('*', limits as never, parse as never);
    const handler = async ({ method, originalUrl, raw, body }: FastifyRequestLike, reply: FastifyReplyLike) => {
      const headers: CallbackHeaders = raw.rawHeaders;
      const bytes = body instanceof Uint8Array ? body : new Uint8Array();
      const request = { method, target: originalUrl, headers, body: bytes };
      const response = await handleCallback(client, listener, options, () => request);
      return reply.code(response.status).type('text/plain').send(response.body);
    };
    const errorHandler = (error: Error & { code?: string }, _: unknown, reply: FastifyReplyLike) => {
      if (error.code !== 'FST_ERR_CTP_BODY_TOO_LARGE') throw error;
      options.onRejected?.(new CallbackError('body_too_large', error.message));
      return reply.code(413).type('text/plain').send('body_too_large');
    };
    instance.post(path, { errorHandler } as never, handler as never);
  };
}
