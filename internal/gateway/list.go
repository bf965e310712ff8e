package gateway

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

const (
	// defaultPage is the page size of a ListTasks that names none. Source: A2A
	// 1.0, section 3.1.4.
	defaultPage = 50
	// refreshPage is how many of a caller's newest tasks are looked through for
	// ones to ask agents about.
	refreshPage = 100
	// listLooks is how many agents' tasks one ListTasks asks for at once.
	listLooks = 8
)

// listTasks answers ListTasks from the mesh's index, since the agent sees one
// client and would list everybody's tasks.
func (g *Gateway) listTasks(ctx context.Context, c *Call) *a2a.Reply {
	var params a2a.ListTasksRequest
	if err := jsonwire.Unmarshal(c.req.Params, &params, g.Server.Limits); err != nil {
		return g.refuse(c, err)
	}
	filter := call.TaskFilter{
		Principal: c.record.Caller, Agent: c.record.Agent, ContextID: params.ContextID,
		State: string(params.Status), Limit: defaultPage,
	}
	if params.PageSize != nil {
		filter.Limit = int(*params.PageSize)
	}
	if params.StatusTimestampAfter != nil {
		filter.StatusAfter = params.StatusTimestampAfter.Time
	}
	size := filter.Limit
	if params.PageToken != "" {
		if err := openPageToken(g.TokenKey, &filter, params.PageToken); err != nil {
			return g.refuse(c, a2a.InvalidParams(a2a.FieldViolation{Field: "pageToken", Description: err.Error()}))
		}
	}
	if c.anonymous() { // anonymous callers are one principal and many people
		return listAnswer(g, c, nil, 0, size, "")
	}
	if params.PageToken == "" {
		if err := g.refreshList(ctx, filter); err != nil {
			return g.refuse(c, err)
		}
	}
	filter.Limit = size + 1 // one more tells whether there is a next page
	tasks, total, err := g.Journal.Tasks(ctx, filter)
	if err != nil {
		return g.refuse(c, err)
	}
	next := ""
	if len(tasks) > size {
		tasks = tasks[:size]
		next = pageToken(g.TokenKey, filter, tasks[size-1])
	}
	list := make([]jsontext.Value, 0, len(tasks))
	for _, t := range tasks {
		raw, err := listed(t, params)
		if err != nil {
			return g.refuse(c, err)
		}
		list = append(list, raw)
	}
	return listAnswer(g, c, list, total, size, next)
}

// listPage is a2a.ListTasksResponse with the tasks as they are stored.
type listPage struct {
	Tasks         []jsontext.Value `json:"tasks"`
	NextPageToken string           `json:"nextPageToken"`
	PageSize      int              `json:"pageSize"`
	TotalSize     int              `json:"totalSize"`
}

func listAnswer(g *Gateway, c *Call, tasks []jsontext.Value, total, size int, next string) *a2a.Reply {
	if tasks == nil {
		tasks = []jsontext.Value{}
	}
	raw, err := jsonwire.Marshal(listPage{tasks, next, size, total})
	if err != nil {
		return g.refuse(c, err)
	}
	return &a2a.Reply{Result: raw}
}

// refreshList asks the agent for the caller's newest tasks that are not final,
// or of which only the state is known. A task that cannot be asked for in time
// is listed as last seen.
func (g *Gateway) refreshList(ctx context.Context, f call.TaskFilter) error {
	f.State, f.StatusAfter, f.Limit = "", time.Time{}, refreshPage
	tasks, _, err := g.Journal.Tasks(ctx, f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.limits().ListRefreshTimeout)
	defer cancel()
	var looks errgroup.Group
	looks.SetLimit(listLooks)
	asked := 0
	for _, t := range tasks {
		if t.Final && t.Snapshot != nil || asked == g.limits().ListRefresh {
			continue
		}
		asked++
		looks.Go(func() error {
			if _, err := g.peek(ctx, t.Key()); err != nil {
				g.Log.Debug("task not refreshed for a list", "agent", t.Agent, "err", err)
			}
			return nil
		})
	}
	return looks.Wait()
}

// listed is a task as ListTasks shows it: with as much history and with or
// without artifacts as asked.
func listed(t *call.Task, params a2a.ListTasksRequest) (jsontext.Value, error) {
	if t.Snapshot == nil {
		return jsonwire.Marshal(a2a.Task{
			ID: t.ID, ContextID: t.ContextID,
			Status: a2a.TaskStatus{State: a2a.TaskState(t.State), Timestamp: &a2a.Timestamp{Time: t.StatusAt}},
		})
	}
	raw := jsontext.Value(t.Snapshot)
	if params.IncludeArtifacts == nil || !*params.IncludeArtifacts {
		var err error
		if raw, err = jsonwire.Delete(raw, "/artifacts"); err != nil {
			return nil, err
		}
	}
	if params.HistoryLength == nil {
		return raw, nil
	}
	return trimHistory(raw, int(*params.HistoryLength))
}

// trimHistory leaves at most the n newest messages; none at all for n = 0.
func trimHistory(task jsontext.Value, n int) (jsontext.Value, error) {
	history, ok := jsonwire.Get(task, "/history")
	if !ok {
		return task, nil
	}
	if n == 0 {
		return jsonwire.Delete(task, "/history")
	}
	messages := jsonwire.Elements(history)
	if len(messages) <= n {
		return task, nil
	}
	kept, err := jsonwire.Marshal(messages[len(messages)-n:])
	if err != nil {
		return nil, err
	}
	return jsonwire.Set(task, "/history", kept)
}
