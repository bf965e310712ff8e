"""What the sample agents in Python share whatever the version of their SDK:
flags, the token they ask for, how they say that they serve and how they end."""

import argparse
import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket

import grpc
import uvicorn
from starlette.responses import PlainTextResponse

# How long, in seconds, open streams may still finish after SIGTERM.
STOP_GRACE = 2

PATHS = {'JSONRPC': '/rpc', 'HTTP+JSON': '/rest'}
CARD_PATH = '/.well-known/agent-card.json'


def parse_arguments(description, name):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('--name', default=name, help='name on the card')
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


def address_of(binding, base, grpc_port):
    """Where a binding of the card is served."""
    return f'127.0.0.1:{grpc_port}' if binding == 'GRPC' else base + PATHS[binding]


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


async def serve(options, build):
    """Serves until SIGTERM. build makes the app of HTTP from the agent's
    address, the port of gRPC and the server to add the service of gRPC to."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(('127.0.0.1', options.port))
    # Listening already, so that a caller may connect as soon as it is told to.
    listener.listen(128)
    base = f'http://127.0.0.1:{listener.getsockname()[1]}'
    grpc_server, grpc_port = new_grpc_server(options.token)
    app = build(base, grpc_port, grpc_server)
    await grpc_server.start()
    config = uvicorn.Config(
        RequireToken(app, options.token) if options.token else app,
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
