// How this SDK shows its values and errors, for the recorder.

import { ListTasksResponse, StreamResponse, TaskState } from '@a2a-js/sdk';

const CLOSED = new Set([
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
]);

export const sdk = {
  client: 'js',
  toJSON,
  isOpen: (task) => task.status && !CLOSED.has(task.status.state),
  // A typed error may be the cause of the one the SDK throws.
  failure(error) {
    const typed = [error, error.cause].find((e) => e?.reason) ?? error;
    return { reason: typed.reason ?? typed.name, message: typed.message };
  },
};

function toJSON(value) {
  if (value.payload) return StreamResponse.toJSON(value);
  if (value.tasks) {
    // The members that the protocol always wants, also when empty.
    return { tasks: [], nextPageToken: '', pageSize: 0, totalSize: 0, ...ListTasksResponse.toJSON(value) };
  }
  if (value.status) return StreamResponse.toJSON({ payload: { $case: 'task', value } });
  if (value.messageId) return StreamResponse.toJSON({ payload: { $case: 'message', value } });
  return value;
}
