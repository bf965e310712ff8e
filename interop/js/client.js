// Drives one agent with the JavaScript SDK through named scenarios and prints,
// per scenario, one line of JSON with what came back. It has twins in Go and
// Python; interop/README.md says what they share.

import { parseArgs } from 'node:util';

import { ClientFactory, ClientFactoryOptions } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import { sdk } from './record.js';
import { push, sayOne, scenarios } from './scenarios.js';
import { Recorder } from './steady.js';

// Ends a scenario that got stuck.
const SCENARIO_TIMEOUT_MS = 30_000;

const { values: options } = parseArgs({
  options: {
    url: { type: 'string' }, // base address of the agent, with a trailing slash
    key: { type: 'string', default: process.env.PARLEY_KEY ?? '' }, // API key, sent as a bearer token
    binding: { type: 'string', default: '' }, // JSONRPC, HTTP+JSON or GRPC; what the card lists first if empty
    scenario: { type: 'string', default: 'all' }, // comma-separated names, or all
    push: { type: 'string', default: '' }, // address to have told of a task, in the scenario push instead of others
    say: { type: 'string', default: '' }, // send this one message instead of playing scenarios
    stream: { type: 'boolean', default: false }, // stream the answer to --say
  },
});

/** connect reads the card at the agent's address, which must end in a slash. */
async function connect(base, binding) {
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      // Left alone, the SDK speaks JSON-RPC and HTTP+JSON.
      ...(binding === 'GRPC' && { transports: [new GrpcTransportFactory()] }),
      preferredTransports: binding ? [binding] : undefined,
    }),
  );
  return factory.createFromUrl(base);
}

/** withKey is the request options that make a call carry the API key. */
function withKey(key) {
  return key ? { serviceParameters: { Authorization: `Bearer ${key}` } } : {};
}

// play runs one scenario and prints its document.
async function play(client, name, scenario) {
  const recorder = new Recorder(name, sdk);
  const call = { ...withKey(options.key), signal: AbortSignal.timeout(SCENARIO_TIMEOUT_MS) };
  await scenario(client, call, recorder);
  console.log(JSON.stringify(recorder.document));
}

async function main() {
  const client = await connect(options.url, options.binding);
  if (options.say) {
    await play(client, 'say', sayOne(options.say, options.stream));
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

main().catch((error) => {
  console.error('client:', error);
  process.exit(1);
});
