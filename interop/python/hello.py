"""A small agent. It greets back:

    python hello.py 127.0.0.1:8103
"""

import sys

import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import a2a_pb2 as a2a
from starlette.applications import Starlette


class Hello(AgentExecutor):
    async def execute(self, context, event_queue):
        words = context.get_user_input()
        await event_queue.enqueue_event(
            new_text_message(f'hello, you said: {words}', context_id=context.context_id)
        )

    async def cancel(self, context, event_queue):
        """A message is no task that could be canceled."""


def new_card(address):
    return a2a.AgentCard(
        name='hello',
        description='Greets back.',
        version='1.0.0',
        # The address at which Parley reaches the agent.
        supported_interfaces=[
            a2a.AgentInterface(url=f'http://{address}/rpc', protocol_binding='JSONRPC', protocol_version='1.0')
        ],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[a2a.AgentSkill(id='greet', name='Greet', description='Greets back.', tags=['greeting'])],
    )


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit('usage: hello.py HOST:PORT')
    card = new_card(sys.argv[1])
    handler = DefaultRequestHandler(agent_executor=Hello(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url='/rpc')])
    host, port = sys.argv[1].rsplit(':', 1)
    uvicorn.run(app, host=host, port=int(port), log_level='warning')
