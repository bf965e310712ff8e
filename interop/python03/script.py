"""What the sample agent does, by the first word of the message."""

import asyncio
import json

from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import DataPart, FilePart, Message, Part, Role, TaskState, TextPart
from a2a.utils import new_task

# How many status updates a slow task sends while it works.
SLOW_STEPS = 4

UNKNOWN_VERB = 'first word must be echo, task, slow, ask, fail, reject, data, file or headers'
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
                await turn.end(TaskState.input_required, rest)
            case 'fail':
                await turn.end(TaskState.failed, rest)
            case 'reject':
                await turn.end(TaskState.rejected, rest)
            case 'data':
                await turn.data(rest)
            case 'file':
                await turn.files()
            case 'echo':
                await turn.reply(text(rest))
            case 'headers':
                await turn.reply(Part(root=DataPart(data=seen_headers(context))))
            case _:
                await turn.reply(text(UNKNOWN_VERB))

    async def cancel(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel(updater.new_agent_message([text('canceled')]))


class Turn:
    """One message being worked on."""

    def __init__(self, context, queue):
        self.context = context
        self.queue = queue
        self.updater = TaskUpdater(queue, context.task_id, context.context_id)
        self.metadata = echoed_metadata(context)

    async def submit(self):
        message = self.context.message
        message.task_id, message.context_id = self.context.task_id, self.context.context_id
        task = new_task(message)
        task.metadata = self.metadata
        await self.queue.enqueue_event(task)

    async def status(self, state, words):
        """Sends a state, which ends the turn unless the agent works on."""
        message = self.updater.new_agent_message([text(words)])
        await self.updater.update_status(state, message, final=state != TaskState.working)

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
        await self.status(TaskState.working, f'working on {topic}')
        await self.chunk('result', False, False, text(f'first half of {topic}'))
        await self.chunk('result', True, True, text(f'second half of {topic}'))
        await self.status(TaskState.completed, 'done')

    async def slow(self, rest):
        number, _, topic = rest.partition(' ')
        if not number.isdecimal():
            await self.end(TaskState.rejected, 'slow needs a number of milliseconds')
            return
        await self.submit()
        for step in range(1, SLOW_STEPS + 1):
            await self.status(TaskState.working, f'step {step} of {SLOW_STEPS}')
            await asyncio.sleep(int(number) / 1000 / SLOW_STEPS)
        await self.chunk('result', False, True, text(topic))
        await self.status(TaskState.completed, 'done')

    async def answer(self, words):
        await self.status(TaskState.working, 'thank you')
        await self.chunk('answer', False, True, text(f'you said: {words}'))
        await self.status(TaskState.completed, 'done')

    async def end(self, state, words):
        await self.submit()
        await self.status(state, words)

    async def data(self, rest):
        part = next((p for p in self.context.message.parts if isinstance(p.root, DataPart)), None)
        if rest:
            try:
                part = Part(root=DataPart(data=json.loads(rest)))
            except ValueError:
                part = None
        if part is None:
            await self.end(TaskState.rejected, DATA_MISSING)
            return
        await self.submit()
        await self.chunk('data', False, True, part)
        await self.status(TaskState.completed, 'done')

    async def files(self):
        """Sends back the files of the message."""
        await self.submit()
        await self.chunk('file', False, True, *(p for p in self.context.message.parts if isinstance(p.root, FilePart)))
        await self.status(TaskState.completed, 'done')

    async def reply(self, part):
        await self.queue.enqueue_event(
            Message(
                role=Role.agent,
                message_id=f'{self.context.message.message_id}-answer',
                context_id=self.context.context_id,
                parts=[part],
                metadata=self.metadata,
                extensions=self.context.message.extensions,
            )
        )


def text(words):
    return Part(root=TextPart(text=words))


def echoed_metadata(context):
    """The message's metadata, and the request's under "request"."""
    echoed = dict(context.message.metadata or {})
    if context.metadata:
        echoed['request'] = context.metadata
    return echoed or None


def seen_headers(context):
    """What arrived beside the message: protocol headers in full, of the others
    only whether they are there. gRPC's metadata stands in another place."""
    state = context.call_context.state if context.call_context else {}
    headers = state.get('headers', {})
    if 'grpc_context' in state:
        headers = dict(state['grpc_context'].invocation_metadata())
    return {
        'x-a2a-extensions': headers.get('x-a2a-extensions', ''),
        'authorization': 'authorization' in headers,
        'traceparent': 'traceparent' in headers,
    }
