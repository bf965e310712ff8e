//go:build linux

package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// smallDisk is a file system of its own for a test, in a mount namespace that
// ends with it. The first call runs the test anew in a child that has the
// namespace, and gives ok false to the parent, which has nothing left to do.
func smallDisk(t *testing.T, megabytes int) (dir string, ok bool) {
	t.Helper()
	if os.Getenv(roleVariable) != "disk" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=100s")
		cmd.Env = append(os.Environ(), roleVariable+"=disk")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		switch {
		case errors.Is(err, os.ErrPermission):
			t.Skipf("a mount namespace needs privileges that this process has not: %v", err)
		case strings.Contains(string(out), "--- SKIP"):
			t.Skipf("%s", out)
		case err != nil:
			t.Errorf("%v\n%s", err, out)
		}
		return "", false
	}
	dir = parleytest.Dir(t)
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", megabytes)); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// TestFullDisk: calls that cannot be recorded are not made, and say so without
// telling of the mesh's inside; what was acknowledged stays; and when there is
// room again calls are served again, without a restart.
func TestFullDisk(t *testing.T) {
	dir, ok := smallDisk(t, 8)
	if !ok {
		return
	}
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Data = dir }})
	agent := m.Agent("agent")
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		one := a2a.Task{ID: "t-" + q.Facts.MessageID, ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateCompleted}}
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
	})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	made := map[string]string{} // call id by message id
	send := func() *a2a.Reply {
		id := fmt.Sprintf("m-%d", len(made))
		before := len(agent.Seen())
		reply, call := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(id, strings.Repeat("x", 20_000)))
		switch seen := len(agent.Seen()) - before; {
		case reply.Err == nil:
			made[id] = call
		case reply.Err.Reason != a2a.ReasonUnavailable:
			t.Fatalf("call %s ended with %v", id, reply.Err)
		case seen != 0 && strings.Contains(reply.Err.Message, "not made"):
			t.Errorf("call %s is said not to be made, and the agent saw it", id)
		}
		return reply
	}
	for range 5 {
		if reply := send(); reply.Err != nil {
			t.Fatal(reply.Err)
		}
	}
	ballast := fill(t, dir)
	refused := until(t, "a refusal", func() bool { return send().Err != nil })
	reply := send()
	if reply.Err == nil || strings.Contains(reply.Err.Message, dir) || strings.Contains(reply.Err.Message, "disk") || !strings.Contains(reply.Err.Message, "it was not made") {
		t.Errorf("the refusal reads %v (after %d calls)", reply.Err, refused)
	}
	if status := readiness(t, m); status != http.StatusServiceUnavailable {
		t.Errorf("readyz says %d on a full disk", status)
	}
	state, err := m.Admin.Status(t.Context())
	if err != nil || state.Store.Healthy || !strings.Contains(state.Store.Problem, dir) {
		t.Errorf("the status for operators is %+v, %v", state.Store, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "recovery", func() bool { return send().Err == nil })
	if status := readiness(t, m); status != http.StatusNoContent {
		t.Errorf("readyz says %d after the recovery", status)
	}
	for id, call := range made {
		if got := m.Call(call); got.MessageID != id || got.Outcome != "ok" {
			t.Errorf("the acknowledged call %s is recorded as %+v", id, got)
		}
		if _, err := m.Admin.Task(t.Context(), control.TaskRef{Agent: "agent", ID: "t-" + id}, false); err != nil {
			t.Errorf("the acknowledged task of %s: %v", id, err)
		}
	}
	m.Restart()
	for _, call := range made {
		if got := m.Call(call); got.Outcome != "ok" {
			t.Errorf("after a restart the acknowledged call is recorded as %+v", got)
		}
	}
}

// until repeats what it waits for and tells how often that took.
func until(t *testing.T, what string, ok func() bool) (tries int) {
	t.Helper()
	for deadline := time.Now().Add(parleytest.Patience); !ok(); tries++ {
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s after %d tries", what, tries)
		}
	}
	return tries
}

// fill takes all the room that is left and gives the file that holds it.
func fill(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return f.Name()
}

func readiness(t *testing.T, m *parleytest.Mesh) int {
	t.Helper()
	resp, err := http.Get(m.Ready.Ops + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestReadOnlyDirectory is refused at the start, in words, and taken as soon as
// it can be written.
func TestReadOnlyDirectory(t *testing.T) {
	dir, ok := smallDisk(t, 16)
	if !ok {
		return
	}
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Data = dir }})
	m.Agent("agent")
	m.Stop()
	remount(t, dir, syscall.MS_RDONLY)
	_, err := app.Open(t.Context(), m.Config, app.Options{})
	if parley.KindOf(err) != parley.Unavailable {
		t.Fatalf("on a read-only directory: %v", err)
	}
	mustSay(t, parley.PublicMessage(err), dir, "read-only")
	remount(t, dir, 0)
	m.Restart()
	if _, err := m.Admin.Agent(t.Context(), "agent"); err != nil {
		t.Error(err)
	}
}

func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("none", dir, "", syscall.MS_REMOUNT|flags, ""); err != nil {
		t.Fatal(err)
	}
}
