// Drives one agent with the JavaScript SDK of protocol version 0.3 through the
// scenarios of its successor in ../js, except those that 0.3 has no operation for.

import { promises as dns } from 'node:dns';
import { parseArgs } from 'node:util';

import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import { Recorder } from '../js/steady.js';
import { push, sayOne, scenarios } from './scenarios.js';

// Ends a scenario that got stuck.
const SCENARIO_TIMEOUT_MS = 30_000;

const CLOSED = new Set(['completed', 'failed', 'canceled', 'rejected']);

// The errors of 0.3 by the names that 1.0 gave them.
const REASONS = {
  TaskNotFoundError: 'TASK_NOT_FOUND',
  TaskNotCancelableError: 'TASK_NOT_CANCELABLE',
  PushNotificationNotSupportedError: 'PUSH_NOTIFICATION_NOT_SUPPORTED',
  UnsupportedOperationError: 'UNSUPPORTED_OPERATION',
  ContentTypeNotSupportedError: 'CONTENT_TYPE_NOT_SUPPORTED',
  InvalidAgentResponseError: 'INVALID_AGENT_RESPONSE',
};
const CODES = { '-32602': 'INVALID_PARAMS', '-32600': 'INVALID_REQUEST', '-32601': 'METHOD_NOT_FOUND', '-32603': 'INTERNAL_ERROR' };

const sdk = {
  client: 'js03',
  toJSON: (value) => value,
  isOpen: (task) => task.status && !CLOSED.has(task.status.state),
  failure(error) {
    const code = error.message.match(/-32\d{3}/)?.[0];
    return { reason: REASONS[error.constructor.name.replace('JSONRPC', '')] ?? CODES[code] ?? 'UNKNOWN', message: error.message };
  },
};

const { values: options } = parseArgs({
  options: {
    url: { type: 'string' }, // base address of the agent, with a trailing slash
    key: { type: 'string', default: process.env.PARLEY_KEY ?? '' }, // API key, sent as a bearer token
    binding: { type: 'string', default: '' }, // JSONRPC, HTTP+JSON or GRPC; JSONRPC if empty
    scenario: { type: 'string', default: 'all' }, // comma-separated names, or all
    push: { type: 'string', default: '' }, // address to have told of a task, in the scenario push instead of others
    say: { type: 'string', default: '' }, // send this one message instead of playing scenarios
  },
});

const TRANSPORTS = {
  JSONRPC: () => new JsonRpcTransportFactory(),
  'HTTP+JSON': () => new RestTransportFactory(),
  GRPC: () => new GrpcTransportFactory(),
};

// Names below localhost are this machine, as RFC 6761 has it and not every system
// does.
const lookup = dns.lookup;
dns.lookup = (name, options) => lookup(name.endsWith('.localhost') ? '127.0.0.1' : name, options);

/** connect reads the card at the agent's address, which must end in a slash. */
async function connect(base, binding) {
  // Not made from the SDK's default options: those would add transports.
  return new ClientFactory({ transports: [TRANSPORTS[binding || 'JSONRPC']()] }).createFromUrl(base);
}

// play runs one scenario and prints its document.
async function play(client, name, scenario) {
  const recorder = new Recorder(name, sdk);
  const call = { signal: AbortSignal.timeout(SCENARIO_TIMEOUT_MS) };
  if (options.key) call.serviceParameters = { Authorization: `Bearer ${options.key}` };
  await scenario(client, call, recorder);
  console.log(JSON.stringify(recorder.document));
}

async function main() {
  const client = await connect(options.url, options.binding);
  if (options.say) {
    await play(client, 'say', sayOne(options.say));
    return;
  }
  if (options.push) {
    await play(client, 'push', push(options.push));
    return;
  }
  const names = options.scenario === 'all' ? Object.keys(scenarios) : options.scenario.split(',');
  for (const name of names) {
    if (!scenarios[name]) {
      throw new Error(`--scenario: "${name}" is none of ${Object.keys(scenarios).join(', ')}`);
    }
    await play(client, name, scenarios[name]);
  }
}

main().then(
  () => process.exit(0), // the SDK has no way to close a gRPC connection
  (error) => {
    console.error('client:', error);
    process.exit(1);
  },
);
