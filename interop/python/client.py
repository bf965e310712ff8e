"""Drives one agent with the Python SDK through named scenarios and prints,
per scenario, one line of JSON with what came back. It has twins in Go and
JavaScript; interop/README.md says what they share.
"""

import argparse
import asyncio
import json
import os
import sys

import grpc
from a2a.client import ClientCallContext, ClientConfig, ClientFactory

import record
from scenarios import SCENARIOS, push, say_one
from steady import Recorder

# Ends a scenario that got stuck, in seconds.
SCENARIO_TIMEOUT = 30

BINDINGS = ['JSONRPC', 'HTTP+JSON']


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--url', required=True, help='base address of the agent')
    parser.add_argument('--key', default=os.environ.get('PARLEY_KEY', ''), help='API key, sent as a bearer token')
    parser.add_argument('--binding', default='', help='JSONRPC, HTTP+JSON or GRPC; what the card lists first if empty')
    parser.add_argument('--scenario', default='all', help='comma-separated names, or all')
    parser.add_argument('--say', default='', help='send this one message instead of playing scenarios')
    parser.add_argument('--stream', action='store_true', help='stream the answer to --say')
    parser.add_argument('--push', default='', help='address to have told of a task, in the scenario push instead of others')
    options = parser.parse_args()
    options.scenario = list(SCENARIOS) if options.scenario == 'all' else options.scenario.split(',')
    for name in options.scenario:
        if name not in SCENARIOS:
            parser.error(f'--scenario: "{name}" is none of {", ".join(SCENARIOS)}')
    return options


async def connect(base, binding='', streaming=True):
    """Reads the card at the agent's address and makes a client for it."""
    config = ClientConfig(
        streaming=streaming,
        # The SDK's own default is JSON-RPC alone.
        supported_protocol_bindings=[binding] if binding else BINDINGS,
        # In development there is no TLS.
        grpc_channel_factory=grpc.aio.insecure_channel if binding == 'GRPC' else None,
    )
    return await ClientFactory(config).create_from_url(base)


def with_key(key, **parameters):
    """The context that makes a call carry the API key."""
    if key:
        parameters['Authorization'] = f'Bearer {key}'
    return ClientCallContext(service_parameters=parameters, timeout=SCENARIO_TIMEOUT)


async def main(options):
    # The SDK decides per client, not per call, whether a message is streamed.
    async with (
        await connect(options.url, options.binding, streaming=False) as unary,
        await connect(options.url, options.binding, streaming=True) as streaming,
    ):
        scenes = {name: SCENARIOS[name] for name in options.scenario}
        if options.say:
            scenes = {'say': say_one(options.say, options.stream)}
        if options.push:
            scenes = {'push': push(options.push)}
        for name, scene in scenes.items():
            recorder = Recorder(name, record)
            try:
                async with asyncio.timeout(SCENARIO_TIMEOUT):
                    await scene(unary, streaming, lambda **p: with_key(options.key, **p), recorder)
            except TimeoutError:
                recorder.stuck()
            print(json.dumps(recorder.document, ensure_ascii=False), flush=True)


if __name__ == '__main__':
    try:
        asyncio.run(main(parse_arguments()))
    except Exception as error:
        print(f'client: {type(error).__name__}: {error}', file=sys.stderr)
        sys.exit(1)
