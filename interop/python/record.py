"""How this SDK shows its values and errors, for the recorder."""

from a2a.types import ListTasksResponse, StreamResponse, Task, TaskState
from a2a.utils.errors import A2A_ERROR_REASONS
from google.protobuf.json_format import MessageToDict

OPEN = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)

client = 'python'
nothing = Task


def wire(value):
    """The value as wire JSON."""
    if isinstance(value, Task):
        value = StreamResponse(task=value)
    if isinstance(value, ListTasksResponse):
        # The members that the protocol always wants, also when empty.
        whole = MessageToDict(value, always_print_fields_with_no_presence=True)
        whole['tasks'] = [MessageToDict(task) for task in value.tasks]
        return whole
    return value if isinstance(value, dict) else MessageToDict(value)


def inner(result):
    """The task or message inside an answer, or the answer itself."""
    if isinstance(result, StreamResponse):
        return result.task if result.HasField('task') else result.message
    return result


def is_open(task):
    return isinstance(task, Task) and task.status.state in OPEN


def reason(error):
    return A2A_ERROR_REASONS.get(type(error), type(error).__name__)
