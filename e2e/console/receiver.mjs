// A receiver of callbacks, as a project's backend has one.
import { once } from 'node:events';
import { createServer } from 'node:http';

export async function startReceiver() {
  const arrived = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const callback = { headers: request.headers, body: JSON.parse(Buffer.concat(chunks)) };
    response.end();
    const next = waiting.shift();
    if (next) next(callback);
    else arrived.push(callback);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}/callbacks`,
    /** The next callback, in the order of arrival. */
    next: () => (arrived.length ? Promise.resolve(arrived.shift()) : new Promise((resolve) => waiting.push(resolve))),
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}
