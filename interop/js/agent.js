// The sample agent written with the JavaScript SDK. It behaves as
// interop/README.md says, like its Go and Python twins, and holds no Parley
// code: it is a stranger that Parley has to get on with.

import {
  DefaultExecutionEventBusManager,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import * as grpc from '@grpc/grpc-js';
import express from 'express';

import { Script } from './script.js';
import { PATHS, addressOf, announce, bindGRPC, parseOptions, requireToken, requireTokenInMetadata, stopOnSignal } from './serve.js';

const options = parseOptions('js-agent');

function newCard(base, grpcPort) {
  const card = {
    name: options.name,
    description: 'Sample agent on the JavaScript SDK: echoes, works, asks, fails.',
    version: '1.0.0',
    provider: undefined,
    supportedInterfaces: options.bindings.split(',').map((binding) => ({
      url: addressOf(binding, base, grpcPort),
      protocolBinding: binding,
      protocolVersion: '1.0',
      tenant: '',
    })),
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false, extensions: [] },
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
          'Does what the first word of the message says: echo, task, slow, ask, fail, reject, data, file, headers, relay.',
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
  const binding = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  // The card stays open: a stranger learns from it which credential is wanted.
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  app.use(PATHS.JSONRPC, requireToken(options.token), jsonRpcHandler(binding));
  app.use(PATHS['HTTP+JSON'], requireToken(options.token), restHandler(binding));
  grpcServer.addService(A2AService, grpcService(binding));
  announce(options['ready-file'], `${base}/`);
});

stopOnSignal(server, grpcServer);
