// What the sample agent does, by the first word of the message.

import { TaskState } from '@a2a-js/sdk';
import { AgentEvent, STATE_HEADERS_KEY } from '@a2a-js/sdk/server';

import { data, newMessage, text, textOf } from './parts.js';
import { relay } from './relay.js';

// How many status updates a slow task sends while it works.
const SLOW_STEPS = 4;

/** Script is the AgentExecutor. It knows the tasks that can still be canceled. */
export class Script {
  #open = new Map(); // task id -> { contextId, cancel: AbortController }

  async execute(context, bus) {
    const { taskId, contextId } = context;
    const cancel = new AbortController();
    this.#open.set(taskId, { contextId, cancel });
    const state = await this.#play(context, bus, cancel.signal);
    if (state !== TaskState.TASK_STATE_INPUT_REQUIRED) {
      this.#open.delete(taskId);
    }
  }

  #play(context, bus, canceled) {
    const turn = new Turn(context, bus);
    const words = textOf(context.userMessage.parts);
    if (context.task) return turn.answer(words);
    const [verb, rest] = cut(words);
    switch (verb) {
      case 'task':
        return turn.task(rest);
      case 'slow':
        return turn.slow(rest, canceled);
      case 'ask':
        return turn.end(TaskState.TASK_STATE_INPUT_REQUIRED, rest);
      case 'fail':
        return turn.end(TaskState.TASK_STATE_FAILED, rest);
      case 'reject':
        return turn.end(TaskState.TASK_STATE_REJECTED, rest);
      case 'data':
        return turn.data(rest);
      case 'file':
        return turn.files();
      case 'echo':
        return turn.reply(text(rest));
      case 'headers':
        return turn.reply(data(seenHeaders(context)));
      case 'relay':
        return turn.relay(rest);
      default:
        return turn.reply(text('first word must be echo, task, slow, ask, fail, reject, data, file, headers or relay'));
    }
  }

  async cancelTask(taskId, bus) {
    const { contextId, cancel } = this.#open.get(taskId) ?? { contextId: '' };
    this.#open.delete(taskId);
    cancel?.abort();
    const message = newMessage({ taskId, contextId, parts: [text('canceled')] });
    const canceled = status(TaskState.TASK_STATE_CANCELED, message);
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: canceled, metadata: undefined }));
  }
}

/** Turn is one message being worked on. */
class Turn {
  constructor(context, bus) {
    this.context = context;
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
    this.metadata = echoedMetadata(context);
  }

  submit() {
    const { userMessage: message, taskId, contextId } = this.context;
    this.bus.publish(
      AgentEvent.task({
        id: taskId,
        contextId,
        status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: new Date().toISOString() },
        history: [{ ...message, taskId, contextId }],
        artifacts: [],
        metadata: this.metadata,
      }),
    );
  }

  status(state, words) {
    const message = newMessage({ ...this.ids, parts: [text(words)] });
    this.bus.publish(AgentEvent.statusUpdate({ ...this.ids, status: status(state, message), metadata: undefined }));
  }

  chunk(id, append, lastChunk, ...parts) {
    const artifact = {
      artifactId: id,
      name: id,
      description: '',
      parts,
      metadata: this.metadata,
      extensions: this.context.userMessage.extensions,
    };
    this.bus.publish(AgentEvent.artifactUpdate({ ...this.ids, artifact, append, lastChunk, metadata: undefined }));
  }

  task(topic) {
    this.submit();
    this.status(TaskState.TASK_STATE_WORKING, `working on ${topic}`);
    this.chunk('result', false, false, text(`first half of ${topic}`));
    this.chunk('result', true, true, text(`second half of ${topic}`));
    this.status(TaskState.TASK_STATE_COMPLETED, 'done');
  }

  async slow(rest, canceled) {
    const [number, topic] = cut(rest);
    const total = Number(number);
    if (!Number.isInteger(total) || total < 0) {
      this.end(TaskState.TASK_STATE_REJECTED, 'slow needs a number of milliseconds');
      return;
    }
    this.submit();
    for (let step = 1; step <= SLOW_STEPS; step++) {
      this.status(TaskState.TASK_STATE_WORKING, `step ${step} of ${SLOW_STEPS}`);
      await pause(total / SLOW_STEPS, canceled);
      if (canceled.aborted) return; // cancelTask has said so
    }
    this.chunk('result', false, true, text(topic));
    this.status(TaskState.TASK_STATE_COMPLETED, 'done');
  }

  answer(words) {
    // The SDK wants a task or a message first, also on a follow-up.
    this.bus.publish(AgentEvent.task(this.context.task));
    this.status(TaskState.TASK_STATE_WORKING, 'thank you');
    this.chunk('answer', false, true, text(`you said: ${words}`));
    this.status(TaskState.TASK_STATE_COMPLETED, 'done');
  }

  end(state, words) {
    this.submit();
    this.status(state, words);
    return state;
  }

  data(rest) {
    let part = this.context.userMessage.parts.find((p) => p.content?.$case === 'data');
    if (rest) {
      try {
        part = data(JSON.parse(rest));
      } catch {
        part = undefined;
      }
    }
    if (!part) {
      this.end(TaskState.TASK_STATE_REJECTED, 'data needs JSON after it, or a data part');
      return;
    }
    this.submit();
    this.chunk('data', false, true, part);
    this.status(TaskState.TASK_STATE_COMPLETED, 'done');
  }

  // files sends back the files of the message.
  files() {
    this.submit();
    const files = this.context.userMessage.parts.filter((p) => ['raw', 'url'].includes(p.content?.$case));
    this.chunk('file', false, true, ...files);
    this.status(TaskState.TASK_STATE_COMPLETED, 'done');
  }

  async relay(rest) {
    const [name, words] = cut(rest);
    const { traceparent } = this.context.context.state.get(STATE_HEADERS_KEY) ?? {};
    try {
      const answer = await relay(name, words, traceparent);
      this.reply(text(`${name} said: ${answer}`));
    } catch (error) {
      this.end(TaskState.TASK_STATE_FAILED, `relay: ${error.message}`);
    }
  }

  reply(part) {
    const { extensions } = this.context.userMessage;
    const message = newMessage({ contextId: this.ids.contextId, parts: [part], metadata: this.metadata, extensions });
    this.bus.publish(AgentEvent.message(message));
  }
}

function status(state, message) {
  return { state, message, timestamp: new Date().toISOString() };
}

// The message's metadata, and the request's under "request".
function echoedMetadata({ request, userMessage }) {
  const echoed = { ...userMessage.metadata };
  if (request.metadata && Object.keys(request.metadata).length > 0) {
    echoed.request = request.metadata;
  }
  return Object.keys(echoed).length > 0 ? echoed : undefined;
}

// What arrived beside the message: protocol headers in full, of the others
// only whether they are there.
function seenHeaders({ context }) {
  const headers = context.state.get(STATE_HEADERS_KEY) ?? {};
  return {
    'a2a-version': headers['a2a-version'] ?? '',
    'a2a-extensions': headers['a2a-extensions'] ?? '',
    authorization: Boolean(headers.authorization),
    traceparent: Boolean(headers.traceparent),
  };
}

function cut(words) {
  const at = words.indexOf(' ');
  return at < 0 ? [words, ''] : [words.slice(0, at), words.slice(at + 1)];
}

// pause waits, or returns at once when the task is canceled.
function pause(milliseconds, canceled) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    canceled.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
