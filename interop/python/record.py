"""What a scenario gives, with everything put aside that differs from run to
run: ids become numbered words in order of appearance, timestamps their form,
page tokens the fact that there is one."""

import re

from a2a.types import ListTasksResponse, StreamResponse, Task, TaskState
from a2a.utils.errors import A2A_ERROR_REASONS
from google.protobuf.json_format import MessageToDict

# An id no agent has given out.
UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000'

UTC_TIME = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$')
OFFSET_TIME = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d$')

OPEN = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


class Recorder:
    def __init__(self, scenario):
        self.document = {'scenario': scenario, 'client': 'python', 'steps': []}
        self._seen = {}
        self._next = {}

    async def answer(self, op, operation):
        """Records one operation and returns what it gave, an empty task if it failed."""
        try:
            result = await operation
        except Exception as error:
            self._step(op, error=self._failure(error))
            return Task()
        self._step(op, result=self._steady(result))
        return inner(result)

    async def accepted(self, op, operation):
        """Records a task that was returned at once. Whether the agent has
        taken it up by then is chance, so only that it is open is written down."""
        try:
            result = await operation
        except Exception as error:
            self._step(op, error=self._failure(error))
            return Task()
        task = inner(result)
        if not isinstance(task, Task) or task.status.state not in OPEN:
            self._step(op, result=self._steady(result))
            return task
        opened = self._placeholder('task', task.id)
        self._step(op, result={'open': opened, 'contextId': self._placeholder('context', task.context_id)})
        return task

    async def stream(self, op, events, more=lambda event: True):
        """Records events until the stream ends or more says no."""
        step = {'op': op, 'events': []}
        try:
            async for event in events:
                step['events'].append(self._steady(event))
                if not more(event):
                    break
        except Exception as error:
            step['error'] = self._failure(error)
        finally:
            await events.aclose()
        if not step['events']:
            del step['events']
        self.document['steps'].append(step)

    def _step(self, op, **outcome):
        self.document['steps'].append({'op': op, **outcome})

    def _failure(self, error):
        reason = A2A_ERROR_REASONS.get(type(error), type(error).__name__)
        return {'reason': reason, 'message': self._redact(str(error))}

    def _steady(self, value):
        """The SDK's value as wire JSON, with the changing parts put aside."""
        if isinstance(value, Task):
            value = StreamResponse(task=value)
        if isinstance(value, ListTasksResponse):
            # The members that the protocol always wants, also when empty.
            whole = MessageToDict(value, always_print_fields_with_no_presence=True)
            whole['tasks'] = [MessageToDict(task) for task in value.tasks]
            return self._walk(whole)
        return self._walk(MessageToDict(value))

    def _walk(self, node):
        if isinstance(node, list):
            return [self._walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        steady = {}
        for key in sorted(node):
            value = node[key]
            if isinstance(value, str):
                steady[key] = self._member(key, value, of_task='status' in node)
            else:
                steady[key] = self._walk(value)
        return steady

    def _member(self, key, value, of_task):
        if not value:
            return value
        if key == 'taskId' or (key == 'id' and of_task):
            return self._placeholder('task', value)
        if key == 'contextId':
            return self._placeholder('context', value)
        if key == 'messageId':
            return self._placeholder('message', value)
        if key == 'nextPageToken':
            return 'token'
        if key == 'timestamp':
            return 'utc' if UTC_TIME.match(value) else 'offset' if OFFSET_TIME.match(value) else 'malformed'
        return value

    def _placeholder(self, kind, identifier):
        if identifier == UNKNOWN_TASK:
            return 'task-unknown'
        if identifier not in self._seen:
            self._next[kind] = self._next.get(kind, 0) + 1
            self._seen[identifier] = f'{kind}-{self._next[kind]}'
        return self._seen[identifier]

    def _redact(self, words):
        """Replaces ids in text that is meant for people."""
        for identifier, placeholder in self._seen.items():
            words = words.replace(identifier, placeholder)
        return words


def inner(result):
    """The task or message inside an answer, or the answer itself."""
    if isinstance(result, StreamResponse):
        return result.task if result.HasField('task') else result.message
    return result
