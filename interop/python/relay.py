"""How an agent on the Python SDK calls another agent through the mesh."""

import os

from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types import Role, SendMessageRequest


# docs: call another agent
async def relay(name, words, traceparent=None):
    """Sends words to another agent at the mesh.

    PARLEY_URL is the mesh's address, PARLEY_KEY this agent's own key, made by
    `parley key create --for agent:NAME`. With the key the mesh knows that the
    new call belongs to the one this agent is working on; the traceparent of
    the incoming request keeps both in one trace and settles which one it is
    when the agent works on several at once.
    """
    mesh, key = os.environ.get('PARLEY_URL'), os.environ.get('PARLEY_KEY')
    if not mesh or not key:
        raise ValueError('set PARLEY_URL and PARLEY_KEY')
    parameters = {'Authorization': f'Bearer {key}'}
    if traceparent:
        parameters['traceparent'] = traceparent

    factory = ClientFactory(
        ClientConfig(streaming=False, supported_protocol_bindings=['JSONRPC', 'HTTP+JSON'])
    )
    async with await factory.create_from_url(f'{mesh.rstrip("/")}/agents/{name}/') as client:
        request = SendMessageRequest(message=new_text_message(words, role=Role.ROLE_USER))
        context = ClientCallContext(service_parameters=parameters, timeout=30)
        answers = [answer async for answer in client.send_message(request, context=context)]
    answer = answers[-1]
    if answer.HasField('message'):
        return get_message_text(answer.message)
    return ' '.join(get_artifact_text(artifact, ' ') for artifact in answer.task.artifacts)


# docs: end
