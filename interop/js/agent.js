// The sample agent written with the JavaScript SDK. It behaves as
// interop/README.md says, like its Go and Python twins, and holds no Parley
// code: it is a stranger that Parley has to get on with.

import { timingSafeEqual } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import * as grpc from '@grpc/grpc-js';
import express from 'express';

import { Script } from './script.js';

// How long open streams may still finish after SIGTERM.
const STOP_GRACE_MS = 2000;

const PATHS = { JSONRPC: '/rpc', 'HTTP+JSON': '/rest' };

const { values: options } = parseArgs({
  options: {
    name: { type: 'string', default: 'js-agent' }, // name on the card
    port: { type: 'string', default: '0' }, // port on 127.0.0.1, 0 for a free one
    bindings: { type: 'string', default: 'JSONRPC,HTTP+JSON' }, // bindings the card declares, in this order; GRPC is one too
    'ready-file': { type: 'string', default: '' }, // file that gets {"url": …} once the agent serves
    token: { type: 'string', default: '' }, // bearer token asked of callers, none if empty
  },
});

function newCard(base, grpcPort) {
  const card = {
    name: options.name,
    description: 'Sample agent on the JavaScript SDK: echoes, works, asks, fails.',
    version: '1.0.0',
    provider: undefined,
    supportedInterfaces: options.bindings.split(',').map((binding) => {
      if (!PATHS[binding] && binding !== 'GRPC') {
        throw new Error(`--bindings: "${binding}" is none of JSONRPC, HTTP+JSON, GRPC`);
      }
      const url = binding === 'GRPC' ? `127.0.0.1:${grpcPort}` : base + PATHS[binding];
      return { url, protocolBinding: binding, protocolVersion: '1.0', tenant: '' };
    }),
    capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false, extensions: [] },
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: ['text/plain', 'application/json'],
    securitySchemes: {},
    securityRequirements: [],
    signatures: [],
    skills: [
      {
        id: 'script',
        name: 'Script',
        description:
          'Does what the first word of the message says: echo, task, slow, ask, fail, reject, data, headers, relay.',
        tags: ['sample'],
        examples: ['echo hello', 'slow 200 report'],
        inputModes: [],
        outputModes: [],
        securityRequirements: [],
      },
    ],
  };
  if (options.token) {
    card.securitySchemes = {
      bearer: {
        scheme: { $case: 'httpAuthSecurityScheme', value: { description: '', scheme: 'Bearer', bearerFormat: '' } },
      },
    };
    card.securityRequirements = [{ schemes: { bearer: { list: [] } } }];
  }
  return card;
}

function admits(authorization) {
  const want = Buffer.from(`Bearer ${options.token}`);
  const got = Buffer.from(authorization ?? '');
  return !options.token || (got.length === want.length && timingSafeEqual(got, want));
}

function requireToken(request, response, next) {
  if (!admits(request.get('authorization'))) {
    response.set('WWW-Authenticate', 'Bearer realm="agent"').status(401).type('text').send('a bearer token is needed');
    return;
  }
  next();
}

// requireTokenInMetadata is the same for callers over gRPC, as an interceptor.
function requireTokenInMetadata(_method, call) {
  return new grpc.ServerInterceptingCall(call, {
    start(next) {
      next({
        onReceiveMetadata(metadata, pass) {
          if (admits(metadata.get('authorization')[0])) {
            pass(metadata);
          } else {
            call.sendStatus({ code: grpc.status.UNAUTHENTICATED, details: 'a bearer token is needed' });
          }
        },
      });
    },
  });
}

// bindGRPC takes a free port. What is served there comes once the card, which
// names the port, is there.
function bindGRPC(grpcServer) {
  return new Promise((resolve, reject) => {
    grpcServer.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
      if (error) reject(error);
      else resolve(port);
    });
  });
}

// announce tells whoever started the agent that it serves: a line on standard
// output, and the ready file, which appears whole or not at all.
function announce(url) {
  console.log(`ready ${url}`);
  const file = options['ready-file'];
  if (!file) return;
  const partial = join(dirname(file), `.${basename(file)}`);
  writeFileSync(partial, JSON.stringify({ url }), { mode: 0o600 });
  renameSync(partial, file);
}

// The card names the ports, so the sockets come first and the routes after them.
const grpcServer = new grpc.Server({ interceptors: [requireTokenInMetadata] });
const grpcPort = await bindGRPC(grpcServer);
const app = express();
const server = app.listen(Number(options.port), '127.0.0.1', (error) => {
  if (error) {
    console.error('agent:', error.message);
    process.exit(1);
  }
  const base = `http://127.0.0.1:${server.address().port}`;
  const requestHandler = new DefaultRequestHandler(newCard(base, grpcPort), new InMemoryTaskStore(), new Script());
  const binding = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  // The card stays open: a stranger learns from it which credential is wanted.
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  app.use(PATHS.JSONRPC, requireToken, jsonRpcHandler(binding));
  app.use(PATHS['HTTP+JSON'], requireToken, restHandler(binding));
  grpcServer.addService(A2AService, grpcService(binding));
  announce(`${base}/`);
});

function stop() {
  grpcServer.tryShutdown(() => {});
  setTimeout(() => grpcServer.forceShutdown(), STOP_GRACE_MS).unref();
  server.close(() => process.exit(0));
  server.closeIdleConnections();
  setTimeout(() => server.closeAllConnections(), STOP_GRACE_MS).unref();
}
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
