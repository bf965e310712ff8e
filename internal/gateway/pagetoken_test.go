package gateway

import (
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
)

func TestPageTokenIsBoundToCallerAndFilters(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	base := call.TaskFilter{Principal: "ann", Agent: "echo", ContextID: "c", State: "TASK_STATE_WORKING"}
	last := &call.Task{ID: "task-9", StatusAt: time.UnixMicro(1_790_000_000_123_456).UTC()}
	token := pageToken(key, base, last)

	got := base
	if err := openPageToken(key, &got, token); err != nil || got.AfterID != last.ID || !got.AfterStatusAt.Equal(last.StatusAt) {
		t.Fatalf("openPageToken = %+v, %v", got, err)
	}
	for name, change := range map[string]func(*call.TaskFilter){
		"principal": func(f *call.TaskFilter) { f.Principal = "bob" },
		"agent":     func(f *call.TaskFilter) { f.Agent = "other" },
		"context":   func(f *call.TaskFilter) { f.ContextID = "" },
		"moved":     func(f *call.TaskFilter) { f.ContextID, f.State = "cT", "ASK_STATE_WORKING" },
		"after":     func(f *call.TaskFilter) { f.StatusAfter = time.Now() },
	} {
		f := base
		change(&f)
		if openPageToken(key, &f, token) == nil {
			t.Errorf("a token with another %s was accepted", name)
		}
	}
	for i := range token {
		broken := []byte(token)
		broken[i] ^= 1
		f := base
		if openPageToken(key, &f, string(broken)) == nil && string(broken) != token {
			t.Errorf("a token with character %d changed was accepted", i)
		}
	}
	f := base
	if openPageToken(key, &f, "") == nil || openPageToken([]byte("another key"), &f, token) == nil {
		t.Error("an empty token or one under another key was accepted")
	}
}
