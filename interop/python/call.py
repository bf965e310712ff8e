"""Sends one message to an agent and prints what comes back:

    PARLEY_KEY=pk_… python call.py http://127.0.0.1:7400/agents/NAME/ "hello there"
"""

import asyncio
import os
import sys

from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types import Role, SendMessageRequest, TaskState


async def call(url, words):
    key = os.environ.get('PARLEY_KEY')
    parameters = {'Authorization': f'Bearer {key}'} if key else {}
    # Left alone, the client speaks JSON-RPC only and waits five seconds at most.
    config = ClientConfig(supported_protocol_bindings=['JSONRPC', 'HTTP+JSON'])
    context = ClientCallContext(service_parameters=parameters, timeout=60)
    request = SendMessageRequest(message=new_text_message(words, role=Role.ROLE_USER))

    async with await ClientFactory(config).create_from_url(url) as client:
        async for event in client.send_message(request, context=context):
            match event.WhichOneof('payload'):
                case 'message':
                    print('message:', get_message_text(event.message))
                case 'task':
                    print(TaskState.Name(event.task.status.state))
                case 'status_update':
                    print(TaskState.Name(event.status_update.status.state))
                case 'artifact_update':
                    print('artifact:', get_artifact_text(event.artifact_update.artifact))


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit('usage: call.py URL WORDS')
    asyncio.run(call(*sys.argv[1:]))
