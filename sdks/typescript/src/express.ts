/**
 * Express, and the servers of `node:http`.
 *
 * @module
 */
import { readBody } from './callbacks.js';
import type { Ringtrue } from './client.js';
import { type CallbackHandlerOptions, type CallbackListener, handleCallback } from './handler.js';

export type { CallbackHandlerOptions, CallbackListener };

/** The members of a request that are used. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  method?: string | undefined;
  url?: string | undefined;
  /** Express: the URL before a router changed it. */
  originalUrl?: string;
  rawHeaders: string[];
  readableDidRead?: boolean;
  iterator?(options: { destroyOnReturn: boolean }): AsyncIterable<Uint8Array>;
  /** What a body parser has read. */
  body?: unknown;
  /** Bytes of the body, on platforms that parse it before your code runs. */
  rawBody?: unknown;
}

/** The members of a response that are used. */
export interface NodeResponse {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(text: string): unknown;
}

/**
 * Receives callbacks. Add it before `express.json()`, or read the body with `express.raw({ type: '*\/*' })`:
 *
 * ```ts
 * app.post('/callbacks', callbackHandler(ringtrue, async (event) => { … }));
 * ```
 */
export function callbackHandler(
  client: Ringtrue,
  listener: CallbackListener,
  options: CallbackHandlerOptions = {},
): (request: NodeRequest, response: NodeResponse, next?: (error?: unknown) => void) => Promise<void> {
  return async (request, response, next) => {
    const read = async () => ({
      method: request.method ?? '',
      target: request.originalUrl ?? request.url ?? '',
      headers: request.rawHeaders,
      body: await rawBody(request),
    });
    try {
      const { status, body } = await handleCallback(client, listener, options, read);
      response.statusCode = status;
      response.setHeader('content-type', 'text/plain');
      // The rest of a large body is not read.
      if (status === 413) response.setHeader('connection', 'close');
      response.end(body);
    } catch (error) {
      if (next) return next(error);
      console.error(error);
      response.statusCode = 500;
      response.end('');
    }
  };
}

async function rawBody(request: NodeRequest): Promise<Uint8Array> {
  const { rawBody, body, readableDidRead } = request;
  if (rawBody instanceof Uint8Array) return rawBody;
  if (body instanceof Uint8Array) return body;
  if (readableDidRead) {
    throw new TypeError('a body parser has read the callback; add the callback handler before express.json()');
  }
  // Otherwise a body that is too large would close the connection before the response.
  return readBody(request.iterator?.({ destroyOnReturn: false }) ?? request);
}
