// Sends one message to an agent and prints what comes back:
//
//   PARLEY_KEY=pk_… node call.js http://127.0.0.1:7400/agents/NAME/ "hello there"

import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';

const [url, words] = process.argv.slice(2);
if (!words) {
  console.error('usage: node call.js URL WORDS');
  process.exit(2);
}

const client = await new ClientFactory().createFromUrl(url);
const key = process.env.PARLEY_KEY;
const options = key ? { serviceParameters: { Authorization: `Bearer ${key}` } } : {};

// The SDK's types have no optional members: each is given, if only as empty.
const message = {
  messageId: crypto.randomUUID(),
  role: Role.ROLE_USER,
  parts: [{ content: { $case: 'text', value: words }, filename: '', mediaType: '', metadata: undefined }],
  contextId: '',
  taskId: '',
  extensions: [],
  referenceTaskIds: [],
  metadata: undefined,
};
const request = { tenant: '', message, configuration: undefined, metadata: undefined };

for await (const { payload } of client.sendMessageStream(request, options)) {
  switch (payload.$case) {
    case 'message':
      show('message', payload.value.parts);
      break;
    case 'task':
    case 'statusUpdate':
      console.log(TaskState[payload.value.status.state]);
      break;
    case 'artifactUpdate':
      show('artifact', payload.value.artifact.parts);
  }
}

function show(what, parts) {
  for (const part of parts) console.log(`${what}: ${part.content.value}`);
}
