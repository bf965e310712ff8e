// A real OpenID provider for the sign-on tests: discovery, signed access tokens
// for one resource, client credentials, the device flow with refresh tokens, and
// keys that rotate when a test says so.
//
//   node provider.js [--audience NAME]
//
// It prints "ready URL" once it serves.
//
// POST /test/approve user_code=…&account=…   stands for a person at a browser
// POST /test/rotate[?alg=ES256]              new keys, the old ones gone
// GET  /test/counts                          how often keys were fetched
import { generateKeyPair } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs, promisify } from 'node:util';

import Provider from 'oidc-provider';

const { values: flags } = parseArgs({
  options: {
    audience: { type: 'string', default: 'https://mesh.example' },
  },
});

const people = {
  ada: { preferred_username: 'ada@example.org', groups: ['platform-admins', 'everyone'], department: 'Research' },
  bob: { preferred_username: 'bob', groups: ['everyone'], department: 'Research' },
};

const clients = [
  {
    client_id: 'parley-cli', token_endpoint_auth_method: 'none', application_type: 'native',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'], response_types: [], redirect_uris: [],
  },
  {
    client_id: 'batch-job', client_secret: 'only-of-this-test-provider', grant_types: ['client_credentials'],
    response_types: [], redirect_uris: [],
  },
];

let round = 0;
let keyFetches = 0;

async function newKeys() {
  round += 1;
  const make = promisify(generateKeyPair);
  const pairs = [
    ['RS256', await make('rsa', { modulusLength: 2048 })],
    ['ES256', await make('ec', { namedCurve: 'P-256' })],
    ['EdDSA', await make('ed25519')],
  ];
  return {
    keys: pairs.map(([alg, { privateKey }]) => ({
      ...privateKey.export({ format: 'jwk' }), kid: `${alg}-${round}`, use: 'sig', alg: alg === 'EdDSA' ? 'Ed25519' : alg,
    })),
  };
}

async function provide(issuer, alg) {
  const provider = new Provider(issuer, {
    clients,
    jwks: await newKeys(),
    scopes: ['openid', 'offline_access', 'call'],
    cookies: { keys: ['only-of-this-test-provider'] },
    ttl: { AccessToken: 600, ClientCredentials: 600, DeviceCode: 600, Grant: 3600, RefreshToken: 3600, IdToken: 600 },
    async findAccount(ctx, id) {
      return people[id] && { accountId: id, claims: async () => ({ sub: id, ...people[id] }) };
    },
    async extraTokenClaims(ctx, token) {
      return token.accountId ? people[token.accountId] : { groups: ['jobs'] };
    },
    async issueRefreshToken(ctx, client, code) {
      return client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access');
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: async () => true,
        async getResourceServerInfo(ctx, resource) {
          return { scope: 'call', audience: resource, accessTokenTTL: 600, accessTokenFormat: 'jwt', jwt: { sign: { alg } } };
        },
      },
    },
  });
  provider.on('server_error', (ctx, err) => console.error(err));
  return provider;
}

async function form(req) {
  let body = '';
  for await (const chunk of req) {
    body += chunk;
  }
  return new URLSearchParams(body);
}

// What the provider itself does once a person has confirmed code and consent.
async function approve(provider, userCode, accountId) {
  const code = await provider.DeviceCode.findByUserCode(userCode.replace(/[^A-Z0-9]/gi, '').toUpperCase());
  if (!code) {
    return false;
  }
  const grant = new provider.Grant({ accountId, clientId: code.clientId });
  grant.addOIDCScope('openid offline_access');
  grant.addResourceScope(flags.audience, 'call');
  Object.assign(code, {
    accountId, grantId: await grant.save(), scope: code.params.scope, resource: code.params.resource,
    authTime: Math.floor(Date.now() / 1000), claims: {},
  });
  await code.save();
  return true;
}

let provider;
let issuer;

const server = createServer(async (req, res) => {
  const url = new URL(req.url, issuer);
  const answer = (status, value) => {
    res.writeHead(status, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify(value));
  };
  try {
    if (url.pathname === '/test/approve') {
      const fields = await form(req);
      const done = await approve(provider, fields.get('user_code'), fields.get('account'));
      answer(done ? 200 : 404, { approved: done });
    } else if (url.pathname === '/test/rotate') {
      provider = await provide(issuer, url.searchParams.get('alg') ?? 'RS256');
      answer(200, { round });
    } else if (url.pathname === '/test/counts') {
      answer(200, { keyFetches });
    } else {
      keyFetches += url.pathname === '/jwks' ? 1 : 0;
      provider.callback()(req, res);
    }
  } catch (err) {
    console.error(err);
    answer(500, { error: String(err) });
  }
});

server.listen(0, '127.0.0.1', async () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  provider = await provide(issuer, 'RS256');
  console.log(`ready ${issuer}`);
});

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => process.exit(0));
}
