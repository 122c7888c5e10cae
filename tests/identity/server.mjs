// npm oidc-provider as somebody would set it up for frost, on the loopback. Its pages are the package's own.
//
//   node server.mjs '{"port": 0, "audience": "https://…", "people": {"SUBJECT": {"email", "email_verified"}}}'
//
// The first line on standard output is {"issuer": URL}. What changes while it serves is told on standard input, one
// JSON object a line, each answered by a line {"done": true}:
//
//   {"claims": [...]}     which of email, auth_time, sid its access tokens carry
//   {"code": SECONDS}     how long a device code is good
//   {"refuses": CLIENT}   it does not know that client any more

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { webcrypto } from 'node:crypto';
import { Provider, errors } from 'oidc-provider';
// The package's own adapter, made here so that it outlives a change of clients.
import { createMemoryAdapter } from './node_modules/oidc-provider/lib/adapters/memory_adapter.js';

const adapter = createMemoryAdapter();
const given = JSON.parse(process.argv[2]);
const state = { claims: ['email', 'auth_time'], code: 600, clients: ['frost-cli'], keys: [] };

async function newKey() {
  const pair = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
  const jwk = await webcrypto.subtle.exportKey('jwk', pair.privateKey);
  const { key_ops: _, ext: __, ...members } = jwk;
  return { ...members, kid: webcrypto.randomUUID(), use: 'sig', alg: 'ES256' };
}

// What is typed into the package's login page is the subject; who is not among the people cannot sign in.
function account(id) {
  const person = given.people[id];
  return person && { accountId: id, claims: () => ({ sub: id, ...person }) };
}

function provider(issuer) {
  return new Provider(issuer, {
    adapter,
    jwks: { keys: state.keys },
    cookies: { keys: ['a secret of the cookies of a test'] },
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    clients: state.clients.map((id) => ({
      client_id: id,
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      id_token_signed_response_alg: 'ES256',
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      response_types: ['code'],
      // RFC 8252, 7.3: any port of the loopback address.
      redirect_uris: ['http://127.0.0.1/callback'],
    })),
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (ctx, id) => account(id),
    rotateRefreshToken: true,
    ttl: { DeviceCode: () => state.code, AccessToken: 1800, RefreshToken: 86400, Interaction: 3600, Session: 86400, Grant: 86400, IdToken: 3600 },
    features: {
      devInteractions: { enabled: true },
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo(ctx, resource) {
          if (resource !== given.audience) throw new errors.InvalidTarget();
          return { scope: '', audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
        },
      },
    },
    // What frost needs in an access token beside RFC 9068: who it is, and when that person signed in.
    extraTokenClaims(ctx, token) {
      const { AuthorizationCode: code, DeviceCode: device, RotatedRefreshToken: used, RefreshToken: refresh } = ctx.oidc.entities;
      const from = code ?? device ?? used ?? refresh;
      const { email, email_verified } = account(token.accountId)?.claims() ?? {};
      const all = { email: { email, email_verified }, auth_time: { auth_time: from?.authTime }, sid: { sid: from?.sessionUid } };
      return Object.assign({}, ...state.claims.map((name) => all[name]));
    },
  });
}

const server = createServer();
server.listen(given.port, '127.0.0.1', async () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let answer;
  const serve = () => { answer = provider(issuer).callback(); };
  state.keys = [await newKey()];
  serve();
  server.on('request', (request, response) => answer(request, response));
  console.log(JSON.stringify({ issuer }));
  for await (const line of createInterface({ input: process.stdin })) {
    const { refuses, ...members } = JSON.parse(line);
    Object.assign(state, members);
    if (refuses) {
      state.clients = state.clients.filter((id) => id !== refuses);
      serve();
    }
    console.log(JSON.stringify({ done: true }));
  }
  process.exit(0);
});
