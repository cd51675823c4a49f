// Callback receiver.
import { once } from 'node:events';
import { createServer } from 'node:http';

export async function startReceiver() {
  const received = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const body = Buffer.concat(chunks).toString();
    const { method, url, headers } = request;
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const text = `${method} ${url} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
    const callback = { headers, body: JSON.parse(body), text };
    response.end();
    const next = waiting.shift();
    if (next) next(callback);
    else received.push(callback);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}/callbacks`,
    /** Resolves to the next callback, in the order of arrival. */
    next: () => (received.length ? Promise.resolve(received.shift()) : new Promise((resolve) => waiting.push(resolve))),
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}
