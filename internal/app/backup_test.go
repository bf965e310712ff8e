//go:build linux

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestBackupUnderLoad: a backup that was taken while calls came in holds every
// call that was acknowledged before it began, and no half of one; what was open
// is what it is after a crash. The mesh it was taken of is killed meanwhile.
func TestBackupUnderLoad(t *testing.T) {
	dir := parleytest.Dir(t)
	p := startProcess(t, dir)
	ctx := t.Context()
	_, key := taskAgent(t, p)
	conn := connTo(p.ready.Listen, "agent", key)
	// What is acknowledged by the begin must be there; more comes in all the time.
	enough := make(chan struct{})
	var told map[string]answer
	var calling sync.WaitGroup
	calling.Go(func() { told = load(ctx, conn, "m", 300, func() { close(enough) }) })
	select {
	case <-enough:
	case <-time.After(parleytest.Patience):
		t.Fatal("the load does not come about")
	}
	var archive bytes.Buffer
	began := time.Now()
	if err := p.admin.Backup(ctx, &archive); err != nil {
		t.Error(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // killed, so always an error
	calling.Wait()
	if t.Failed() {
		return
	}
	checkRestored(t, dir, &archive, told, began)
}

func checkRestored(t *testing.T, from string, archive *bytes.Buffer, told map[string]answer, began time.Time) {
	t.Helper()
	dir := filepath.Join(parleytest.Dir(t), "r")
	r, err := app.Restore(t.Context(), archive, dir, filepath.Join(from, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if r.KeyNeeded {
		t.Error("the key was given, and is said to be needed")
	}
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Data = dir }})
	if m.Ready.Mesh != r.Manifest.Mesh {
		t.Errorf("mesh %s, the backup is of %s", m.Ready.Mesh, r.Manifest.Mesh)
	}
	found := map[string]control.Call{}
	for c, err := range control.All(t.Context(), control.List{Limit: 200}, func(ctx context.Context, l control.List) (control.Page[control.Call], error) {
		return m.Admin.Calls(ctx, control.CallFilter{Method: "SendMessage"}, l)
	}) {
		if err != nil {
			t.Fatal(err)
		}
		found[c.MessageID] = c
		if c.Ended == nil || c.Outcome == "" {
			t.Errorf("call %s is half: %+v", c.MessageID, c)
		}
	}
	before, late := 0, 0
	for id, a := range told {
		_, ok := found[id]
		switch {
		case a.at.After(began) && ok:
			late++
		case a.at.Before(began):
			if before++; !ok {
				t.Errorf("%s was acknowledged before the backup began, and is not in it", id)
			}
		}
	}
	if len(told) == before {
		t.Errorf("none of %d calls came in while the backup was taken or after: nothing is shown", len(told))
	}
	t.Logf("%d calls before, %d of %d that came later", before, late, len(told)-before)
}

// TestADamagedBackupIsRefused: each byte of an archive counts.
func TestADamagedBackupIsRefused(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	var archive bytes.Buffer
	if err := m.Admin.Backup(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	if _, err := app.CheckBackup(t.Context(), bytes.NewReader(archive.Bytes())); err != nil {
		t.Fatal(err)
	}
	for _, damage := range map[string]func([]byte) []byte{
		"cut in the middle": func(b []byte) []byte { return b[:len(b)/2] },
		"cut at the end":    func(b []byte) []byte { return b[:len(b)-2048] },
		"one bit":           func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"empty":             func([]byte) []byte { return nil },
		"more behind it":    func(b []byte) []byte { return append(b[:len(b)-1024], b...) },
	} {
		dir := filepath.Join(parleytest.Dir(t), "r")
		raw := damage(bytes.Clone(archive.Bytes()))
		if _, err := app.Restore(t.Context(), bytes.NewReader(raw), dir, ""); err == nil {
			t.Errorf("a damaged backup of %d bytes was restored", len(raw))
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("whoever asked has left"))
	if _, err := app.Restore(ctx, bytes.NewReader(archive.Bytes()), filepath.Join(parleytest.Dir(t), "r"), ""); err == nil {
		t.Error("restored for somebody who has left")
	}
}

// TestLimitsChangeWhileTheMeshRuns: what a Limits document sets is in force for
// the next call, outlives a restart, and goes with it.
func TestLimitsChangeWhileTheMeshRuns(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := parleytest.NewAgent(t, a2a.JSONRPC)
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL})
	key := m.Key("alice", "default")
	apply := func(documents ...string) {
		t.Helper()
		r := control.ApplyRequest{Prune: true}
		for _, d := range documents {
			r.Documents = append(r.Documents, []byte(d))
		}
		if _, err := m.Admin.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	deadline := func() string {
		t.Helper()
		m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("", "x"))
		page, err := m.Admin.Calls(t.Context(), control.CallFilter{}, control.List{Limit: 1})
		if err != nil || len(page.Items) == 0 || page.Items[0].Deadline == nil {
			t.Fatalf("%+v, %v", page, err)
		}
		return page.Items[0].Deadline.Sub(page.Items[0].Begun).String()
	}
	const twelve = `{"apiVersion": "parley/v1", "kind": "Limits", "metadata": {"name": "default"}, "spec": {"call_deadline": "12h"}}`
	got := []string{deadline()}
	apply(twelve)
	got = append(got, deadline())
	m.Restart()
	got = append(got, deadline())
	apply()
	got = append(got, deadline())
	if want := []string{"24h0m0s", "12h0m0s", "12h0m0s", "24h0m0s"}; !slices.Equal(got, want) {
		t.Errorf("deadlines %v, want %v", got, want)
	}
	_, err := m.Admin.Apply(t.Context(), control.ApplyRequest{Documents: []json.RawMessage{[]byte(`{"apiVersion": "parley/v1", "kind": "Limits", "metadata": {"name": "default"}, "spec": {"streams": 1}}`)}})
	if err == nil {
		t.Error("streams below streams_per_principal were taken")
	}
}

// killing is where a backup goes whose mesh is killed once it has begun.
type killing struct {
	arrived bytes.Buffer // no embedding: it would be filled past Write
	kill    func()
}

// Write implements io.Writer.
func (k *killing) Write(b []byte) (int, error) {
	if k.kill != nil {
		k.kill()
		k.kill = nil
	}
	return k.arrived.Write(b)
}

// TestTheMeshIsKilledDuringABackup: what has arrived by then is no backup, and
// is said to be none.
func TestTheMeshIsKilledDuringABackup(t *testing.T) {
	dir := parleytest.Dir(t)
	p := startProcess(t, dir)
	_, key := taskAgent(t, p)
	enough := make(chan struct{})
	var calling sync.WaitGroup
	// It ends with the mesh.
	calling.Go(func() {
		load(t.Context(), connTo(p.ready.Listen, "agent", key), "m", 300, func() { close(enough) })
	})
	defer func() {
		_ = p.cmd.Process.Kill() // has ended already, unless the test failed
		calling.Wait()
	}()
	select {
	case <-enough:
	case <-time.After(parleytest.Patience):
		t.Fatal("the load does not come about")
	}
	to := &killing{kill: func() {
		if err := p.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = p.cmd.Wait() // killed, so always an error
	}}
	err := p.admin.Backup(t.Context(), to)
	if to.kill != nil {
		t.Fatalf("the backup ended with %v before anything arrived", err)
	}
	if err == nil { // all of it was under way already
		if _, err := app.CheckBackup(t.Context(), bytes.NewReader(to.arrived.Bytes())); err != nil {
			t.Errorf("it is said to be whole and is not: %v", err)
		}
		return
	}
	if m, err := app.CheckBackup(t.Context(), bytes.NewReader(to.arrived.Bytes())); err == nil {
		t.Errorf("%d bytes of it pass for the backup %+v", to.arrived.Len(), m)
	}
	if _, err := app.Restore(t.Context(), bytes.NewReader(to.arrived.Bytes()), filepath.Join(parleytest.Dir(t), "r"), filepath.Join(dir, "master.key")); err == nil {
		t.Error("it was restored")
	}
}
