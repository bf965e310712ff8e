// What the sample agent does, by the first word of the message.

// How many status updates a slow task sends while it works.
const SLOW_STEPS = 4;

/** Caller keeps the headers of a call: the SDK hands nothing else of it on. */
export class Caller {
  isAuthenticated = false;
  userName = '';

  constructor(headers) {
    this.headers = headers;
  }
}

/** Script is the AgentExecutor. It knows the tasks that can still be canceled. */
export class Script {
  #open = new Map(); // task id -> { contextId, cancel: AbortController }

  async execute(context, bus) {
    const { taskId, contextId } = context;
    const cancel = new AbortController();
    this.#open.set(taskId, { contextId, cancel });
    const state = await this.#play(context, bus, cancel.signal);
    if (state !== 'input-required') this.#open.delete(taskId);
    bus.finished();
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
        return turn.end('input-required', rest);
      case 'fail':
        return turn.end('failed', rest);
      case 'reject':
        return turn.end('rejected', rest);
      case 'data':
        return turn.data(rest);
      case 'file':
        return turn.files();
      case 'echo':
        return turn.reply(text(rest));
      case 'headers':
        return turn.reply({ kind: 'data', data: seenHeaders(context) });
      default:
        return turn.reply(text('first word must be echo, task, slow, ask, fail, reject, data, file or headers'));
    }
  }

  async cancelTask(taskId, bus) {
    const { contextId, cancel } = this.#open.get(taskId) ?? { contextId: '' };
    this.#open.delete(taskId);
    cancel?.abort();
    bus.publish(update({ taskId, contextId }, 'canceled', 'canceled'));
    bus.finished();
  }
}

/** Turn is one message being worked on. */
class Turn {
  constructor(context, bus) {
    this.context = context;
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
    this.metadata = context.userMessage.metadata;
  }

  submit() {
    const { userMessage: message, taskId, contextId } = this.context;
    this.bus.publish({
      kind: 'task',
      id: taskId,
      contextId,
      status: { state: 'submitted', timestamp: new Date().toISOString() },
      history: [{ ...message, taskId, contextId }],
      artifacts: [],
      metadata: this.metadata,
    });
  }

  status(state, words) {
    this.bus.publish(update(this.ids, state, words));
  }

  chunk(id, append, lastChunk, ...parts) {
    const { extensions } = this.context.userMessage;
    const artifact = { artifactId: id, name: id, parts, metadata: this.metadata, extensions };
    this.bus.publish({ kind: 'artifact-update', ...this.ids, artifact, append, lastChunk });
  }

  task(topic) {
    this.submit();
    this.status('working', `working on ${topic}`);
    this.chunk('result', false, false, text(`first half of ${topic}`));
    this.chunk('result', true, true, text(`second half of ${topic}`));
    this.status('completed', 'done');
  }

  async slow(rest, canceled) {
    const [number, topic] = cut(rest);
    const total = Number(number);
    if (!Number.isInteger(total) || total < 0) {
      this.end('rejected', 'slow needs a number of milliseconds');
      return;
    }
    this.submit();
    for (let step = 1; step <= SLOW_STEPS; step++) {
      this.status('working', `step ${step} of ${SLOW_STEPS}`);
      await pause(total / SLOW_STEPS, canceled);
      if (canceled.aborted) return; // cancelTask has said so
    }
    this.chunk('result', false, true, text(topic));
    this.status('completed', 'done');
  }

  answer(words) {
    this.status('working', 'thank you');
    this.chunk('answer', false, true, text(`you said: ${words}`));
    this.status('completed', 'done');
  }

  end(state, words) {
    this.submit();
    this.status(state, words);
    return state;
  }

  data(rest) {
    let part = this.context.userMessage.parts.find((p) => p.kind === 'data');
    if (rest) {
      try {
        part = { kind: 'data', data: JSON.parse(rest) };
      } catch {
        part = undefined;
      }
    }
    if (!part) {
      this.end('rejected', 'data needs JSON after it, or a data part');
      return;
    }
    this.submit();
    this.chunk('data', false, true, part);
    this.status('completed', 'done');
  }

  // files sends back the files of the message.
  files() {
    this.submit();
    this.chunk('file', false, true, ...this.context.userMessage.parts.filter((p) => p.kind === 'file'));
    this.status('completed', 'done');
  }

  reply(part) {
    const { extensions } = this.context.userMessage;
    this.bus.publish(agentMessage({ contextId: this.ids.contextId, parts: [part], metadata: this.metadata, extensions }));
  }
}

function text(words) {
  return { kind: 'text', text: words };
}

function textOf(parts) {
  return parts.find((p) => p.kind === 'text')?.text ?? '';
}

function agentMessage(members) {
  return { kind: 'message', messageId: crypto.randomUUID(), role: 'agent', ...members };
}

// update is a state of the task, which ends the turn unless the agent works on.
function update(ids, state, words) {
  const message = agentMessage({ ...ids, parts: [text(words)] });
  const status = { state, message, timestamp: new Date().toISOString() };
  return { kind: 'status-update', ...ids, status, final: state !== 'working' };
}

// What arrived beside the message: protocol headers in full, of the others
// only whether they are there.
function seenHeaders({ context }) {
  const headers = context?.user?.headers ?? {};
  return {
    'x-a2a-extensions': headers['x-a2a-extensions'] ?? '',
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
