import type { CallbackEvent, CallbackOptions, CallbackRequest } from './callbacks.js';
import type { Ringtrue } from './client.js';
import type { Deduplicator } from './deduplication.js';
import { CallbackError } from './errors.js';

/** Processes a verified callback. If it fails, the service sends the callback again. Finish within ten seconds. */
export type CallbackListener = (event: CallbackEvent) => void | Promise<void>;

/** Options of a callback handler. */
export interface CallbackHandlerOptions extends CallbackOptions {
  /** Leaves out callbacks that were processed before. */
  deduplicator?: Deduplicator | undefined;
  /** Receives the reason why a callback was rejected, for your log. */
  onRejected?: ((error: CallbackError) => void) | undefined;
}

/** The response to a callback. */
export interface CallbackResponse {
  status: number;
  body: string;
}

/** Verifies and processes a callback. Errors of the listener are thrown, for the framework to handle. */
export async function handleCallback(
  client: Ringtrue,
  listener: CallbackListener,
  options: CallbackHandlerOptions,
  read: () => CallbackRequest | Request | Promise<CallbackRequest>,
): Promise<CallbackResponse> {
  let event: CallbackEvent;
  try {
    event = await client.callbacks.verify(await read(), options);
  } catch (error) {
    if (!(error instanceof CallbackError)) throw error;
    options.onRejected?.(error);
    return { status: error.status, body: error.reason };
  }
  const process = async () => listener(event);
  if (options.deduplicator) await options.deduplicator.once(event.id, process);
  else await process();
  return { status: 200, body: '' };
}
