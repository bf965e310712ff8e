"""The sample agent written with the Python SDK.

It behaves as interop/README.md says, like its Go and JavaScript twins, and
holds no Parley code: it is a stranger that Parley has to get on with.
"""

import argparse
import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket
import sys

import grpc
import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import a2a_pb2 as a2a
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

from script import Script

# How long, in seconds, open streams may still finish after SIGTERM.
STOP_GRACE = 2

PATHS = {'JSONRPC': '/rpc', 'HTTP+JSON': '/rest'}
CARD_PATH = '/.well-known/agent-card.json'


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--name', default='python-agent', help='name on the card')
    parser.add_argument('--port', type=int, default=0, help='port on 127.0.0.1, 0 for a free one')
    parser.add_argument(
        '--bindings',
        default='JSONRPC,HTTP+JSON',
        help='bindings the card declares, in this order; GRPC is one too',
    )
    parser.add_argument('--ready-file', default='', help='file that gets {"url": …} once the agent serves')
    parser.add_argument('--token', default='', help='bearer token asked of callers, none if empty')
    options = parser.parse_args()
    for binding in options.bindings.split(','):
        if binding not in PATHS and binding != 'GRPC':
            parser.error(f'--bindings: "{binding}" is none of JSONRPC, HTTP+JSON, GRPC')
    return options


def new_card(base, grpc_port, options):
    card = a2a.AgentCard(
        name=options.name,
        description='Sample agent on the Python SDK: echoes, works, asks, fails.',
        version='1.0.0',
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=['text/plain', 'application/json'],
        default_output_modes=['text/plain', 'application/json'],
        supported_interfaces=[
            a2a.AgentInterface(
                url=f'127.0.0.1:{grpc_port}' if binding == 'GRPC' else base + PATHS[binding],
                protocol_binding=binding,
                protocol_version='1.0',
            )
            for binding in options.bindings.split(',')
        ],
        skills=[
            a2a.AgentSkill(
                id='script',
                name='Script',
                description='Does what the first word of the message says: '
                'echo, task, slow, ask, fail, reject, data, headers, relay.',
                tags=['sample'],
                examples=['echo hello', 'slow 200 report'],
            )
        ],
    )
    if options.token:
        card.security_schemes['bearer'].http_auth_security_scheme.scheme = 'Bearer'
        card.security_requirements.add().schemes['bearer'].SetInParent()
    return card


class RequireToken:
    """Refuses requests without the token. The card stays open: a stranger
    learns from it which credential is wanted."""

    def __init__(self, app, token):
        self.app = app
        self.want = f'Bearer {token}'.encode()

    async def __call__(self, scope, receive, send):
        if scope['type'] == 'http' and scope['path'] != CARD_PATH:
            got = dict(scope['headers']).get(b'authorization', b'')
            if not hmac.compare_digest(got, self.want):
                refusal = PlainTextResponse(
                    'a bearer token is needed', 401, {'WWW-Authenticate': 'Bearer realm="agent"'}
                )
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)


class RequireTokenInMetadata(grpc.aio.ServerInterceptor):
    """The same for callers over gRPC."""

    def __init__(self, token):
        self.want = f'Bearer {token}'

    async def intercept_service(self, continuation, details):
        handler = await continuation(details)
        got = dict(details.invocation_metadata).get('authorization', '')
        if hmac.compare_digest(got, self.want):
            return handler

        async def refuse(_request, context):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, 'a bearer token is needed')

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(refuse)
        return grpc.unary_unary_rpc_method_handler(refuse)


def new_grpc_server(token):
    """The gRPC server and its port. What it serves comes once the card, which
    names the port, is there."""
    server = grpc.aio.server(interceptors=[RequireTokenInMetadata(token)] if token else [])
    return server, server.add_insecure_port('127.0.0.1:0')


def new_app(card, handler, token):
    app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, rpc_url=PATHS['JSONRPC']),
            *create_rest_routes(handler, path_prefix=PATHS['HTTP+JSON']),
        ]
    )
    return RequireToken(app, token) if token else app


def announce(ready_file, url):
    """Tells whoever started the agent that it serves: a line on standard
    output, and the ready file, which appears whole or not at all."""
    print('ready', url, flush=True)
    if not ready_file:
        return
    partial = os.path.join(os.path.dirname(ready_file), '.' + os.path.basename(ready_file))
    with open(partial, 'w', encoding='utf-8') as file:
        json.dump({'url': url}, file)
    os.replace(partial, ready_file)


class Server(uvicorn.Server):
    """A server that leaves signals to main, so that SIGTERM is a normal end."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield

    def stop(self):
        self.should_exit = True


async def main(options):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(('127.0.0.1', options.port))
    # Listening already, so that a caller may connect as soon as it is told to.
    listener.listen(128)
    base = f'http://127.0.0.1:{listener.getsockname()[1]}'
    grpc_server, grpc_port = new_grpc_server(options.token)
    card = new_card(base, grpc_port, options)
    handler = DefaultRequestHandler(agent_executor=Script(), task_store=InMemoryTaskStore(), agent_card=card)
    add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    await grpc_server.start()
    config = uvicorn.Config(
        new_app(card, handler, options.token),
        log_level='warning',
        lifespan='off',
        timeout_graceful_shutdown=STOP_GRACE,
    )
    server = Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    announce(options.ready_file, base + '/')
    await server.serve(sockets=[listener])
    await grpc_server.stop(STOP_GRACE)


if __name__ == '__main__':
    try:
        asyncio.run(main(parse_arguments()))
    except OSError as error:
        print('agent:', error, file=sys.stderr)
        sys.exit(1)
