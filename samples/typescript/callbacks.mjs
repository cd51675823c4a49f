// @ts-check
// Receives and verifies callbacks with `node:http`. With a framework, use its adapter: see the library's README.
import { createServer } from 'node:http';
import { callbackHandler } from '@ringtrue/server/express';

/** @typedef {import('@ringtrue/server').CallbackEvent} CallbackEvent */

/**
 * Starts a receiver. `events` has the verified callbacks by their id: a callback may be delivered more than once.
 * @param {import('@ringtrue/server').Ringtrue} ringtrue
 * @param {number} port
 */
export async function startReceiver(ringtrue, port) {
  /** @type {Map<string, CallbackEvent>} */
  const events = new Map();
  let onEvent = () => {};
  /** @param {CallbackEvent} event */
  const listener = (event) => {
    // Store the callback here, and process it afterwards: the response is sent when this function returns.
    events.set(event.id, event);
    const match = 'match' in event.data ? event.data.match : null;
    console.log(`verified: ${event.id} ${event.data.status} match=${match}`);
    onEvent();
  };
  const handler = callbackHandler(ringtrue, listener, {
    onRejected: (error) => console.log(`rejected: ${error.message}`),
  });
  const server = createServer((request, response) => {
    // The program ends with its last connection.
    response.setHeader('connection', 'close');
    handler(request, response);
  });
  await new Promise((resolve, reject) => server.on('error', reject).listen(port, '127.0.0.1', () => resolve(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}/callbacks`,
    /** Waits for the callback of a check or verification. @param {string} id @returns {Promise<CallbackEvent>} */
    async wait(id) {
      while (!events.has(id)) await new Promise((resolve) => (onEvent = () => resolve(undefined)));
      return /** @type {CallbackEvent} */ (events.get(id));
    },
    close: () => server.close(),
  };
}
