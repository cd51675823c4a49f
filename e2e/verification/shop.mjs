// A small shop that signs users up with a verification: it creates one, sends the browser to the hosted page, and
// redeems the code that the browser comes back with.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Backend } from '../console/backend.mjs';

export async function startShop(ringtrue) {
  const backend = new Backend(ringtrue);
  const results = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, origin);
    if (url.pathname === '/favicon.ico') return response.writeHead(204).end();
    if (url.pathname === '/down') return response.socket.destroy();
    if (url.pathname === '/elsewhere') {
      // A page of another site with whatever the test puts on it.
      response.setHeader('content-type', 'text/html');
      return response.end(`<!doctype html><html lang="en"><title>Elsewhere</title>${url.searchParams.get('html')}</html>`);
    }
    if (url.pathname === '/back') {
      const result = await redeem(backend, url.searchParams);
      results.push(result);
      response.setHeader('content-type', 'text/html');
      return response.end(`<!doctype html><html lang="en"><title>Shop</title><h1>${headline(result)}</h1></html>`);
    }
    response.writeHead(404).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;
  const elsewhere = `http://localhost:${server.address().port}`;
  return {
    origin,
    elsewhere,
    results,
    /** Creates a verification that returns to the shop, unless `body` says otherwise. */
    create: (body) => createVerification(backend, { redirect_url: `${origin}/back?cart=1`, ...body }),
    /** Creates a verification, and returns the whole response. */
    tryCreate: (body) => backend.call('verification', '/v1/verifications', body),
    /** Reads a verification. */
    read: async (id) => (await backend.call('verification', `/v1/verifications/${id}`)).json(),
    /** Redeems a code as the backend, and returns the status of the response. */
    redeem: async (id, code) => (await backend.call('verification', `/v1/verifications/${id}`, { code })).status,
    /** URL of a page of another site, with this content. */
    pageElsewhere: (html) => `${elsewhere}/elsewhere?html=${encodeURIComponent(html)}`,
    /** Changes the settings of verifications in the project. */
    configure: (verification) => patchProject(ringtrue, { configuration: { verification } }),
    setProducts: (products) => patchProject(ringtrue, { products }),
    /** Sends an SMS from a simulated handset. */
    sendSms: (from, receiver_phone_number, expected_sms_body) =>
      backend.sendSms(from, { receiver_phone_number, expected_sms_body }),
    /** Answers a request as the wallet of a simulated phone with this SIM, which a page of `origin` asked. */
    confirmCredential: async (request, sim, origin) => {
      const response = await backend.call('verification', '/v1/sandbox/digital-credentials', { request, sim, origin });
      if (!response.ok) throw new Error(`wallet failed: ${response.status} ${await response.text()}`);
      return response.json();
    },
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}

async function createVerification(backend, body) {
  const response = await backend.call('verification', '/v1/verifications', body);
  if (response.status !== 201) throw new Error(`create failed: ${response.status} ${await response.text()}`);
  return response.json();
}

async function patchProject({ base_url, workspace, project }, body) {
  const { client_id, client_secret, workspace_id } = workspace;
  const granted = await fetch(`${base_url}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'management' }),
  });
  const { access_token } = await granted.json();
  const path = `/v1/management/workspaces/${workspace_id}/projects/${project.project_id}`;
  const response = await fetch(`${base_url}${path}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`patch failed: ${response.status} ${await response.text()}`);
}

async function redeem(backend, parameters) {
  const { verification_id, code, error } = Object.fromEntries(parameters);
  if (!code) return { error };
  const response = await backend.call('verification', `/v1/verifications/${verification_id}`, { code });
  return response.json();
}

function headline({ status, match, error }) {
  if (error) return `Not signed up: ${error}`;
  return status === 'COMPLETED' && match ? 'Welcome' : 'Not your number';
}
