// npm oidc-provider as somebody would set it up for frost, on the loopback. Its pages are the package's own.
//
//   node server.mjs '{"port": 0, "audience": "https://…", "people": {"SUBJECT": {"email", "email_verified"}}}'
//
// The first line on standard output is {"issuer": URL}. What changes while it serves is told on standard input, one
// JSON object a line, each answered by a line {"done": true}:
//
//   {"keys": "add"}       a new key signs, the one before is still published
//   {"keys": "replace"}   a new key signs, all others are gone
//   {"clock": SECONDS}    its clock is that much ahead (a fake clock; the only fake here)
//   {"claims": [...]}     which of email, auth_time, sid its access tokens carry
//   {"people": {...}}     other people, as above
//   {"alg": "HS256"}      what it signs access tokens with
//   {"aud": "…"}          whom it makes them for, whatever was asked
//   {"code": SECONDS}     how long a device code is good
//   {"refuses": CLIENT}   it does not know that client any more

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { webcrypto } from 'node:crypto';
import { Provider, errors } from 'oidc-provider';
// The package's own adapter, made here so that it outlives a change of keys.
import { createMemoryAdapter } from './node_modules/oidc-provider/lib/adapters/memory_adapter.js';

const adapter = createMemoryAdapter();
const given = JSON.parse(process.argv[2]);
const state = {
  claims: ['email', 'auth_time'], people: given.people, alg: 'ES256', aud: null, code: 600, clients: ['frost-cli'], keys: [],
};

async function newKey(alg = { name: 'ECDSA', namedCurve: 'P-256' }, name = 'ES256') {
  const pair = await webcrypto.subtle.generateKey(alg, true, ['sign', 'verify']);
  const jwk = await webcrypto.subtle.exportKey('jwk', pair.privateKey);
  const { key_ops: _, ext: __, ...members } = jwk;
  return { ...members, kid: webcrypto.randomUUID(), use: 'sig', alg: name };
}
const rsa = () => newKey(
  { name: 'RSASSA-PKCS1-v1_5', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-512' }, 'RS512',
);

// What is typed into the package's login page is the subject; who is not among the people cannot sign in.
function account(id) {
  const person = state.people[id];
  return person && { accountId: id, claims: () => ({ sub: id, ...person }) };
}

function provider(issuer) {
  return new Provider(issuer, {
    adapter,
    jwks: { keys: state.keys },
    cookies: { keys: ['a secret of the cookies of a test'] },
    enabledJWA: { idTokenSigningAlgValues: ['ES256', 'RS512', 'HS256'] },
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
          const hmac = { alg: state.alg, key: Buffer.from('a secret that only the two of them know, 32 bytes') };
          return {
            scope: '',
            audience: state.aud ?? given.audience,
            accessTokenFormat: 'jwt',
            jwt: { sign: state.alg.startsWith('HS') ? hmac : { alg: state.alg } },
          };
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

const realNow = Date.now;
const server = createServer();
server.listen(given.port, '127.0.0.1', async () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let answer;
  const serve = () => { answer = provider(issuer).callback(); };
  state.keys = [await newKey(), await rsa()];
  serve();
  server.on('request', (request, response) => answer(request, response));
  console.log(JSON.stringify({ issuer }));
  for await (const line of createInterface({ input: process.stdin })) {
    const { keys, clock, refuses, ...members } = JSON.parse(line);
    Object.assign(state, members);
    if (keys) state.keys = [await newKey(), await rsa(), ...(keys === 'add' ? state.keys : [])];
    if (refuses) state.clients = state.clients.filter((id) => id !== refuses);
    if (clock !== undefined) Date.now = () => realNow() + clock * 1000;
    if (keys || refuses) serve();
    console.log(JSON.stringify({ done: true }));
  }
  process.exit(0);
});
