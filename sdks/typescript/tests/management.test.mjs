import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AuthenticationError, field, NotFoundError, Ringtrue } from '@ringtrue/server';
import { completeCheck } from './callbacks.mjs';
import { startService } from './service.mjs';
import { sendJson, startStub } from './stub.mjs';

let service;
let management;
let workspaceId;
let projectId;
before(async () => {
  service = await startService();
  management = service.manager().management;
  workspaceId = service.workspace.workspace_id;
  projectId = service.project.project_id;
});
after(() => service.stop());

test('workspaces', async () => {
  const [workspace] = await management.workspaces.list().toArray();
  assert.equal(workspace.workspace_id, workspaceId);
  const updated = await management.workspaces.update(workspaceId, { name: 'Renamed' });
  assert.equal(updated.name, 'Renamed');
  assert.deepEqual(await management.workspaces.get(workspaceId), updated);
});

test('projects', async () => {
  const created = await management.projects.create(workspaceId, { name: 'Shop "A", *' });
  assert.equal(created.mode, 'sandbox');
  const [{ client_id, client_secret }] = created.credentials;
  const client = new Ringtrue({
    url: service.url,
    clientId: client_id,
    clientSecret: client_secret,
    allowSandbox: true,
  });
  assert.deepEqual(await client.verifications.list().toArray(), []);
  const found = await management.projects.list(workspaceId, { search: field('name').eq(created.name) }).toArray();
  assert.deepEqual(
    found.map((project) => project.project_id),
    [created.project_id],
  );
  let etag;
  const onResponse = ({ headers }) => {
    etag = headers.get('etag');
  };
  const project = await management.projects.get(workspaceId, created.project_id, { onResponse });
  const patch = { configuration: { verification: { ttl: 300 } } };
  const options = { ifMatch: etag };
  const updated = await management.projects.update(workspaceId, project.project_id, patch, options);
  assert.equal(updated.configuration.verification.ttl, 300);
  const stale = management.projects.update(workspaceId, project.project_id, patch, options);
  await assert.rejects(stale, { status: 412, errorCode: 'precondition_failed' });
  const missing = management.projects.get(workspaceId, '01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b');
  await assert.rejects(missing, NotFoundError);
});

test('a project goes live by force', async () => {
  const input = { name: 'Live', configuration: { callbacks: { retry_for: 3600 } } };
  const { project_id, configuration } = await management.projects.create(workspaceId, input);
  assert.equal(configuration.callbacks.retry_for, 3600);
  const patch = { mode: 'live', configuration: { callbacks: { retry_for: null } } };
  for (const options of [undefined, { force: false }]) {
    const unready = management.projects.update(workspaceId, project_id, patch, options);
    await assert.rejects(unready, { status: 409, errorCode: 'project_not_ready' });
  }
  const updated = await management.projects.update(workspaceId, project_id, patch, { force: true });
  assert.equal(updated.mode, 'live');
  assert.ok(updated.credentials[0].client_secret);
  assert.deepEqual(updated.configuration.callbacks, {});
});

test('callbacks', async () => {
  const client = service.client();
  const stub = await startStub((_, response) => sendJson(response, 503, {}));
  try {
    const ids = [];
    for (const number of ['+990160000000', '+990160000002', '+990160000004']) {
      ids.push(await completeCheck(client, number, `${stub.url}/callbacks`));
    }
    const receiver = new URL(stub.url).host;
    const filter = { state: 'retrying', product: 'reverse_sms', receiver, size: 2 };
    const failed = management.callbacks.list(workspaceId, projectId, filter);
    const deadline = Date.now() + 10_000;
    let total = 0;
    while (total < ids.length && Date.now() < deadline) total = (await failed.page()).page.total_elements;
    // From two pages.
    const deliveries = await failed.toArray();
    assert.deepEqual(deliveries.map(({ check_id }) => check_id).sort(), ids.sort());
    for (const { state, last_result, receiver: host, attempts, next_attempt_at } of deliveries) {
      assert.deepEqual([state, last_result, host], ['waiting', '503', receiver]);
      assert.ok(attempts >= 1 && next_attempt_at !== undefined);
    }
    const others = management.callbacks.list(workspaceId, projectId, { product: 'verification', receiver });
    assert.deepEqual(await others.toArray(), []);
  } finally {
    await stub.stop();
  }
});

test('networks and allowed networks', async () => {
  // A development server has no operators.
  assert.deepEqual(await management.networks({ country_code: 'GB' }).toArray(), []);
  const networks = [{ network_id: '*', products: ['reverse_sms'] }];
  const replaced = await management.allowedNetworks.replace(workspaceId, projectId, { networks });
  assert.deepEqual(replaced.networks, networks);
  assert.deepEqual(await management.allowedNetworks.get(workspaceId, projectId), replaced);
  const all = [{ network_id: '*', products: ['reverse_sms', 'secure_sna', 'discovery', 'sim_swap'] }];
  await management.allowedNetworks.replace(workspaceId, projectId, { networks: all });
});

test('project credentials: a deleted one gives a typed error', async () => {
  const created = await management.projectCredentials.create(workspaceId, projectId);
  const { client_id, client_secret } = created;
  const listed = await management.projectCredentials.list(workspaceId, projectId).toArray();
  assert.ok(listed.some((credential) => credential.client_id === client_id && !('client_secret' in credential)));
  assert.equal((await management.projectCredentials.get(workspaceId, projectId, client_id)).client_id, client_id);
  const client = new Ringtrue({
    url: service.url,
    clientId: client_id,
    clientSecret: client_secret,
    allowSandbox: true,
  });
  await client.verifications.list().page();
  await management.projectCredentials.delete(workspaceId, projectId, client_id);
  const error = await client.verifications
    .list()
    .page()
    .catch((thrown) => thrown);
  assert.ok(error instanceof AuthenticationError, String(error));
  assert.ok(error.message.startsWith('POST /oauth2/token: 401 unauthorized'), error.message);
  assert.ok(!error.stack.includes(client_secret));
});

test('workspace credentials', async () => {
  const { client_id } = await management.workspaceCredentials.create(workspaceId);
  assert.equal((await management.workspaceCredentials.get(workspaceId, client_id)).client_id, client_id);
  assert.equal((await management.workspaceCredentials.list(workspaceId).toArray()).length, 2);
  await management.workspaceCredentials.delete(workspaceId, client_id);
  const last = management.workspaceCredentials.delete(workspaceId, service.workspace.client_id);
  await assert.rejects(last, { status: 409, errorCode: 'last_credential' });
});

test('usage, audit events and requests', async () => {
  const client = service.client();
  await client.simSwap.create({ phone_number: '+990150000000' });
  await client.simSwap.create({ phone_number: '+99' }).catch(() => undefined);
  const from = new Date(Date.now() - 3_600_000);
  const usage = await management.usage(workspaceId, { from, group_by: 'hour', project_id: projectId });
  assert.equal(usage.group_by, 'hour');
  const events = await management.auditEvents(workspaceId, { size: 2 }).toArray();
  assert.ok(events.length > 2, 'several pages');
  // The log is written after the response.
  const deadline = Date.now() + 10_000;
  let found = [];
  while (found.length === 0 && Date.now() < deadline) {
    const filter = { status: '4xx', error_code: 'phone_number_invalid' };
    found = await management.requests.list(workspaceId, projectId, filter).toArray();
  }
  assert.equal(found[0].status, 400);
  const { request_id } = found[0];
  assert.equal((await management.requests.list(workspaceId, projectId, { request_id }).toArray()).length, 1);
});
