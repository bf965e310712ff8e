package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

func oldTaskJSON(state string, chunks ...string) string {
	task := `"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"` + state + `"}`
	if len(chunks) > 0 {
		var parts []string
		for _, c := range chunks {
			parts = append(parts, `{"kind":"text","text":"`+c+`"}`)
		}
		task += `,"artifacts":[{"artifactId":"a","parts":[` + strings.Join(parts, ",") + `]}]`
	}
	return task + `}`
}

func oldStatusJSON(state string) string {
	return `"result":{"kind":"status-update","taskId":"t","contextId":"c","final":false,"status":{"state":"` + state + `"}}`
}

func oldChunkJSON(text string) string {
	return `"result":{"kind":"artifact-update","taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","parts":[{"kind":"text","text":"` + text + `"}]}}`
}

// TestFollowOldAgent: what a 0.3 agent does not tell its subscribers, the task
// itself tells, once and in order.
func TestFollowOldAgent(t *testing.T) {
	type life struct{ task atomic.Value }
	type script func(ctx context.Context, l *life, say func(string)) string
	says := func(task string, results ...string) script { // the task is task by the time of the subscription
		return func(_ context.Context, l *life, say func(string)) string {
			l.task.Store(task)
			for _, r := range results {
				if strings.HasPrefix(r, `"error"`) {
					return r // an answer of its own, where nothing was said
				}
				say(r)
			}
			return ""
		}
	}
	for name, tc := range map[string]struct {
		before string
		script script
		want   string // task frames in brackets; "!" marks those that were asked for
	}{
		"nothing was missed": {
			oldTaskJSON("working", "1"), says(oldTaskJSON("working", "1"), oldChunkJSON("2"), oldStatusJSON("completed")),
			"[working 1] 2 completed",
		},
		"pieces before the subscription": {
			oldTaskJSON("working", "1"), says(oldTaskJSON("working", "1", "2", "3"), oldChunkJSON("4"), oldStatusJSON("working")),
			"[working 1] ![working 1 2 3] 4 working early",
		},
		"pieces before and behind": { // the task has 3 and 4 already when 3 comes
			oldTaskJSON("working", "1"), says(oldTaskJSON("working", "1", "2", "3", "4"), oldChunkJSON("3"), oldChunkJSON("4"), oldChunkJSON("5"), oldStatusJSON("input-required")),
			"[working 1] ![working 1 2 3 4] 5 input-required end",
		},
		"a last state that is not told": {
			oldTaskJSON("working"), func(_ context.Context, l *life, say func(string)) string {
				say(oldChunkJSON("1"))
				l.task.Store(oldTaskJSON("canceled", "1"))
				return ""
			},
			"[working] (either) ![canceled 1] end",
		},
		"ended before the subscription, which is refused": {
			oldTaskJSON("working"), says(oldTaskJSON("completed", "1"), `"error":{"code":-32602,"message":"it has ended"}`),
			"[working] ![completed 1] end",
		},
		"ended before the subscription, which shows the task": {
			oldTaskJSON("working"), says(oldTaskJSON("completed", "1"), oldTaskJSON("completed", "1")),
			"[working] [completed 1] end",
		},
		"refused": {
			oldTaskJSON("working"), says(oldTaskJSON("working"), `"error":{"code":-32602,"message":"no"}`),
			"[working] error INVALID_PARAMS end",
		},
		"ends without a word while the task goes on": {
			oldTaskJSON("working"), says(oldTaskJSON("working"), oldStatusJSON("working")),
			"[working] working early",
		},
		"shows nothing, and the task ends": {
			oldTaskJSON("working"), func(ctx context.Context, l *life, _ func(string)) string {
				l.task.Store(oldTaskJSON("completed", "1"))
				<-ctx.Done()
				return `"error":{"code":-32603,"message":"too late"}`
			},
			"[working] ![completed 1] end",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &life{}
			l.task.Store(tc.before)
			url := a2atest.NewOldScript(t, func(ctx context.Context, method string, _ []byte, say func(string)) string {
				if method == "tasks/get" {
					return l.task.Load().(string)
				}
				return tc.script(ctx, l, say)
			})
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			q, err := a2a.NewRequest(a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: "t"})
			if err != nil {
				t.Fatal(err)
			}
			client := &a2a.Client{Transport: transport}
			reply, err := client.Do(t.Context(), a2a.Endpoint{URL: url, Binding: a2a.JSONRPC, Version: a2a.V03}, q, http.Header{})
			if err != nil || reply.Stream == nil {
				t.Fatalf("%+v, %v", reply, err)
			}
			got := strings.Join(told(t, reply.Stream), " ")
			if want, ok := strings.CutPrefix(tc.want, "[working] (either)"); ok {
				// The piece may come by itself or with the task that has it.
				if !strings.HasPrefix(got, "[working]") || !strings.HasSuffix(got, want) && !strings.HasSuffix(got, "![working 1]"+want) {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			} else if got != tc.want && got != tc.want+" end" {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// told reads a stream to its end.
func told(t *testing.T, stream a2a.Stream) (all []string) {
	defer stream.Close()
	for {
		f, err := stream.Next(t.Context())
		switch {
		case err == io.EOF:
			return append(all, "end")
		case errors.Is(err, a2a.ErrEndEarly):
			return append(all, "early")
		case err != nil:
			return append(all, err.Error())
		case f.Err != nil:
			all = append(all, "error "+string(f.Err.Reason))
			continue
		}
		var e a2a.StreamResponse
		if err := json.Unmarshal(f.Result, &e); err != nil {
			t.Fatalf("%s: %v", f.Result, err)
		}
		text := ""
		switch {
		case e.Task != nil:
			text = "[" + shortState(e.Task.Status.State)
			for _, a := range e.Task.Artifacts {
				for _, p := range a.Parts {
					text += " " + *p.Text
				}
			}
			text += "]"
			if f.Facts.Reconciled {
				text = "!" + text
			}
		case e.StatusUpdate != nil:
			text = shortState(e.StatusUpdate.Status.State)
		case e.ArtifactUpdate != nil:
			text = *e.ArtifactUpdate.Artifact.Parts[0].Text
		}
		all = append(all, text)
	}
}

func shortState(s a2a.TaskState) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_")), "_", "-")
}
