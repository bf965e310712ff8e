// The scenarios, step by step the same as those of the Go and Python clients.

import { Role, TaskState } from '@a2a-js/sdk';

import { data, file, newMessage, text } from './parts.js';
import { PUSH_TOKEN, UNKNOWN_TASK } from './steady.js';

// Stands for an extension neither side has heard of.
const UNKNOWN_EXTENSION = 'https://extensions.invalid/unknown/v1';

// The pause between two looks at a task.
const POLL_INTERVAL_MS = 20;

function say(words, message = {}, rest = {}) {
  return {
    tenant: '',
    message: newMessage({ role: Role.ROLE_USER, parts: [text(words)], ...message }),
    configuration: undefined,
    metadata: undefined,
    ...rest,
  };
}

// atOnce does not want to wait for the task.
function atOnce(words) {
  const configuration = {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    historyLength: undefined,
    returnImmediately: true,
  };
  return say(words, {}, { configuration });
}

// A further message on a task.
function sayOn(task, words) {
  return say(words, { taskId: task?.id ?? '', contextId: task?.contextId ?? '' });
}

// decorated carries metadata and an extension that nobody on the way knows.
function decorated(words) {
  const metadata = { [UNKNOWN_EXTENSION]: { Level: 3, tags: ['a', 'b'], nested: { x_y: true } } };
  return say(words, { extensions: [UNKNOWN_EXTENSION], metadata }, { metadata: { reference: 'order-1' } });
}

/** sayOne is the scenario of a single message. */
export function sayOne(words, streamed) {
  return (client, call, r) =>
    streamed
      ? r.stream('say', client.sendMessageStream(say(words), call))
      : r.answer('say', () => client.sendMessage(say(words), call));
}

async function send(client, call, r) {
  const mixed = { a: [1, 2.5, null, 'ü'], empty: {} };
  for (const request of [
    decorated('echo hello ünï'),
    decorated('task tea'),
    say('data', { parts: [text('data'), data(mixed)] }),
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
  for (const historyLength of [undefined, 0, 1]) {
    await r.answer('get', () => client.getTask({ tenant: '', id: task?.id, historyLength }, call));
  }
}

async function list(client, call, r) {
  const first = await r.answer('send', () => client.sendMessage(say('task first'), call));
  const contextId = first?.contextId ?? '';
  await r.answer('send', () => client.sendMessage(say('task second', { contextId }), call));

  const query = {
    tenant: '',
    contextId,
    status: TaskState.TASK_STATE_UNSPECIFIED,
    pageToken: '',
    statusTimestampAfter: undefined,
  };
  let pageToken = '';
  for (let pages = 0; pages < 3; pages++) {
    // One more than there are pages, should an agent never end them.
    const page = await r.answer('list', () => client.listTasks({ ...query, pageSize: 1, pageToken }, call));
    pageToken = page?.nextPageToken ?? '';
    if (!pageToken) break;
  }
  const completed = { ...query, status: TaskState.TASK_STATE_COMPLETED, includeArtifacts: true };
  await r.answer('list', () => client.listTasks(completed, call));
  await r.answer('list', () => client.listTasks({ ...query, status: TaskState.TASK_STATE_FAILED }, call));
}

async function cancel(client, call, r) {
  const task = await r.accepted('send', () => client.sendMessage(atOnce('slow 60000 long'), call));
  const byId = { tenant: '', id: task?.id, metadata: undefined };
  await awaitWorking(client, call, byId);
  await r.answer('cancel', () => client.cancelTask(byId, call));
  await r.answer('get', () => client.getTask(byId, call));
}

// subscribe leaves its first stream while the task works, comes back by a
// subscription, and ends the task from outside once that has begun.
async function subscribe(client, call, r) {
  let id;
  await r.stream('stream', client.sendMessageStream(say('slow 60000 long'), call), ({ payload }) => {
    id ??= payload.value.id ?? payload.value.taskId;
    return !(payload.$case === 'statusUpdate' && payload.value.status.state === TaskState.TASK_STATE_WORKING);
  });
  let canceling;
  await r.stream('subscribe', client.resubscribeTask({ tenant: '', id }, call), () => {
    canceling ??= client.cancelTask({ tenant: '', id, metadata: undefined }, call);
    canceling.catch(() => {}); // answer below reports it
    return true;
  });
  await r.answer('cancel', () => canceling);
}

async function input(client, call, r) {
  const asked = await r.answer('send', () => client.sendMessage(say('ask which tea?'), call));
  await r.answer('send', () => client.sendMessage(sayOn(asked, 'oolong'), call));

  let task;
  await r.stream('stream', client.sendMessageStream(say('ask which cup?'), call), ({ payload }) => {
    if (payload.$case === 'task') task = payload.value;
    return true;
  });
  await r.stream('stream', client.sendMessageStream(sayOn(task, 'blue'), call));
}

async function files(client, call, r) {
  const raw = file('note.bin', 'application/octet-stream', 'raw', Buffer.from([0, 1, 254, 255]));
  const link = file('tea.png', 'image/png', 'url', 'https://files.invalid/tea.png');
  await r.answer('send', () => client.sendMessage(say('file', { parts: [text('file'), raw, link] }), call));
  await r.stream('stream', client.sendMessageStream(say('file', { parts: [text('file'), raw] }), call));
}

async function errors(client, call, r) {
  const unknown = { tenant: '', id: UNKNOWN_TASK, metadata: undefined };
  await r.answer('get unknown', () => client.getTask(unknown, call));
  await r.answer('cancel unknown', () => client.cancelTask(unknown, call));
  await r.stream('subscribe unknown', client.resubscribeTask(unknown, call));
  await r.answer('send to unknown', () => client.sendMessage(sayOn(unknown, 'echo hello'), call));

  const task = await r.answer('send', () => client.sendMessage(say('task tea'), call));
  const byId = { tenant: '', id: task?.id, metadata: undefined };
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
    const task = await r.accepted('send', () => client.sendMessage(atOnce('slow 2000 tea'), call));
    const of = { tenant: '', taskId: task?.id };
    for (const id of ['own', 'other']) {
      const config = { ...of, id, url: address, token: PUSH_TOKEN, authentication: undefined };
      await r.answer('create push', () => client.createTaskPushNotificationConfig(config, call));
    }
    const list = () => client.listTaskPushNotificationConfig({ ...of, pageSize: 0, pageToken: '' }, call);
    await r.answer('get push', () => client.getTaskPushNotificationConfig({ ...of, id: 'own' }, call));
    await r.answer('list push', list);
    await r.answer('delete push', async () => {
      await client.deleteTaskPushNotificationConfig({ ...of, id: 'other' }, call);
      return { deleted: true };
    });
    await r.answer('list push', list);
  };
}

async function headers(client, call, r) {
  const serviceParameters = { ...call.serviceParameters, 'A2A-Extensions': UNKNOWN_EXTENSION };
  await r.answer('send', () => client.sendMessage(say('headers'), { ...call, serviceParameters }));
}

// awaitWorking polls until the agent has taken the task up. Nothing of it is
// recorded: how often it must ask depends on the moment.
async function awaitWorking(client, call, byId) {
  while (!call.signal.aborted) {
    const task = await client.getTask(byId, call).catch(() => undefined);
    if (task?.status.state !== TaskState.TASK_STATE_SUBMITTED) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
}

export const scenarios = { send, stream, get, list, cancel, subscribe, input, files, errors, headers };
