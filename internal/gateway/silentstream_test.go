package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestStreamThatKeepsSilentAfterTheEnd: an agent that leaves its stream open and
// says nothing, once its task was canceled by another call, or that fails the
// stream then, holds nobody: the caller is told how the task has ended.
func TestStreamThatKeepsSilentAfterTheEnd(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails %v", fails), func(t *testing.T) {
			m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour }, a2a.HTTPJSON)
			id, canceled := fresh("t"), make(chan struct{})
			var over atomic.Bool
			agent.Serve(func(w http.ResponseWriter, r *http.Request) {
				state := a2a.StateWorking
				switch {
				case strings.HasSuffix(r.URL.Path, ":stream"):
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, strings.ReplaceAll(workingFrame, "@id", id))
					w.(http.Flusher).Flush()
					if fails {
						<-canceled
						_, _ = io.WriteString(w, "event: error\ndata: {\"error\":{\"code\":500,\"status\":\"INTERNAL\",\"message\":\"closed\"}}\n\n")
						return
					}
					<-r.Context().Done()
					return
				case strings.HasSuffix(r.URL.Path, ":subscribe"):
					http.Error(w, "not now", http.StatusServiceUnavailable)
					return
				case strings.HasSuffix(r.URL.Path, ":cancel"):
					if over.CompareAndSwap(false, true) {
						close(canceled)
					}
				}
				if over.Load() {
					state = a2a.StateCanceled
				}
				w.Header().Set("Content-Type", "application/a2a+json")
				_, _ = fmt.Fprintf(w, `{"id":%q,"contextId":"c","status":{"state":%q}}`, id, state)
			})
			c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
			reply, call := c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
			if reply.Stream == nil {
				t.Fatalf("no stream: %v", reply.Err)
			}
			if _, err := reply.Stream.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, _ := c.Do(t.Context(), a2a.CancelTask, a2a.CancelTaskRequest{ID: id}); got.Err != nil {
				t.Fatal(got.Err)
			}
			if last := lastFrame(t, reply); last.Err != nil || !strings.Contains(string(last.Result), string(a2a.StateCanceled)) {
				t.Errorf("the last frame is %s %v, want the canceled task", last.Result, last.Err)
			}
			wantCall(t, m, call, "canceled", "")
		})
	}
}
