// npm `oidc-provider` with its in-memory adapter and client credentials, for the comparison of token requests.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [
      {
        client_id: 'client',
        client_secret: 'secret',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        scope: 'reverse_sms',
      },
    ],
    scopes: ['reverse_sms'],
    cookies: { keys: ['bench'] },
    features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
  });
  server.on('request', provider.callback());
  console.log(`listening on 127.0.0.1:${port}`);
});
