// A service that fails as the real one cannot be made to.
import { createServer } from 'node:http';
import { Ringtrue } from '@ringtrue/server';

/** `respond(request, response, body)` handles all calls except those for tokens. */
export async function startStub(respond) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.url === '/oauth2/token') {
      return sendJson(response, 200, { access_token: 'secret-token', token_type: 'bearer', expires_in: 3600 });
    }
    requests.push({ method: request.method, url: request.url, headers: request.headers, body });
    return respond(request, response, requests.length);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    url,
    requests,
    client: (options) => new Ringtrue({ url, clientId: 'id', clientSecret: 'top-secret', ...options }),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Responds as the service does for a live project. */
export function sendJson(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', 'x-project-mode': 'live', ...headers });
  response.end(JSON.stringify(body));
}

/** A body of an error. */
export function problem(status, error_code) {
  return {
    type: `https://example.com/errors/${error_code}`,
    title: 'Failed',
    status,
    detail: 'It failed.',
    error_code,
  };
}
