package call

import (
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Task is the mesh's index entry of an agent's task: whose it is and what was
// last seen of it. The agent owns the task itself.
type Task struct {
	Agent    parley.AgentName
	Instance string
	ID       string

	Principal parley.PrincipalName // who may see it
	Owner     parley.OwnerName     // of the principal; its key seals Snapshot
	ContextID string
	State     string    // as A2A writes it
	StatusAt  time.Time // the status' own timestamp, or when it was seen
	Final     bool
	Call      parley.CallID // the call that began it
	UpdatedAt time.Time
	// Snapshot is the last whole Task object as JSON, nil if only its state
	// was seen. It is sealed at rest.
	Snapshot []byte
}

// TaskKey names a task in the mesh.
type TaskKey struct {
	Agent    parley.AgentName
	Instance string
	ID       string
}

// Key names t.
func (t *Task) Key() TaskKey { return TaskKey{t.Agent, t.Instance, t.ID} }

// TaskFilter selects tasks of one principal at one agent, newest status first,
// ties by id.
type TaskFilter struct {
	Principal   parley.PrincipalName
	Owner       parley.OwnerName // of the principal; empty: all owners
	Agent       parley.AgentName // empty: all agents
	ContextID   string
	State       string
	StatusAfter time.Time // inclusive
	// AfterStatusAt and AfterID are the page cursor: only tasks that sort
	// behind this place.
	AfterStatusAt time.Time
	AfterID       string
	Limit         int // 1 to 500
}

// Final reports whether state, as A2A writes it, ends a task.
func Final(state string) bool {
	switch state {
	case "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED":
		return true
	}
	return false
}
