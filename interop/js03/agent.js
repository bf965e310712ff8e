// The sample agent written with the JavaScript SDK of protocol version 0.3. It
// does what its successor in ../js does, and pushes as well.

import {
  DefaultExecutionEventBusManager,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import * as grpc from '@grpc/grpc-js';
import express from 'express';

import {
  PATHS,
  addressOf,
  announce,
  bindGRPC,
  parseOptions,
  requireToken,
  requireTokenInMetadata,
  stopOnSignal,
} from '../js/serve.js';
import { Caller, Script } from './script.js';

const options = parseOptions('js03-agent');

function newCard(base, grpcPort) {
  const [preferred, ...others] = options.bindings
    .split(',')
    .map((transport) => ({ transport, url: addressOf(transport, base, grpcPort) }));
  return {
    name: options.name,
    description: 'Sample agent on the JavaScript SDK of version 0.3: echoes, works, asks, fails.',
    version: '1.0.0',
    protocolVersion: '0.3.0',
    url: preferred.url,
    preferredTransport: preferred.transport,
    additionalInterfaces: others,
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: ['text/plain', 'application/json'],
    skills: [
      {
        id: 'script',
        name: 'Script',
        description: 'Does what the first word of the message says: echo, task, slow, ask, fail, reject, data, file, headers.',
        tags: ['sample'],
        examples: ['echo hello', 'slow 200 report'],
      },
    ],
    ...(options.token && {
      securitySchemes: { bearer: { type: 'http', scheme: 'Bearer' } },
      security: [{ bearer: [] }],
    }),
  };
}

// The card names the ports, so the sockets come first and the routes after them.
const grpcServer = new grpc.Server({ interceptors: [requireTokenInMetadata(grpc, options.token)] });
const grpcPort = await bindGRPC(grpc, grpcServer);
const app = express();
const server = app.listen(Number(options.port), '127.0.0.1', (error) => {
  if (error) {
    console.error('agent:', error.message);
    process.exit(1);
  }
  const base = `http://127.0.0.1:${server.address().port}`;
  const pushes = new InMemoryPushNotificationStore();
  const requestHandler = new DefaultRequestHandler(
    newCard(base, grpcPort),
    new InMemoryTaskStore(),
    new Script(),
    new DefaultExecutionEventBusManager(),
    pushes,
    new DefaultPushNotificationSender(pushes),
  );
  const binding = { requestHandler, userBuilder: async (request) => new Caller(request.headers) };
  // The card stays open: a stranger learns from it which credential is wanted.
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  app.use(PATHS.JSONRPC, requireToken(options.token), jsonRpcHandler(binding));
  app.use(PATHS['HTTP+JSON'], requireToken(options.token), restHandler(binding));
  const userBuilder = async (call) => new Caller(call.metadata.getMap());
  grpcServer.addService(A2AService, grpcService({ requestHandler, userBuilder }));
  announce(options['ready-file'], `${base}/`);
});
stopOnSignal(server, grpcServer);
