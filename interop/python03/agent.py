"""The sample agent written with the Python SDK of protocol version 0.3. It does
what its successor in ../python does, and pushes as well.
"""

import asyncio
import pathlib
import sys

import httpx
from a2a.grpc import a2a_pb2_grpc
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityScheme,
)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'python'))

from script import Script  # noqa: E402
from serve import PATHS, address_of, parse_arguments, serve  # noqa: E402


def new_card(base, grpc_port, options):
    preferred, *others = options.bindings.split(',')
    card = AgentCard(
        name=options.name,
        description='Sample agent on the Python SDK of version 0.3: echoes, works, asks, fails.',
        version='1.0.0',
        protocol_version='0.3.0',
        url=address_of(preferred, base, grpc_port),
        preferred_transport=preferred,
        additional_interfaces=[
            AgentInterface(transport=binding, url=address_of(binding, base, grpc_port)) for binding in others
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=['text/plain', 'application/json'],
        default_output_modes=['text/plain', 'application/json'],
        skills=[
            AgentSkill(
                id='script',
                name='Script',
                description='Does what the first word of the message says: '
                'echo, task, slow, ask, fail, reject, data, file, headers.',
                tags=['sample'],
                examples=['echo hello', 'slow 200 report'],
            )
        ],
    )
    if options.token:
        card.security_schemes = {'bearer': SecurityScheme(root=HTTPAuthSecurityScheme(scheme='Bearer'))}
        card.security = [{'bearer': []}]
    return card


def main():
    options = parse_arguments(__doc__, 'python03-agent')

    def build(base, grpc_port, grpc_server):
        card = new_card(base, grpc_port, options)
        pushes = InMemoryPushNotificationConfigStore()
        handler = DefaultRequestHandler(
            agent_executor=Script(),
            task_store=InMemoryTaskStore(),
            push_config_store=pushes,
            push_sender=BasePushNotificationSender(httpx.AsyncClient(), pushes),
        )
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), grpc_server)
        app = A2AStarletteApplication(card, handler).build(rpc_url=PATHS['JSONRPC'])
        app.mount(PATHS['HTTP+JSON'], A2ARESTFastAPIApplication(card, handler).build())
        return app

    try:
        asyncio.run(serve(options, build))
    except OSError as error:
        print('agent:', error, file=sys.stderr)
        sys.exit(1)


if __name__ == '__main__':
    main()
