// Messages and parts as the SDK's types want them: with every member present.

import { Role } from '@a2a-js/sdk';

export function text(value) {
  return { content: { $case: 'text', value }, filename: '', mediaType: '', metadata: undefined };
}

export function data(value) {
  return { content: { $case: 'data', value }, filename: '', mediaType: '', metadata: undefined };
}

/** file is a part with bytes, as $case raw, or a link, as url. */
export function file(filename, mediaType, $case, value) {
  return { content: { $case, value }, filename, mediaType, metadata: undefined };
}

/** textOf is the first text among the parts, or an empty string. */
export function textOf(parts) {
  return parts.find((p) => p.content?.$case === 'text')?.content.value ?? '';
}

/** newMessage fills in what is missing beside the given members; it is the agent's unless they say otherwise. */
export function newMessage(members) {
  return {
    messageId: crypto.randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_AGENT,
    parts: [],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...members,
  };
}
