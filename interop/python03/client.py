"""Drives one agent with the Python SDK of protocol version 0.3 through the
scenarios of its successor in ../python, except those that 0.3 has no operation
for.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import sys

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'python'))

import record  # noqa: E402
from scenarios import SCENARIOS, push, say_one  # noqa: E402
from steady import Recorder  # noqa: E402

# Ends a scenario that got stuck, in seconds.
SCENARIO_TIMEOUT = 30


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--url', required=True, help='base address of the agent')
    parser.add_argument('--key', default=os.environ.get('PARLEY_KEY', ''), help='API key, sent as a bearer token')
    parser.add_argument('--binding', default='', help='JSONRPC, HTTP+JSON or GRPC; JSONRPC if empty')
    parser.add_argument('--scenario', default='all', help='comma-separated names, or all')
    parser.add_argument('--say', default='', help='send this one message instead of playing scenarios')
    parser.add_argument('--push', default='', help='address to have told of a task, in the scenario push instead of others')
    options = parser.parse_args()
    options.scenario = list(SCENARIOS) if options.scenario == 'all' else options.scenario.split(',')
    for name in options.scenario:
        if name not in SCENARIOS:
            parser.error(f'--scenario: "{name}" is none of {", ".join(SCENARIOS)}')
    return options


class UnaryKey(grpc.aio.UnaryUnaryClientInterceptor):
    """Makes calls over gRPC carry the key."""

    def __init__(self, key):
        self.key = key

    async def intercept_unary_unary(self, continuation, details, request):
        return await continuation(with_key(details, self.key), request)


class StreamKey(grpc.aio.UnaryStreamClientInterceptor):
    """The same for streams."""

    def __init__(self, key):
        self.key = key

    async def intercept_unary_stream(self, continuation, details, request):
        return await continuation(with_key(details, self.key), request)


def with_key(details, key):
    metadata = grpc.aio.Metadata(*(details.metadata or ()), ('authorization', f'Bearer {key}'))
    return details._replace(metadata=metadata)


@contextlib.asynccontextmanager
async def connect(options):
    """Reads the card at the agent's address and makes two clients for it: the
    SDK decides per client, not per call, whether a message is streamed."""
    headers = {'Authorization': f'Bearer {options.key}'} if options.key else {}

    def channel(url):
        interceptors = [UnaryKey(options.key), StreamKey(options.key)] if options.key else []
        host, _, port = url.rpartition(':')
        if host.endswith('.localhost'):  # this machine, as RFC 6761 has it and not every system does
            return grpc.aio.insecure_channel(
                f'127.0.0.1:{port}', options=[('grpc.default_authority', url)], interceptors=interceptors
            )
        return grpc.aio.insecure_channel(url, interceptors=interceptors)

    async with httpx.AsyncClient(headers=headers, timeout=SCENARIO_TIMEOUT) as http:
        card = await A2ACardResolver(http, options.url).get_agent_card()

        def client(streaming):
            config = ClientConfig(
                streaming=streaming,
                httpx_client=http,
                grpc_channel_factory=channel,
                supported_transports=[options.binding or 'JSONRPC'],
            )
            return ClientFactory(config).create(card)

        yield client(False), client(True)


async def main(options):
    async with connect(options) as (unary, streaming):
        scenes = {name: SCENARIOS[name] for name in options.scenario}
        if options.say:
            scenes = {'say': say_one(options.say)}
        if options.push:
            scenes = {'push': push(options.push)}
        for name, scene in scenes.items():
            recorder = Recorder(name, record)
            try:
                async with asyncio.timeout(SCENARIO_TIMEOUT):
                    await scene(unary, streaming, recorder)
            except TimeoutError:
                recorder.stuck()
            print(json.dumps(recorder.document, ensure_ascii=False), flush=True)


if __name__ == '__main__':
    try:
        asyncio.run(main(parse_arguments()))
    except Exception as error:
        print(f'client: {type(error).__name__}: {error}', file=sys.stderr)
        sys.exit(1)
