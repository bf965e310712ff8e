package a2atest

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
)

// list answers ListTasks: the caller's tasks only, newest status first, by page.
func (a *Agent) list(owner string, q *a2a.Request) *a2a.Reply {
	var in a2a.ListTasksRequest
	if err := q.Decode(&in); err != nil {
		return a2a.Fail(a2a.Internal("the request could not be read"))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	after, err := a.readToken(owner, &in)
	if err != nil {
		return a2a.Fail(err)
	}
	matches := a.matches(owner, &in)
	size := a2a.DefaultPageSize
	if in.PageSize != nil {
		size = int(*in.PageSize)
	}
	out := a2a.ListTasksResponse{Tasks: []a2a.Task{}, PageSize: int32(size), TotalSize: int32(len(matches))}
	start := 0
	if after != nil {
		start, _ = slices.BinarySearchFunc(matches, *after, func(t *task, c cursor) int {
			if newest(t.cursor(), c) <= 0 {
				return -1
			}
			return 1
		})
	}
	page := matches[start:]
	if len(page) > size {
		page = page[:size]
		out.NextPageToken = a.token(owner, &in, page[size-1].cursor())
	}
	for _, t := range page {
		out.Tasks = append(out.Tasks, *t.snapshot(q.Facts.HistoryLength, in.IncludeArtifacts != nil && *in.IncludeArtifacts))
	}
	return a2a.Answer(q.Method, out)
}

// matches are the owner's tasks that the filters leave, in order. a.mu is held.
func (a *Agent) matches(owner string, in *a2a.ListTasksRequest) []*task {
	var out []*task
	for _, t := range a.tasks {
		switch {
		case t.owner != owner,
			in.ContextID != "" && t.contextID != in.ContextID,
			in.Status != "" && t.status.State != in.Status,
			in.StatusTimestampAfter != nil && t.status.Timestamp.Before(in.StatusTimestampAfter.Time):
			continue
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(x, y *task) int { return newest(x.cursor(), y.cursor()) })
	return out
}

// cursor is a task's place in a list.
type cursor struct {
	millis int64
	id     string
}

func (t *task) cursor() cursor { return cursor{t.status.Timestamp.UnixMilli(), t.id} }

// newest orders by time, the latest first, then by id.
func newest(x, y cursor) int {
	return cmp.Or(cmp.Compare(y.millis, x.millis), cmp.Compare(x.id, y.id))
}

// token writes the place behind a task for the next page. It holds for the same
// caller and filters only.
func (a *Agent) token(owner string, in *a2a.ListTasksRequest, c cursor) string {
	text := strconv.FormatInt(c.millis, 10) + ":" + c.id
	return base64.RawURLEncoding.EncodeToString(append(a.sign(owner, in, text), text...))
}

func (a *Agent) sign(owner string, in *a2a.ListTasksRequest, text string) []byte {
	mac := hmac.New(sha256.New, a.key)
	after := ""
	if in.StatusTimestampAfter != nil {
		after = in.StatusTimestampAfter.String()
	}
	fmt.Fprintf(mac, "%q %q %q %q %q", owner, in.ContextID, in.Status, after, text)
	return mac.Sum(nil)
}

// readToken reads the place a page begins behind, nil for the first.
func (a *Agent) readToken(owner string, in *a2a.ListTasksRequest) (*cursor, *a2a.Error) {
	if in.PageToken == "" {
		return nil, nil
	}
	wrong := a2a.InvalidParams(a2a.FieldViolation{Field: "pageToken", Description: "is not one this agent gave for these filters; begin without it"})
	raw, err := base64.RawURLEncoding.DecodeString(in.PageToken)
	if err != nil || len(raw) < sha256.Size {
		return nil, wrong
	}
	text := string(raw[sha256.Size:])
	millis, id, _ := strings.Cut(text, ":")
	at, err := strconv.ParseInt(millis, 10, 64)
	if err != nil || !hmac.Equal(raw[:sha256.Size], a.sign(owner, in, text)) {
		return nil, wrong
	}
	return &cursor{at, id}, nil
}
