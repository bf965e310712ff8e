// What a scenario gives, with everything put aside that differs from run to
// run: ids become numbered words in order of appearance, timestamps their
// form, page tokens the fact that there is one.

/** UNKNOWN_TASK is an id no agent has given out. */
export const UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000';

/** PUSH_TOKEN is what pushes to a client must bear. */
export const PUSH_TOKEN = 'interop-token-of-the-subscriber';

const UTC_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const OFFSET_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d$/;

/**
 * Recorder writes down one scenario. sdk says how an SDK shows its values:
 * { client, toJSON(value), failure(error), isOpen(value) }.
 */
export class Recorder {
  #seen = new Map();
  #next = new Map();
  #sdk;

  constructor(scenario, sdk) {
    this.#sdk = sdk;
    this.document = { scenario, client: sdk.client, steps: [] };
  }

  /** answer records one operation and returns what it gave, undefined if it failed. */
  async answer(op, operation) {
    try {
      const result = await operation();
      this.document.steps.push({ op, result: this.#steady(result) });
      return result;
    } catch (error) {
      this.document.steps.push({ op, error: this.#failure(error) });
      return undefined;
    }
  }

  /**
   * accepted records a task that was returned at once. Whether the agent has
   * taken it up by then is chance, so only that it is open is written down.
   */
  async accepted(op, operation) {
    let task;
    try {
      task = await operation();
    } catch {
      return this.answer(op, operation);
    }
    if (!this.#sdk.isOpen(task)) {
      return this.answer(op, () => task);
    }
    const result = { open: this.#placeholder('task', task.id), contextId: this.#placeholder('context', task.contextId) };
    this.document.steps.push({ op, result });
    return task;
  }

  /** stream records events until the stream ends or more, if given, says no. */
  async stream(op, events, more = () => true) {
    const step = { op, events: [] };
    try {
      for await (const event of events) {
        step.events.push(this.#steady(event));
        if (!more(event)) break;
      }
    } catch (error) {
      step.error = this.#failure(error);
    }
    if (step.events.length === 0) delete step.events;
    this.document.steps.push(step);
  }

  #failure(error) {
    const { reason, message } = this.#sdk.failure(error);
    return { reason, message: this.#redact(message) };
  }

  // The SDK's value as wire JSON, with the changing parts put aside.
  #steady(value) {
    return this.#walk(this.#sdk.toJSON(value));
  }

  #walk(node) {
    if (Array.isArray(node)) return node.map((item) => this.#walk(item));
    if (node === null || typeof node !== 'object') return node;
    const steady = {};
    for (const key of Object.keys(node).sort()) {
      const value = node[key];
      steady[key] = typeof value === 'string' ? this.#member(key, value, 'status' in node) : this.#walk(value);
    }
    return steady;
  }

  #member(key, value, ofTask) {
    if (value === '') return value;
    if (key === 'taskId' || (key === 'id' && ofTask)) return this.#placeholder('task', value);
    if (key === 'contextId') return this.#placeholder('context', value);
    if (key === 'messageId') return this.#placeholder('message', value);
    if (key === 'nextPageToken') return 'token';
    if (key === 'timestamp') return UTC_TIME.test(value) ? 'utc' : OFFSET_TIME.test(value) ? 'offset' : 'malformed';
    return value;
  }

  #placeholder(kind, id) {
    if (id === UNKNOWN_TASK) return 'task-unknown';
    if (!this.#seen.has(id)) {
      const number = (this.#next.get(kind) ?? 0) + 1;
      this.#next.set(kind, number);
      this.#seen.set(id, `${kind}-${number}`);
    }
    return this.#seen.get(id);
  }

  // redact replaces ids in text that is meant for people.
  #redact(words) {
    for (const [id, placeholder] of this.#seen) words = words.replaceAll(id, placeholder);
    return words;
  }
}
