"""The scenarios, step by step the same as those of the Go and JavaScript clients."""

import asyncio
import base64
import uuid

from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TextPart,
)

from record import nothing
from steady import PUSH_TOKEN, UNKNOWN_TASK

# Stands for an extension neither side has heard of.
UNKNOWN_EXTENSION = 'https://extensions.invalid/unknown/v1'

# The pause between two looks at a task, in seconds.
POLL_INTERVAL = 0.02


def say(words, *more, **message):
    """A message of the caller's."""
    parts = [Part(root=part) for part in (TextPart(text=words), *more)]
    return Message(role=Role.user, message_id=str(uuid.uuid4()), parts=parts, **message)


def say_on(task, words):
    """A further message on a task."""
    return say(words, task_id=task.id or None, context_id=task.context_id or None)


def decorated(words):
    """A message with metadata and an extension that nobody on the way knows, and
    the request's metadata."""
    metadata = {UNKNOWN_EXTENSION: {'Level': 3, 'tags': ['a', 'b'], 'nested': {'x_y': True}}}
    message = say(words, extensions=[UNKNOWN_EXTENSION], metadata=metadata)
    return message, {'request_metadata': {'reference': 'order-1'}}


async def send_once(client, message, **more):
    """The one answer to a message sent without streaming."""
    answers = [answer async for answer in client.send_message(message, **more)]
    return answers[-1][0] if isinstance(answers[-1], tuple) else answers[-1]


async def events_of(answers):
    """What came over the wire: the SDK pairs each update with the task so far."""
    try:
        async for answer in answers:
            yield (answer[1] or answer[0]) if isinstance(answer, tuple) else answer
    finally:
        await answers.aclose()


def say_one(words):
    """The scenario of a single message."""

    async def scene(unary, _streaming, r):
        await r.answer('say', send_once(unary, say(words)))

    return scene


async def send(unary, _streaming, r):
    mixed = DataPart(data={'a': [1, 2.5, None, 'ü'], 'empty': {}})
    for message, more in (
        decorated('echo hello ünï'),
        decorated('task tea'),
        (say('data', mixed), {}),
        (say('data {"n":1}'), {}),
        (say('fail no milk'), {}),
        (say('reject no tea'), {}),
    ):
        await r.answer('send', send_once(unary, message, **more))


async def stream(_unary, streaming, r):
    for message, more in (
        decorated('task tea'),
        (say('slow 40 coffee'), {}),
        decorated('echo hello'),
        (say('fail no milk'), {}),
    ):
        await r.stream('stream', events_of(streaming.send_message(message, **more)))


async def get(unary, _streaming, r):
    task = await r.answer('send', send_once(unary, say('task tea')))
    for length in ({}, {'history_length': 0}, {'history_length': 1}):
        await r.answer('get', unary.get_task(TaskQueryParams(id=task.id, **length)))


async def cancel(unary, _streaming, r):
    at_once = MessageSendConfiguration(blocking=False)
    task = await r.accepted('send', send_once(unary, say('slow 60000 long'), configuration=at_once))
    await await_working(unary, task.id)
    await r.answer('cancel', unary.cancel_task(TaskIdParams(id=task.id)))
    await r.answer('get', unary.get_task(TaskQueryParams(id=task.id)))


async def subscribe(unary, streaming, r):
    """Leaves its first stream while the task works, comes back by a
    subscription, and ends the task from outside once that has begun: at its
    first event, which an agent of version 0.3 sends only when something happens."""
    task_id = ''

    def until_working(event):
        nonlocal task_id
        task_id = task_id or (event.id if event.kind == 'task' else event.task_id)
        return event.kind == 'artifact-update' or event.status.state != TaskState.working

    await r.stream('stream', events_of(streaming.send_message(say('slow 12000 long'))), until_working)
    canceling = None

    def cancel_at_first(_event):
        nonlocal canceling
        canceling = canceling or asyncio.ensure_future(unary.cancel_task(TaskIdParams(id=task_id)))
        return True

    await r.stream('subscribe', events_of(streaming.resubscribe(TaskIdParams(id=task_id))), cancel_at_first)
    await r.answer('cancel', canceling or unary.cancel_task(TaskIdParams(id=task_id)))


async def input_required(unary, streaming, r):
    asked = await r.answer('send', send_once(unary, say('ask which tea?')))
    await r.answer('send', send_once(unary, say_on(asked, 'oolong')))

    task = nothing()

    def keep_task(event):
        nonlocal task
        task = event if event.kind == 'task' else task
        return True

    await r.stream('stream', events_of(streaming.send_message(say('ask which cup?'))), keep_task)
    await r.stream('stream', events_of(streaming.send_message(say_on(task, 'blue'))))


async def files(unary, streaming, r):
    content = base64.b64encode(bytes([0, 1, 254, 255])).decode()
    raw = FilePart(file=FileWithBytes(name='note.bin', mime_type='application/octet-stream', bytes=content))
    link = FilePart(file=FileWithUri(name='tea.png', mime_type='image/png', uri='https://files.invalid/tea.png'))
    await r.answer('send', send_once(unary, say('file', raw, link)))
    await r.stream('stream', events_of(streaming.send_message(say('file', raw))))


async def errors(unary, streaming, r):
    unknown = nothing()
    unknown.id = UNKNOWN_TASK
    await r.answer('get unknown', unary.get_task(TaskQueryParams(id=UNKNOWN_TASK)))
    await r.answer('cancel unknown', unary.cancel_task(TaskIdParams(id=UNKNOWN_TASK)))
    await r.stream('subscribe unknown', events_of(streaming.resubscribe(TaskIdParams(id=UNKNOWN_TASK))))
    await r.answer('send to unknown', send_once(unary, say_on(unknown, 'echo hello')))

    task = await r.answer('send', send_once(unary, say('task tea')))
    await r.answer('cancel finished', unary.cancel_task(TaskIdParams(id=task.id)))
    await r.stream('subscribe finished', events_of(streaming.resubscribe(TaskIdParams(id=task.id))))
    await r.answer('send to finished', send_once(unary, say_on(task, 'more')))


def push(address):
    """The scenario of two addresses that are told of a task. The SDK's client has no
    operation to list or to give up either."""

    async def scene(unary, _streaming, r):
        at_once = MessageSendConfiguration(blocking=False)
        task = (await r.accepted('send', send_once(unary, say('slow 2000 tea'), configuration=at_once))).id
        for name in ('own', 'other'):
            config = PushNotificationConfig(id=name, url=address, token=PUSH_TOKEN)
            config = TaskPushNotificationConfig(task_id=task, push_notification_config=config)
            await r.answer('create push', unary.set_task_callback(config))
        own = GetTaskPushNotificationConfigParams(id=task, push_notification_config_id='own')
        await r.answer('get push', unary.get_task_callback(own))

    return scene


async def headers(unary, _streaming, r):
    await r.answer('send', send_once(unary, say('headers')))


async def await_working(client, task_id):
    """Polls until the agent has taken the task up. Nothing of it is recorded:
    how often it must ask depends on the moment."""
    while True:
        try:
            task = await client.get_task(TaskQueryParams(id=task_id))
        except Exception:
            return
        if task.status.state != TaskState.submitted:
            return
        await asyncio.sleep(POLL_INTERVAL)


SCENARIOS = {
    'send': send,
    'stream': stream,
    'get': get,
    'cancel': cancel,
    'subscribe': subscribe,
    'input': input_required,
    'files': files,
    'errors': errors,
    'headers': headers,
}
