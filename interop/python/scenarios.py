"""The scenarios, step by step the same as those of the Go and JavaScript clients."""

import asyncio

from a2a.helpers import new_data_part, new_message, new_text_part
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError

from steady import PUSH_TOKEN, UNKNOWN_TASK

# Stands for an extension neither side has heard of.
UNKNOWN_EXTENSION = 'https://extensions.invalid/unknown/v1'

# The pause between two looks at a task, in seconds.
POLL_INTERVAL = 0.02


def say(words, *more_parts, **message):
    """A request with one message of the caller's."""
    parts = [new_text_part(words), *more_parts]
    return SendMessageRequest(message=new_message(parts, role=Role.ROLE_USER, **message))


def say_on(task, words):
    """A further message on a task."""
    return say(words, task_id=task.id, context_id=task.context_id)


def decorated(words):
    """A request with metadata and an extension that nobody on the way knows."""
    request = say(words)
    request.message.extensions.append(UNKNOWN_EXTENSION)
    request.message.metadata.update({UNKNOWN_EXTENSION: {'Level': 3, 'tags': ['a', 'b'], 'nested': {'x_y': True}}})
    request.metadata.update({'reference': 'order-1'})
    return request


async def send_once(client, request, context):
    """The one answer to a message sent without streaming."""
    answers = [answer async for answer in client.send_message(request, context=context)]
    return answers[-1]


def say_one(words, streamed):
    """The scenario of a single message."""

    async def scene(unary, streaming, call, r):
        if streamed:
            await r.stream('say', streaming.send_message(say(words), context=call()))
        else:
            await r.answer('say', send_once(unary, say(words), call()))

    return scene


async def send(unary, _streaming, call, r):
    mixed = new_data_part({'a': [1, 2.5, None, 'ü'], 'empty': {}})
    for request in (
        decorated('echo hello ünï'),
        decorated('task tea'),
        say('data', mixed),
        say('data {"n":1}'),
        say('fail no milk'),
        say('reject no tea'),
    ):
        await r.answer('send', send_once(unary, request, call()))


async def stream(_unary, streaming, call, r):
    for request in (decorated('task tea'), say('slow 40 coffee'), decorated('echo hello'), say('fail no milk')):
        await r.stream('stream', streaming.send_message(request, context=call()))


async def get(unary, _streaming, call, r):
    task = await r.answer('send', send_once(unary, say('task tea'), call()))
    for length in ({}, {'history_length': 0}, {'history_length': 1}):
        await r.answer('get', unary.get_task(GetTaskRequest(id=task.id, **length), context=call()))


async def list_tasks(unary, _streaming, call, r):
    first = await r.answer('send', send_once(unary, say('task first'), call()))
    context_id = first.context_id
    await r.answer('send', send_once(unary, say('task second', context_id=context_id), call()))

    token = ''
    for _ in range(3):  # one more than there are pages, should an agent never end them
        query = ListTasksRequest(context_id=context_id, page_size=1, page_token=token)
        page = await r.answer('list', unary.list_tasks(query, context=call()))
        token = getattr(page, 'next_page_token', '')
        if not token:
            break
    completed = ListTasksRequest(
        context_id=context_id, status=TaskState.TASK_STATE_COMPLETED, include_artifacts=True
    )
    await r.answer('list', unary.list_tasks(completed, context=call()))
    failed = ListTasksRequest(context_id=context_id, status=TaskState.TASK_STATE_FAILED)
    await r.answer('list', unary.list_tasks(failed, context=call()))


async def cancel(unary, _streaming, call, r):
    request = say('slow 60000 long')
    request.configuration.return_immediately = True
    task = await r.accepted('send', send_once(unary, request, call()))
    await await_working(unary, call, task.id)
    await r.answer('cancel', unary.cancel_task(CancelTaskRequest(id=task.id), context=call()))
    await r.answer('get', unary.get_task(GetTaskRequest(id=task.id), context=call()))


async def subscribe(unary, streaming, call, r):
    """Leaves its first stream while the task works, comes back by a
    subscription, and ends the task from outside once that has begun."""
    task_id = ''

    def until_working(event):
        nonlocal task_id
        task_id = task_id or event.task.id or event.status_update.task_id
        return event.status_update.status.state != TaskState.TASK_STATE_WORKING

    await r.stream('stream', streaming.send_message(say('slow 60000 long'), context=call()), until_working)
    canceling = None

    def cancel_at_first(_event):
        nonlocal canceling
        canceling = canceling or asyncio.ensure_future(
            unary.cancel_task(CancelTaskRequest(id=task_id), context=call())
        )
        return True

    events = streaming.subscribe(SubscribeToTaskRequest(id=task_id), context=call())
    await r.stream('subscribe', events, cancel_at_first)
    await r.answer('cancel', canceling)


async def input_required(unary, streaming, call, r):
    asked = await r.answer('send', send_once(unary, say('ask which tea?'), call()))
    await r.answer('send', send_once(unary, say_on(asked, 'oolong'), call()))

    task = Task()

    def keep_task(event):
        if event.HasField('task'):
            task.CopyFrom(event.task)
        return True

    await r.stream('stream', streaming.send_message(say('ask which cup?'), context=call()), keep_task)
    await r.stream('stream', streaming.send_message(say_on(task, 'blue'), context=call()))


async def files(unary, streaming, call, r):
    raw = Part(raw=bytes([0, 1, 254, 255]), filename='note.bin', media_type='application/octet-stream')
    link = Part(url='https://files.invalid/tea.png', filename='tea.png', media_type='image/png')
    await r.answer('send', send_once(unary, say('file', raw, link), call()))
    await r.stream('stream', streaming.send_message(say('file', raw), context=call()))


async def errors(unary, streaming, call, r):
    unknown = Task(id=UNKNOWN_TASK)
    await r.answer('get unknown', unary.get_task(GetTaskRequest(id=unknown.id), context=call()))
    await r.answer('cancel unknown', unary.cancel_task(CancelTaskRequest(id=unknown.id), context=call()))
    await r.stream('subscribe unknown', streaming.subscribe(SubscribeToTaskRequest(id=unknown.id), context=call()))
    await r.answer('send to unknown', send_once(unary, say_on(unknown, 'echo hello'), call()))

    task = await r.answer('send', send_once(unary, say('task tea'), call()))
    await r.answer('cancel finished', unary.cancel_task(CancelTaskRequest(id=task.id), context=call()))
    await r.stream('subscribe finished', streaming.subscribe(SubscribeToTaskRequest(id=task.id), context=call()))
    await r.answer('send to finished', send_once(unary, say_on(task, 'more'), call()))


def push(address):
    """The scenario of two addresses that are told of a task: one is given up, and
    the other left to whoever listens there until the task is done."""

    async def scene(unary, _streaming, call, r):
        request = say('slow 2000 tea')
        request.configuration.return_immediately = True
        task = (await r.accepted('send', send_once(unary, request, call()))).id
        for name in ('own', 'other'):
            config = TaskPushNotificationConfig(task_id=task, id=name, url=address, token=PUSH_TOKEN)
            await r.answer('create push', unary.create_task_push_notification_config(config, context=call()))
        own = GetTaskPushNotificationConfigRequest(task_id=task, id='own')
        await r.answer('get push', unary.get_task_push_notification_config(own, context=call()))
        every = ListTaskPushNotificationConfigsRequest(task_id=task)
        await r.answer('list push', unary.list_task_push_notification_configs(every, context=call()))

        async def delete():
            other = DeleteTaskPushNotificationConfigRequest(task_id=task, id='other')
            await unary.delete_task_push_notification_config(other, context=call())
            return {'deleted': True}

        await r.answer('delete push', delete())
        await r.answer('list push', unary.list_task_push_notification_configs(every, context=call()))

    return scene


async def headers(unary, _streaming, call, r):
    context = call(**{'A2A-Extensions': UNKNOWN_EXTENSION})
    await r.answer('send', send_once(unary, say('headers'), context))


async def await_working(client, call, task_id):
    """Polls until the agent has taken the task up. Nothing of it is recorded:
    how often it must ask depends on the moment."""
    while True:
        try:
            task = await client.get_task(GetTaskRequest(id=task_id), context=call())
        except A2AError:
            return
        if task.status.state != TaskState.TASK_STATE_SUBMITTED:
            return
        await asyncio.sleep(POLL_INTERVAL)


SCENARIOS = {
    'send': send,
    'stream': stream,
    'get': get,
    'list': list_tasks,
    'cancel': cancel,
    'subscribe': subscribe,
    'input': input_required,
    'files': files,
    'errors': errors,
    'headers': headers,
}
