// A small agent. It greets back:
//
//   node hello.js 127.0.0.1:8102

import { Role } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

const hello = {
  async execute(context, bus) {
    const words = context.userMessage.parts[0].content.value;
    bus.publish(
      AgentEvent.message({
        messageId: crypto.randomUUID(),
        role: Role.ROLE_AGENT,
        parts: [
          {
            content: { $case: 'text', value: `hello, you said: ${words}` },
            filename: '',
            mediaType: '',
            metadata: undefined,
          },
        ],
        contextId: context.contextId,
        taskId: '',
        extensions: [],
        referenceTaskIds: [],
        metadata: undefined,
      }),
    );
  },
  async cancelTask() {}, // a message is no task that could be canceled
};

const [address] = process.argv.slice(2);
if (!address) {
  console.error('usage: node hello.js HOST:PORT');
  process.exit(2);
}
const card = {
  name: 'hello',
  description: 'Greets back.',
  version: '1.0.0',
  provider: undefined,
  // The address at which Parley reaches the agent.
  supportedInterfaces: [
    { url: `http://${address}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
  ],
  capabilities: { streaming: true, pushNotifications: false, extensions: [] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  securitySchemes: {},
  securityRequirements: [],
  signatures: [],
  skills: [
    {
      id: 'greet',
      name: 'Greet',
      description: 'Greets back.',
      tags: ['greeting'],
      examples: [],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    },
  ],
};

const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), hello);
const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
const { hostname, port } = new URL(`http://${address}/`);
app.listen(Number(port), hostname, (error) => {
  if (error) throw error;
});
