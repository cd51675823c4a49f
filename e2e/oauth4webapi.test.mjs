// npm `oauth4webapi`, unmodified, against the token endpoints.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oauth from 'oauth4webapi';
import { startRingtrue } from './ringtrue.mjs';

const allowHttp = { [oauth.allowInsecureRequests]: true };

let ringtrue;
let server;
before(async () => {
  ringtrue = await startRingtrue();
  const issuer = new URL(ringtrue.base_url);
  const response = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...allowHttp });
  server = await oauth.processDiscoveryResponse(issuer, response);
});
after(async () => {
  assert.equal(await ringtrue.stop(), 0, 'exits with 0 on SIGTERM');
});

async function grant({ client_id, client_secret }, scope, authentication = oauth.ClientSecretBasic) {
  const client = { client_id };
  const response = await oauth.clientCredentialsGrantRequest(
    server,
    client,
    authentication(client_secret),
    new URLSearchParams({ scope }),
    allowHttp,
  );
  return oauth.processClientCredentialsResponse(server, client, response);
}

test('client credentials grant issues a token for each product', async () => {
  for (const scope of ['reverse_sms', 'secure_sna', 'discovery', 'sim_swap', 'eligibility']) {
    const tokens = await grant(ringtrue.project, scope);
    assert.equal(tokens.token_type, 'bearer');
    assert.equal(tokens.scope, scope);
  }
});

test('revocation is idempotent with both authentication methods', async () => {
  const { access_token } = await grant(ringtrue.workspace, 'management', oauth.ClientSecretPost);
  const { client_id, client_secret } = ringtrue.workspace;
  for (const authentication of [oauth.ClientSecretPost, oauth.ClientSecretBasic]) {
    const response = await oauth.revocationRequest(
      server,
      { client_id },
      authentication(client_secret),
      access_token,
      allowHttp,
    );
    await oauth.processRevocationResponse(response);
  }
  const url = new URL(`${ringtrue.base_url}/v1/management/workspaces`);
  await assert.rejects(
    oauth.protectedResourceRequest(access_token, 'GET', url, undefined, undefined, allowHttp),
    oauth.WWWAuthenticateChallengeError,
  );
});

test('wrong secret returns 401 with a challenge', async () => {
  await assert.rejects(grant({ ...ringtrue.project, client_secret: 'wrong' }, 'reverse_sms'), (error) => {
    assert.ok(error instanceof oauth.WWWAuthenticateChallengeError, `${error}`);
    assert.equal(error.cause[0].scheme, 'basic');
    return true;
  });
});

test('invalid scope returns an OAuth error body', async () => {
  await assert.rejects(grant(ringtrue.project, 'management'), (error) => {
    assert.ok(error instanceof oauth.ResponseBodyError, `${error}`);
    assert.equal(error.error, 'invalid_scope');
    return true;
  });
});
