"""The sample agent written with the Python SDK.

It behaves as interop/README.md says, like its Go and JavaScript twins, and
holds no Parley code: it is a stranger that Parley has to get on with.
"""

import asyncio
import sys

import httpx
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
)
from a2a.types import a2a_pb2 as a2a
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette

from script import Script
from serve import PATHS, address_of, parse_arguments, serve


def new_card(base, grpc_port, options):
    card = a2a.AgentCard(
        name=options.name,
        description='Sample agent on the Python SDK: echoes, works, asks, fails.',
        version='1.0.0',
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=['text/plain', 'application/json'],
        default_output_modes=['text/plain', 'application/json'],
        supported_interfaces=[
            a2a.AgentInterface(
                url=address_of(binding, base, grpc_port),
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
                'echo, task, slow, ask, fail, reject, data, file, headers, relay.',
                tags=['sample'],
                examples=['echo hello', 'slow 200 report'],
            )
        ],
    )
    if options.token:
        card.security_schemes['bearer'].http_auth_security_scheme.scheme = 'Bearer'
        card.security_requirements.add().schemes['bearer'].SetInParent()
    return card


def main():
    options = parse_arguments(__doc__, 'python-agent')

    def build(base, grpc_port, grpc_server):
        card = new_card(base, grpc_port, options)
        pushes = InMemoryPushNotificationConfigStore()
        handler = DefaultRequestHandler(
            agent_executor=Script(),
            task_store=InMemoryTaskStore(),
            agent_card=card,
            push_config_store=pushes,
            push_sender=BasePushNotificationSender(httpx.AsyncClient(), pushes),
        )
        add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
        return Starlette(
            routes=[
                *create_agent_card_routes(card),
                *create_jsonrpc_routes(handler, rpc_url=PATHS['JSONRPC']),
                *create_rest_routes(handler, path_prefix=PATHS['HTTP+JSON']),
            ]
        )

    try:
        asyncio.run(serve(options, build))
    except OSError as error:
        print('agent:', error, file=sys.stderr)
        sys.exit(1)


if __name__ == '__main__':
    main()
