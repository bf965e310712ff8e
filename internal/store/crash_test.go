//go:build linux

package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// roleVariable tells a copy of the test program what to be.
const roleVariable = "PARLEY_STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "load" {
		if err := load(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// load writes calls until it is killed, and prints each id that Begin has
// acknowledged.
func load(dir string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Dir: dir})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				r := record()
				if err := db.Begin(ctx, r); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				os.Stdout.WriteString(r.ID.String() + "\n")
				r.TaskID = r.ID.String()
				k := call.Settlement{Record: r, Task: &call.Task{
					Agent: r.Agent, ID: r.TaskID, Principal: r.Caller, Owner: r.CallerOwner, State: "TASK_STATE_COMPLETED", Final: true,
					StatusAt: r.Begun, UpdatedAt: r.Begun, Call: r.ID, Snapshot: []byte("{}"),
				}}
				ended(r)
				if err := db.Settle(ctx, k, i%8 == 0); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.New("all writers have stopped")
}

// A process that is killed in the middle of its work leaves every call whose
// Begin it had acknowledged, and nothing in halves.
func TestKilledUnderLoad(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[parley.CallID]bool{}
	for range 5 {
		killUnderLoad(t, dir, 400, acknowledged)
		db, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatalf("start after kill -9: %v", err)
		}
		if _, err := db.Recover(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		unknown := 0
		for id := range acknowledged {
			r, err := db.Call(t.Context(), id)
			if err != nil {
				t.Fatalf("call %s was acknowledged and is lost: %v", id, err)
			}
			switch r.Outcome {
			case parley.OutcomeOK:
				task, err := db.Task(t.Context(), call.TaskKey{Agent: "echo", ID: id.String()})
				if err != nil || task.Call != id || r.EndSeq == 0 {
					t.Errorf("call %s ended without its task: %+v, %v", id, task, err)
				}
			case parley.OutcomeUnknown:
				unknown++
			default:
				t.Errorf("call %s has the outcome %q after recovery", id, r.Outcome)
			}
		}
		if open, err := db.OpenCalls(t.Context()); err != nil || len(open) != 0 {
			t.Errorf("%d calls are open after recovery, %v", len(open), err)
		}
		t.Logf("%d calls acknowledged, %d of them unknown", len(acknowledged), unknown)
		if err := db.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// killUnderLoad lets a process of its own write until it has acknowledged n
// calls, and kills it.
func killUnderLoad(t *testing.T, dir string, n int, acknowledged map[parley.CallID]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleVariable+"=load")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		id, err := parley.ParseCallID(lines.Text())
		if err != nil {
			break // a line that the kill has cut was not read by anybody
		}
		acknowledged[id] = true
		if seen == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || !strings.Contains(exit.Error(), "killed") {
		t.Fatalf("the process under load ended by itself: %v", err)
	}
}

// privateDisk runs the calling test again in a process with a file system of
// its own, and gives that process an empty directory on a disk of the given
// size. In the process that asks, it reports the other's result and gives "".
func privateDisk(t *testing.T, size string) string {
	t.Helper()
	if mount := os.Getenv(roleVariable); strings.HasPrefix(mount, "disk:") {
		dir := strings.TrimPrefix(mount, "disk:")
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Skipf("no private mounts: %v", err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("no private tmpfs: %v", err)
		}
		return dir
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), roleVariable+"=disk:"+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL):
		t.Skipf("this machine allows no mount namespace: %v", err)
	case err != nil:
		t.Fatalf("in the private file system: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("in the private file system: %s", out)
	}
	return ""
}

func TestDiskFull(t *testing.T) {
	dir := privateDisk(t, "8m")
	if dir == "" {
		return
	}
	ctx := t.Context()
	db, err := store.Open(ctx, store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged []*call.Record
	begin := func() error {
		r := record()
		err := db.Begin(ctx, r)
		if err == nil {
			acknowledged = append(acknowledged, r)
		}
		return err
	}
	for range 20 {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	ballast := fill(t, filepath.Join(dir, "ballast"))
	for err = begin(); err == nil; err = begin() {
	}
	wantError(t, err, parley.Unavailable, dir, "full", "make room")
	wantError(t, db.Health(ctx), parley.Unavailable, "full")
	t.Logf("refused after %d calls: %v", len(acknowledged), err)

	// What nobody waits for is kept, and what was acknowledged can be read.
	r := acknowledged[0]
	r.TaskID = "t"
	task := &call.Task{Agent: "echo", ID: "t", Principal: "client", Owner: "default", State: "TASK_STATE_COMPLETED", Final: true, StatusAt: r.Begun, UpdatedAt: r.Begun}
	if err := db.Settle(ctx, call.Settlement{Record: ended(r), Task: task}, false); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Task(ctx, task.Key()); err != nil || got.Principal != "client" {
		t.Errorf("the task of a settlement that waits for the disk: %+v, %v", got, err)
	}
	if _, err := db.Call(ctx, acknowledged[1].ID); err != nil {
		t.Errorf("an acknowledged call while the disk is full: %v", err)
	}

	// The store goes on trying by itself; the second failure from here is one
	// of an attempt that held the settlement.
	meter := newSignal()
	db.Measure(meter)
	for range 2 {
		wait(t, "attempt", meter.failed)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	wait(t, "commit", meter.committed)
	if err := db.Health(ctx); err != nil {
		t.Errorf("health with room on the disk: %v", err)
	}
	if err := begin(); err != nil {
		t.Errorf("a call with room on the disk: %v", err)
	}
	if err := db.Close(ctx); err != nil {
		t.Fatal(err)
	}
	db = open(t, store.Options{Dir: dir})
	for _, r := range acknowledged {
		if _, err := db.Call(ctx, r.ID); err != nil {
			t.Fatalf("call %s was acknowledged and is lost: %v", r.ID, err)
		}
	}
	if got, err := db.Call(ctx, r.ID); err != nil || got.Outcome != parley.OutcomeOK {
		t.Errorf("the call that ended while the disk was full: %+v, %v", got, err)
	}
}

// fill writes a file until the disk has no room left.
func fill(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

func TestFullDiskAtStart(t *testing.T) {
	dir := privateDisk(t, "1m")
	if dir == "" {
		return
	}
	ballast := fill(t, filepath.Join(dir, "ballast"))
	_, err := store.Open(t.Context(), store.Options{Dir: dir})
	wantError(t, err, parley.Unavailable, dir)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Dir: dir})
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := privateDisk(t, "8m")
	if dir == "" {
		return
	}
	db, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	_, err = store.Open(t.Context(), store.Options{Dir: dir})
	wantError(t, err, parley.Unavailable, dir, "read-only", "permissions")
	remount(0)
	open(t, store.Options{Dir: dir})
}
