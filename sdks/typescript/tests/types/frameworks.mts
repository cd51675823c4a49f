// Compiles only if the types fit those of the frameworks, and narrow as the README says.
import { ApiError, type CallbackEvent, type CreatedVerification, field, type Outcome, Ringtrue } from '@ringtrue/server';
import { callbackHandler as expressHandler } from '@ringtrue/server/express';
import { callbackPlugin } from '@ringtrue/server/fastify';
import { callbackHandler as webHandler } from '@ringtrue/server/next';
import express from 'express';
import { fastify } from 'fastify';
import { Hono } from 'hono';
import type { NextRequest } from 'next/server.js';
import { createServer } from 'node:http';

const ringtrue = new Ringtrue({ url: 'https://verify.example.com', clientId: 'a', clientSecret: 'b' });
const listener = async (event: CallbackEvent): Promise<void> => {
  if (event.kind === 'discovery') event.data.phone_number satisfies string | undefined;
  if (event.kind === 'verification') event.data.verification_id satisfies string;
  // @ts-expect-error: only Discovery returns a number.
  if (event.kind === 'reverse_sms') event.data.phone_number;
};

express().post('/callbacks', expressHandler(ringtrue, listener));
createServer(expressHandler(ringtrue, listener));
fastify().register(callbackPlugin(ringtrue, listener));
fastify({ http2: true }).register(callbackPlugin(ringtrue, listener, { path: '/c', host: 'example.com' }));
const web = webHandler(ringtrue, listener);
new Hono().post('/callbacks', (context) => web(context.req.raw));
export const POST: (request: NextRequest) => Promise<Response> = web;

export async function read(outcome: Outcome, request: express.Request): Promise<string> {
  await ringtrue.verifications.redeem(undefined, request.query);
  await ringtrue.verifications.redeem('id', new URLSearchParams());
  if (outcome.open) return outcome.url;
  if (outcome.verified) return outcome.verification.verification_id;
  return outcome.reason;
}

export async function create(): Promise<CreatedVerification> {
  // @ts-expect-error: the method does not exist.
  ringtrue.verifications.create({ phone_number: '+990123456700', methods: ['voice'] });
  for await (const check of ringtrue.simSwap.list({ search: field('status').eq('COMPLETED'), size: 5 })) {
    check.no_sim_change satisfies boolean | undefined;
  }
  const error: unknown = new Error();
  if (error instanceof ApiError && error.errorCode === 'code_invalid') error.retryAfter satisfies number | undefined;
  return ringtrue.verifications.create({ phone_number: '+990123456700' }, { idempotencyKey: 'a' });
}
