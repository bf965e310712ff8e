"""What a scenario gives, with everything put aside that differs from run to
run: ids become numbered words in order of appearance, timestamps their form,
page tokens the fact that there is one."""

import re

# An id no agent has given out.
UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000'

# What pushes to a client must bear.
PUSH_TOKEN = 'interop-token-of-the-subscriber'

UTC_TIME = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$')
OFFSET_TIME = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d$')


class Recorder:
    """Writes down one scenario. sdk says how an SDK shows its values: client,
    wire(value), inner(value), is_open(task), reason(error) and nothing(), which
    stands for a task where an operation failed."""

    def __init__(self, scenario, sdk):
        self._sdk = sdk
        self.document = {'scenario': scenario, 'client': sdk.client, 'steps': []}
        self._seen = {}
        self._next = {}

    async def answer(self, op, operation):
        """Records one operation and returns what it gave, nothing() if it failed."""
        try:
            result = await operation
        except Exception as error:
            self._step(op, error=self._failure(error))
            return self._sdk.nothing()
        self._step(op, result=self._steady(result))
        return self._sdk.inner(result)

    async def accepted(self, op, operation):
        """Records a task that was returned at once. Whether the agent has
        taken it up by then is chance, so only that it is open is written down."""
        try:
            result = await operation
        except Exception as error:
            self._step(op, error=self._failure(error))
            return self._sdk.nothing()
        task = self._sdk.inner(result)
        if not self._sdk.is_open(task):
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
            if not step['events']:
                del step['events']
            self.document['steps'].append(step)
            await events.aclose()

    def stuck(self):
        """Records that the scenario did not come to its end in time."""
        self._step('stuck', error={'reason': 'TIMEOUT', 'message': 'the scenario took too long'})

    def _step(self, op, **outcome):
        self.document['steps'].append({'op': op, **outcome})

    def _failure(self, error):
        return {'reason': self._sdk.reason(error), 'message': self._redact(str(error))}

    def _steady(self, value):
        """The SDK's value as wire JSON, with the changing parts put aside."""
        return self._walk(self._sdk.wire(value))

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
