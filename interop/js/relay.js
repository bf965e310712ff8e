// How an agent on the JavaScript SDK calls another agent through the mesh.

import { Role } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';

// docs: call another agent
/**
 * relay sends words to another agent at the mesh. PARLEY_URL is the mesh's
 * address, PARLEY_KEY this agent's own key, made by
 * `parley key create --for agent:NAME`. With the key the mesh knows that the
 * new call belongs to the one this agent is working on; the traceparent of the
 * incoming request keeps both in one trace and settles which one it is when
 * the agent works on several at once.
 */
export async function relay(name, words, traceparent) {
  const { PARLEY_URL: mesh, PARLEY_KEY: key } = process.env;
  if (!mesh || !key) {
    throw new Error('set PARLEY_URL and PARLEY_KEY');
  }
  const client = await new ClientFactory().createFromUrl(`${mesh.replace(/\/$/, '')}/agents/${name}/`);
  const serviceParameters = { Authorization: `Bearer ${key}` };
  if (traceparent) {
    serviceParameters.traceparent = traceparent;
  }
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
  const answer = await client.sendMessage(
    { tenant: '', message, configuration: undefined, metadata: undefined },
    { serviceParameters },
  );
  const parts = answer.parts ?? answer.artifacts.flatMap((artifact) => artifact.parts);
  return parts.map((part) => (part.content?.$case === 'text' ? part.content.value : '')).join(' ');
}
// docs: end
