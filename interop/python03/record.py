"""How this SDK shows its values and errors, for the recorder."""

import re
from types import SimpleNamespace

import grpc
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import TaskState

OPEN = (TaskState.submitted, TaskState.working)

# The codes of 0.3 by the names that 1.0 gave them.
REASONS = {
    -32001: 'TASK_NOT_FOUND',
    -32002: 'TASK_NOT_CANCELABLE',
    -32003: 'PUSH_NOTIFICATION_NOT_SUPPORTED',
    -32004: 'UNSUPPORTED_OPERATION',
    -32005: 'CONTENT_TYPE_NOT_SUPPORTED',
    -32006: 'INVALID_AGENT_RESPONSE',
    -32600: 'INVALID_REQUEST',
    -32601: 'METHOD_NOT_FOUND',
    -32602: 'INVALID_PARAMS',
    -32603: 'INTERNAL_ERROR',
}

client = 'python03'


def nothing():
    return SimpleNamespace(id='', context_id='')


def wire(value):
    """The value as wire JSON."""
    return value if isinstance(value, dict) else value.model_dump(mode='json', by_alias=True, exclude_none=True)


def inner(result):
    return result


def is_open(task):
    return getattr(task, 'kind', '') == 'task' and task.status.state in OPEN


def reason(error):
    """The SDK has no types for errors: over JSON-RPC they carry the code, over
    HTTP+JSON only the status, over gRPC a status and words."""
    if isinstance(error, A2AClientJSONRPCError):
        return REASONS.get(error.error.code, str(error.error.code))
    if isinstance(error, grpc.aio.AioRpcError):
        named = re.match(r'(\w+)Error:', error.details() or '')
        return snake(named[1]) if named else error.code().name
    status = getattr(error, 'status_code', None)
    return f'HTTP {status}' if status else type(error).__name__


def snake(name):
    """TaskNotFound as TASK_NOT_FOUND."""
    return re.sub(r'(?<!^)(?=[A-Z])', '_', name).upper()
