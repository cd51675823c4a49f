// npm `openid-client`, unmodified, against the token endpoints.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as client from 'openid-client';
import { startRingtrue } from './ringtrue.mjs';

let ringtrue;
before(async () => {
  ringtrue = await startRingtrue();
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

// `oauth2` selects RFC 8414 discovery. `ringtrue dev` uses plain HTTP on loopback.
function discover({ client_id, client_secret }, authentication = client.ClientSecretBasic(client_secret)) {
  return client.discovery(
    new URL(ringtrue.base_url),
    client_id,
    undefined,
    authentication,
    { algorithm: 'oauth2', execute: [client.allowInsecureRequests] },
  );
}

test('discovery returns the endpoints', async () => {
  const config = await discover(ringtrue.project);
  const metadata = config.serverMetadata();
  assert.equal(metadata.issuer, ringtrue.base_url);
  assert.equal(metadata.token_endpoint, `${ringtrue.base_url}/oauth2/token`);
  assert.ok(metadata.scopes_supported.includes('reverse_sms'));
});

test('token of the client credentials grant is accepted by the API', async () => {
  const config = await discover(ringtrue.workspace);
  const tokens = await client.clientCredentialsGrant(config, { scope: 'management' });
  assert.equal(tokens.token_type, 'bearer');
  assert.equal(tokens.expires_in, 3600);
  assert.equal(tokens.scope, 'management');

  const response = await client.fetchProtectedResource(
    config,
    tokens.access_token,
    new URL(`${ringtrue.base_url}/v1/management/workspaces`),
    'GET',
  );
  const page = await response.json();
  assert.equal(page.content[0].workspace_id, ringtrue.workspace.workspace_id);
});

test('client_secret_post, the default of the library, issues and revokes tokens', async () => {
  const { client_id, client_secret } = ringtrue.workspace;
  const config = await client.discovery(new URL(ringtrue.base_url), client_id, client_secret, undefined, {
    algorithm: 'oauth2',
    execute: [client.allowInsecureRequests],
  });
  assert.ok(config.serverMetadata().token_endpoint_auth_methods_supported.includes('client_secret_post'));
  const { access_token } = await client.clientCredentialsGrant(config, { scope: 'management' });
  const url = new URL(`${ringtrue.base_url}/v1/management/workspaces`);
  assert.equal((await client.fetchProtectedResource(config, access_token, url, 'GET')).status, 200);
  await client.tokenRevocation(config, access_token);
  await assert.rejects(client.fetchProtectedResource(config, access_token, url, 'GET'));

  const posted = await discover(ringtrue.project, client.ClientSecretPost('wrong'));
  await assert.rejects(client.clientCredentialsGrant(posted, { scope: 'reverse_sms' }), { status: 401 });
});

test('revoked token is rejected', async () => {
  const config = await discover(ringtrue.workspace);
  const { access_token } = await client.clientCredentialsGrant(config, { scope: 'management' });
  await client.tokenRevocation(config, access_token);
  const url = new URL(`${ringtrue.base_url}/v1/management/workspaces`);
  await assert.rejects(client.fetchProtectedResource(config, access_token, url, 'GET'), (error) => {
    assert.ok(error instanceof client.WWWAuthenticateChallengeError);
    assert.equal(error.cause[0].scheme, 'bearer');
    assert.equal(error.cause[0].parameters.error, 'invalid_token');
    return true;
  });
});

test('wrong secret maps to the error of the library', async () => {
  const config = await discover({ ...ringtrue.project, client_secret: 'wrong' });
  await assert.rejects(client.clientCredentialsGrant(config, { scope: 'reverse_sms' }), (error) => {
    // The library maps a 401 by its challenge.
    assert.ok(error instanceof client.WWWAuthenticateChallengeError, `${error}`);
    assert.equal(error.cause[0].scheme, 'basic');
    assert.equal(error.status, 401);
    return true;
  });
});

test('invalid scope maps to the error of the library', async () => {
  const config = await discover(ringtrue.project);
  for (const scope of ['management', 'no_such_scope', 'reverse_sms sim_swap']) {
    await assert.rejects(client.clientCredentialsGrant(config, { scope }), (error) => {
      assert.ok(error instanceof client.ResponseBodyError, `${error}`);
      assert.equal(error.error, 'invalid_scope');
      assert.equal(error.status, 400);
      assert.ok(error.error_description.length > 0);
      return true;
    });
  }
});
