// Compiles only if the declarations for CommonJS are complete, without the types of browsers.
import { MemoryDeduplicator, Ringtrue } from '@ringtrue/server';
import { callbackHandler } from '@ringtrue/server/express';
import { callbackPlugin } from '@ringtrue/server/fastify';
import { callbackHandler as webHandler } from '@ringtrue/server/next';

const ringtrue = new Ringtrue({ fetch, timeout: 1 });
export const handlers = [
  callbackHandler(ringtrue, () => {}, { deduplicator: new MemoryDeduplicator({ ttl: 1 }) }),
  callbackPlugin(ringtrue, () => {}),
  webHandler(ringtrue, () => {}),
];
