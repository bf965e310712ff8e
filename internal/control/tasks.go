package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// TaskReader finds index entries of tasks.
type TaskReader interface {
	// Task gives one entry with its snapshot, or a parley.NotFound error.
	Task(ctx context.Context, key call.TaskKey) (*call.Task, error)
	// AllTasks gives entries as call.TaskFilter says, but everybody's where its
	// Principal is empty.
	AllTasks(ctx context.Context, f call.TaskFilter) ([]*call.Task, error)
}

// Task is the mesh's index entry of an agent's task.
type Task struct {
	Agent     parley.AgentName     `json:"agent"`
	Instance  string               `json:"instance,omitempty"`
	ID        string               `json:"id"`
	Principal parley.PrincipalName `json:"principal" doc:"Who may see it."`
	Owner     parley.OwnerName     `json:"owner"`
	ContextID string               `json:"contextId,omitempty"`
	State     string               `json:"state" doc:"As A2A writes it."`
	StatusAt  time.Time            `json:"statusAt"`
	Final     bool                 `json:"final"`
	Call      string               `json:"call,omitempty" doc:"The call that made or last worked on it."`
	UpdatedAt time.Time            `json:"updatedAt"`
	Snapshot  json.RawMessage      `json:"snapshot,omitempty" doc:"The last whole task that was seen; only with snapshot=true."`
}

// TaskFilter selects tasks; empty members select all.
type TaskFilter struct {
	Principal parley.PrincipalName `query:"principal" maxLength:"63"`
	Agent     parley.AgentName     `query:"agent" maxLength:"63"`
	ContextID string               `query:"contextId" maxLength:"512"`
	State     string               `query:"state" maxLength:"64" doc:"As A2A writes it: TASK_STATE_WORKING."`
	Since     time.Time            `query:"since" doc:"RFC 3339: only with a status from then on."`
}

func taskOf(t *call.Task) Task {
	return Task{
		Agent: t.Agent, Instance: t.Instance, ID: t.ID, Principal: t.Principal, Owner: t.Owner,
		ContextID: t.ContextID, State: t.State, StatusAt: t.StatusAt.UTC(), Final: t.Final,
		Call: t.Call.String(), UpdatedAt: t.UpdatedAt.UTC(),
	}
}

func (s *Server) taskRoutes() {
	type list struct {
		Paging
		TaskFilter
	}
	route(s, operation("listTasks", "GET", "/tasks", "List tasks of all principals, newest status first", 200),
		func(ctx context.Context, in *list) (*listed[Task], error) {
			f := call.TaskFilter{
				Principal: in.Principal, Agent: in.Agent, ContextID: in.ContextID, State: in.State,
				StatusAfter: in.Since, Limit: in.Limit + 1,
			}
			at, err := in.place("tasks", 2)
			if err != nil {
				return nil, err
			}
			if f.Owner, err = readable(ctx, "listTasks", ""); err != nil {
				return nil, err
			}
			if at[0] != "" {
				if f.AfterStatusAt, err = time.Parse(time.RFC3339Nano, at[0]); err != nil {
					return nil, badParam("cursor", "is not a cursor of this list", "pass next of the page before, unchanged")
				}
				f.AfterID = at[1]
			}
			tasks, err := s.opts.Tasks.AllTasks(ctx, f)
			return page(tasks, in.Limit, taskOf, func(t *call.Task) string {
				return cursorOf("tasks", t.StatusAt.UTC().Format(time.RFC3339Nano), t.ID)
			}), err
		})
	type one struct {
		Agent    parley.AgentName `path:"agent" maxLength:"63"`
		ID       string           `path:"id" maxLength:"512"`
		Instance string           `query:"instance" maxLength:"63" doc:"Where the agent has several."`
		Snapshot bool             `query:"snapshot" doc:"Give the task's content too. Needs the role admin."`
	}
	route(s, operation("getTask", "GET", "/tasks/{agent}/{id}", "Show a task's index entry", 200),
		func(ctx context.Context, in *one) (*entity[Task], error) {
			if in.Snapshot {
				if err := permit(ctx, partTaskSnapshot); err != nil {
					return nil, err
				}
			}
			t, err := s.opts.Tasks.Task(ctx, call.TaskKey{Agent: in.Agent, Instance: in.Instance, ID: in.ID})
			if err != nil {
				return nil, err
			}
			if err := permitRead(ctx, "getTask", t.Owner); err != nil {
				return nil, err
			}
			out := &entity[Task]{Body: taskOf(t)}
			if in.Snapshot {
				out.Body.Snapshot = rawJSON(t.Snapshot)
			}
			return out, nil
		})
}
