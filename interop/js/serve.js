// What the sample agents in JavaScript share whatever the version of their SDK:
// flags, the token they ask for, how they say that they serve and how they end.

import { timingSafeEqual } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

// How long open streams may still finish after SIGTERM.
const STOP_GRACE_MS = 2000;

/** PATHS are where the bindings of HTTP are served. */
export const PATHS = { JSONRPC: '/rpc', 'HTTP+JSON': '/rest' };

/** parseOptions reads the command line of an agent. */
export function parseOptions(name) {
  const { values } = parseArgs({
    options: {
      name: { type: 'string', default: name }, // name on the card
      port: { type: 'string', default: '0' }, // port on 127.0.0.1, 0 for a free one
      bindings: { type: 'string', default: 'JSONRPC,HTTP+JSON' }, // bindings the card declares, in this order; GRPC is one too
      'ready-file': { type: 'string', default: '' }, // file that gets {"url": …} once the agent serves
      token: { type: 'string', default: '' }, // bearer token asked of callers, none if empty
    },
  });
  return values;
}

/** addressOf is where a binding of the card is served. */
export function addressOf(binding, base, grpcPort) {
  if (!PATHS[binding] && binding !== 'GRPC') {
    throw new Error(`--bindings: "${binding}" is none of JSONRPC, HTTP+JSON, GRPC`);
  }
  return binding === 'GRPC' ? `127.0.0.1:${grpcPort}` : base + PATHS[binding];
}

function admits(token, authorization) {
  const want = Buffer.from(`Bearer ${token}`);
  const got = Buffer.from(authorization ?? '');
  return !token || (got.length === want.length && timingSafeEqual(got, want));
}

/** requireToken refuses requests without the token. */
export function requireToken(token) {
  return (request, response, next) => {
    if (!admits(token, request.get('authorization'))) {
      response.set('WWW-Authenticate', 'Bearer realm="agent"').status(401).type('text').send('a bearer token is needed');
      return;
    }
    next();
  };
}

/** requireTokenInMetadata is the same for callers over gRPC, as an interceptor. */
export function requireTokenInMetadata(grpc, token) {
  return (_method, call) =>
    new grpc.ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, pass) {
            if (admits(token, metadata.get('authorization')[0])) {
              pass(metadata);
            } else {
              call.sendStatus({ code: grpc.status.UNAUTHENTICATED, details: 'a bearer token is needed' });
            }
          },
        });
      },
    });
}

/**
 * bindGRPC takes a free port. What is served there comes once the card, which
 * names the port, is there.
 */
export function bindGRPC(grpc, grpcServer) {
  return new Promise((resolve, reject) => {
    grpcServer.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
      if (error) reject(error);
      else resolve(port);
    });
  });
}

/**
 * announce tells whoever started the agent that it serves: a line on standard
 * output, and the ready file, which appears whole or not at all.
 */
export function announce(file, url) {
  console.log(`ready ${url}`);
  if (!file) return;
  const partial = join(dirname(file), `.${basename(file)}`);
  writeFileSync(partial, JSON.stringify({ url }), { mode: 0o600 });
  renameSync(partial, file);
}

/** stopOnSignal makes SIGTERM a normal end. */
export function stopOnSignal(server, grpcServer) {
  function stop() {
    grpcServer.tryShutdown(() => {});
    setTimeout(() => grpcServer.forceShutdown(), STOP_GRACE_MS).unref();
    server.close(() => process.exit(0));
    server.closeIdleConnections();
    setTimeout(() => server.closeAllConnections(), STOP_GRACE_MS).unref();
  }
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}
