// The scenarios, step by step the same as those of the Go and Python clients.

import { PUSH_TOKEN, UNKNOWN_TASK } from '../js/steady.js';

// Stands for an extension neither side has heard of.
const UNKNOWN_EXTENSION = 'https://extensions.invalid/unknown/v1';

// The pause between two looks at a task.
const POLL_INTERVAL_MS = 20;

function text(words) {
  return { kind: 'text', text: words };
}

function say(words, message = {}, rest = {}) {
  return { message: { kind: 'message', messageId: crypto.randomUUID(), role: 'user', parts: [text(words)], ...message }, ...rest };
}

// A further message on a task.
function sayOn(task, words) {
  return say(words, { taskId: task?.id, contextId: task?.contextId });
}

// decorated carries metadata and an extension that nobody on the way knows.
function decorated(words) {
  const metadata = { [UNKNOWN_EXTENSION]: { Level: 3, tags: ['a', 'b'], nested: { x_y: true } } };
  return say(words, { extensions: [UNKNOWN_EXTENSION], metadata }, { metadata: { reference: 'order-1' } });
}

/** sayOne is the scenario of a single message. */
export function sayOne(words) {
  return (client, call, r) => r.answer('say', () => client.sendMessage(say(words), call));
}

async function send(client, call, r) {
  const mixed = { kind: 'data', data: { a: [1, 2.5, null, 'ü'], empty: {} } };
  for (const request of [
    decorated('echo hello ünï'),
    decorated('task tea'),
    say('data', { parts: [text('data'), mixed] }),
    say('data {"n":1}'),
    say('fail no milk'),
    say('reject no tea'),
  ]) {
    await r.answer('send', () => client.sendMessage(request, call));
  }
}

async function stream(client, call, r) {
  for (const request of [decorated('task tea'), say('slow 40 coffee'), decorated('echo hello'), say('fail no milk')]) {
    await r.stream('stream', client.sendMessageStream(request, call));
  }
}

async function get(client, call, r) {
  const task = await r.answer('send', () => client.sendMessage(say('task tea'), call));
  for (const length of [{}, { historyLength: 0 }, { historyLength: 1 }]) {
    await r.answer('get', () => client.getTask({ id: task?.id, ...length }, call));
  }
}

async function cancel(client, call, r) {
  const configuration = { blocking: false };
  const task = await r.accepted('send', () => client.sendMessage(say('slow 60000 long', {}, { configuration }), call));
  const byId = { id: task?.id };
  await awaitWorking(client, call, byId);
  await r.answer('cancel', () => client.cancelTask(byId, call));
  await r.answer('get', () => client.getTask(byId, call));
}

// subscribe leaves its first stream while the task works, comes back by a
// subscription, and ends the task from outside once that has begun: at its first
// event, which an agent of version 0.3 sends only when something happens.
async function subscribe(client, call, r) {
  let id;
  await r.stream('stream', client.sendMessageStream(say('slow 12000 long'), call), (event) => {
    id ??= event.kind === 'task' ? event.id : event.taskId;
    return event.status?.state !== 'working';
  });
  let canceling;
  await r.stream('subscribe', client.resubscribeTask({ id }, call), () => {
    canceling ??= client.cancelTask({ id }, call);
    canceling.catch(() => {}); // it is looked at below
    return true;
  });
  await r.answer('cancel', () => canceling ?? client.cancelTask({ id }, call));
}

async function input(client, call, r) {
  const asked = await r.answer('send', () => client.sendMessage(say('ask which tea?'), call));
  await r.answer('send', () => client.sendMessage(sayOn(asked, 'oolong'), call));

  let task;
  await r.stream('stream', client.sendMessageStream(say('ask which cup?'), call), (event) => {
    if (event.kind === 'task') task = event;
    return true;
  });
  await r.stream('stream', client.sendMessageStream(sayOn(task, 'blue'), call));
}

async function files(client, call, r) {
  const bytes = Buffer.from([0, 1, 254, 255]).toString('base64');
  const raw = { kind: 'file', file: { name: 'note.bin', mimeType: 'application/octet-stream', bytes } };
  const link = { kind: 'file', file: { name: 'tea.png', mimeType: 'image/png', uri: 'https://files.invalid/tea.png' } };
  await r.answer('send', () => client.sendMessage(say('file', { parts: [text('file'), raw, link] }), call));
  await r.stream('stream', client.sendMessageStream(say('file', { parts: [text('file'), raw] }), call));
}

async function errors(client, call, r) {
  const unknown = { id: UNKNOWN_TASK };
  await r.answer('get unknown', () => client.getTask(unknown, call));
  await r.answer('cancel unknown', () => client.cancelTask(unknown, call));
  await r.stream('subscribe unknown', client.resubscribeTask(unknown, call));
  await r.answer('send to unknown', () => client.sendMessage(sayOn(unknown, 'echo hello'), call));

  const task = await r.answer('send', () => client.sendMessage(say('task tea'), call));
  const byId = { id: task?.id };
  await r.answer('cancel finished', () => client.cancelTask(byId, call));
  await r.stream('subscribe finished', client.resubscribeTask(byId, call));
  await r.answer('send to finished', () => client.sendMessage(sayOn(task, 'more'), call));
}

/**
 * push has two addresses told of a task, gives one up and leaves the other to
 * whoever listens there until the task is done.
 */
export function push(address) {
  return async (client, call, r) => {
    const configuration = { blocking: false };
    const task = await r.accepted('send', () => client.sendMessage(say('slow 2000 tea', {}, { configuration }), call));
    const id = task?.id;
    for (const name of ['own', 'other']) {
      const pushNotificationConfig = { id: name, url: address, token: PUSH_TOKEN };
      await r.answer('create push', () => client.setTaskPushNotificationConfig({ taskId: id, pushNotificationConfig }, call));
    }
    const list = async () => ({ configs: await client.listTaskPushNotificationConfig({ id }, call) });
    await r.answer('get push', () => client.getTaskPushNotificationConfig({ id, pushNotificationConfigId: 'own' }, call));
    await r.answer('list push', list);
    await r.answer('delete push', async () => {
      await client.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId: 'other' }, call);
      return { deleted: true };
    });
    await r.answer('list push', list);
  };
}

async function headers(client, call, r) {
  await r.answer('send', () => client.sendMessage(say('headers'), call));
}

// awaitWorking polls until the agent has taken the task up. Nothing of it is
// recorded: how often it must ask depends on the moment.
async function awaitWorking(client, call, byId) {
  while (!call.signal.aborted) {
    const task = await client.getTask(byId, call).catch(() => undefined);
    if (task?.status.state !== 'submitted') return;
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
}

export const scenarios = { send, stream, get, cancel, subscribe, input, files, errors, headers };
