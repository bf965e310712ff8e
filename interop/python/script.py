"""What the sample agent does, by the first word of the message."""

import asyncio
import json

from a2a.helpers import (
    new_data_part,
    new_message,
    new_task_from_user_message,
    new_text_part,
)
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import TaskState
from google.protobuf.json_format import MessageToDict

from relay import relay

# How many status updates a slow task sends while it works.
SLOW_STEPS = 4

UNKNOWN_VERB = 'first word must be echo, task, slow, ask, fail, reject, data, file, headers or relay'
DATA_MISSING = 'data needs JSON after it, or a data part'


class Script(AgentExecutor):
    """Answers by the first word of the message, see interop/README.md."""

    async def execute(self, context, event_queue):
        turn = Turn(context, event_queue)
        words = context.get_user_input()
        if context.current_task:
            await turn.answer(words)
            return
        verb, _, rest = words.partition(' ')
        match verb:
            case 'task':
                await turn.task(rest)
            case 'slow':
                await turn.slow(rest)
            case 'ask':
                await turn.end(TaskState.TASK_STATE_INPUT_REQUIRED, rest)
            case 'fail':
                await turn.end(TaskState.TASK_STATE_FAILED, rest)
            case 'reject':
                await turn.end(TaskState.TASK_STATE_REJECTED, rest)
            case 'data':
                await turn.data(rest)
            case 'file':
                await turn.files()
            case 'echo':
                await turn.reply(new_text_part(rest))
            case 'headers':
                await turn.reply(new_data_part(seen_headers(context)))
            case 'relay':
                await turn.relay(rest)
            case _:
                await turn.reply(new_text_part(UNKNOWN_VERB))

    async def cancel(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel(updater.new_agent_message([new_text_part('canceled')]))


class Turn:
    """One message being worked on."""

    def __init__(self, context, queue):
        self.context = context
        self.queue = queue
        self.updater = TaskUpdater(queue, context.task_id, context.context_id)
        self.metadata = echoed_metadata(context)

    async def submit(self):
        task = new_task_from_user_message(self.context.message)
        if self.metadata:
            task.metadata.update(self.metadata)
        await self.queue.enqueue_event(task)

    async def status(self, state, words):
        message = self.updater.new_agent_message([new_text_part(words)])
        await self.updater.update_status(state, message)

    async def chunk(self, name, append, last, *parts):
        await self.updater.add_artifact(
            list(parts),
            artifact_id=name,
            name=name,
            metadata=self.metadata,
            append=append,
            last_chunk=last,
            extensions=self.context.message.extensions,
        )

    async def task(self, topic):
        await self.submit()
        await self.status(TaskState.TASK_STATE_WORKING, f'working on {topic}')
        await self.chunk('result', False, False, new_text_part(f'first half of {topic}'))
        await self.chunk('result', True, True, new_text_part(f'second half of {topic}'))
        await self.status(TaskState.TASK_STATE_COMPLETED, 'done')

    async def slow(self, rest):
        number, _, topic = rest.partition(' ')
        if not number.isdecimal():
            await self.end(TaskState.TASK_STATE_REJECTED, 'slow needs a number of milliseconds')
            return
        await self.submit()
        for step in range(1, SLOW_STEPS + 1):
            await self.status(TaskState.TASK_STATE_WORKING, f'step {step} of {SLOW_STEPS}')
            await asyncio.sleep(int(number) / 1000 / SLOW_STEPS)
        await self.chunk('result', False, True, new_text_part(topic))
        await self.status(TaskState.TASK_STATE_COMPLETED, 'done')

    async def answer(self, words):
        await self.status(TaskState.TASK_STATE_WORKING, 'thank you')
        await self.chunk('answer', False, True, new_text_part(f'you said: {words}'))
        await self.status(TaskState.TASK_STATE_COMPLETED, 'done')

    async def end(self, state, words):
        await self.submit()
        await self.status(state, words)

    async def data(self, rest):
        part = next((p for p in self.context.message.parts if p.HasField('data')), None)
        if rest:
            try:
                part = new_data_part(json.loads(rest))
            except ValueError:
                part = None
        if part is None:
            await self.end(TaskState.TASK_STATE_REJECTED, DATA_MISSING)
            return
        await self.submit()
        await self.chunk('data', False, True, part)
        await self.status(TaskState.TASK_STATE_COMPLETED, 'done')

    async def files(self):
        """Sends back the files of the message."""
        files = (p for p in self.context.message.parts if p.WhichOneof('content') in ('raw', 'url'))
        await self.submit()
        await self.chunk('file', False, True, *files)
        await self.status(TaskState.TASK_STATE_COMPLETED, 'done')

    async def relay(self, rest):
        name, _, words = rest.partition(' ')
        headers = headers_of(self.context)
        try:
            answer = await relay(name, words, headers.get('traceparent'))
        except Exception as error:  # whatever went wrong is this task's failure
            await self.end(TaskState.TASK_STATE_FAILED, f'relay: {error}')
            return
        await self.reply(new_text_part(f'{name} said: {answer}'))

    async def reply(self, part):
        message = new_message([part], context_id=self.context.context_id)
        if self.metadata:
            message.metadata.update(self.metadata)
        message.extensions.extend(self.context.message.extensions)
        await self.queue.enqueue_event(message)


def echoed_metadata(context):
    """The message's metadata, and the request's under "request"."""
    echoed = MessageToDict(context.message.metadata)
    if context.metadata:
        echoed['request'] = context.metadata
    return echoed or None


def headers_of(context):
    """The headers of HTTP, or gRPC's metadata, which the SDK keeps in another
    place."""
    state = context.call_context.state
    if 'grpc_context' in state:
        return dict(state['grpc_context'].invocation_metadata())
    return state.get('headers', {})


def seen_headers(context):
    """What arrived beside the message: protocol headers in full, of the
    others only whether they are there."""
    headers = headers_of(context)
    return {
        'a2a-version': headers.get('a2a-version', ''),
        'a2a-extensions': headers.get('a2a-extensions', ''),
        'authorization': 'authorization' in headers,
        'traceparent': 'traceparent' in headers,
    }
