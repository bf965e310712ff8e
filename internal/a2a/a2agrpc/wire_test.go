package a2agrpc_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
)

// serve runs a server on loopback until the test ends and gives its address.
func serve(t *testing.T, s *a2agrpc.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// client is one of our own.
func client(t *testing.T) *a2agrpc.Client {
	dial := new(net.Dialer).DialContext
	pool := a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial})
	t.Cleanup(pool.Close)
	return &a2agrpc.Client{Pool: pool}
}

func TestErrorsArrive(t *testing.T) {
	s := a2agrpc.NewServer(a2agrpc.Serving(a2a.HandlerFunc(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
	})), a2agrpc.Options{})
	q, err := a2a.NewRequest(a2a.GetTask, a2a.GetTaskRequest{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := client(t).Do(t.Context(), a2a.Endpoint{URL: "http://" + serve(t, s)}, q, http.Header{})
	if err != nil || rep.Err == nil || rep.Err.Reason != a2a.ReasonTaskNotFound {
		t.Errorf("got %+v, %v", rep, err)
	}
}
