package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
)

// Apply implements control.Applier: every document is as declared already.
func (m *mesh) Apply(_ context.Context, req apply.Request) (*apply.Plan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = req
	return &apply.Plan{Set: req.Set, Changes: []apply.Change{}, Orphans: []apply.Orphan{}, Unchanged: len(req.Documents)}, nil
}

// PrepareBackup implements control.Backups: an archive that breaks off where
// the mesh is told so.
func (m *mesh) PrepareBackup(context.Context) (func(context.Context, io.Writer) error, func() error, error) {
	write := func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "an archive")
		if m.broken.Load() {
			err = errors.New("the disk fails")
		}
		return err
	}
	discard := func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.discarded++
		return nil
	}
	return write, discard, nil
}

func TestDocumentsAndTheirSecretsArrive(t *testing.T) {
	m := newMesh(t)
	c := m.client(t, m.admin)
	credential := json.RawMessage(`{"apiVersion":"parley/v1","kind":"Credential","metadata":{"name":"a"},"spec":{"kind":"bearer","secretRef":{"env":"T"}}}`)
	owner := json.RawMessage(`{"apiVersion":"parley/v1","kind":"Owner","metadata":{"name":"o"}}`)
	p, err := c.Apply(t.Context(), control.ApplyRequest{
		Set: "s", Prune: true, DryRun: true, Documents: []json.RawMessage{owner, credential}, Secrets: []control.DocumentSecret{{Document: 1, Secret: "hunter2"}},
	})
	if err != nil || p.Unchanged != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	r := m.applied
	if r.Set != "s" || !r.Prune || !r.DryRun || r.Documents[0].Name != "o" || r.Documents[1].Secret != "hunter2" || r.Documents[1].Kind != manifest.KindCredential {
		t.Errorf("arrived: %+v", r)
	}
	for name, bad := range map[string]control.ApplyRequest{
		"/documents/0/spec":     {Documents: []json.RawMessage{[]byte(`{"apiVersion":"parley/v1","kind":"Agent","metadata":{"name":"a"},"spec":{"token":"hunter2"}}`)}},
		"/secrets/0/document":   {Documents: []json.RawMessage{owner}, Secrets: []control.DocumentSecret{{Document: 0, Secret: "hunter2"}}},
		"/secrets/1/document":   {Documents: []json.RawMessage{credential}, Secrets: []control.DocumentSecret{{Document: 0, Secret: "a"}, {Document: 7, Secret: "hunter2"}}},
		"/documents/1/metadata": {Documents: []json.RawMessage{owner, []byte(`{"apiVersion":"parley/v1","kind":"Owner","metadata":{"name":7}}`)}},
	} {
		_, err := c.Apply(t.Context(), bad)
		if parley.KindOf(err) != parley.Invalid || err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if strings.Contains(m.log.String(), "hunter2") {
		t.Error("a secret is in the log")
	}
}

func TestLargeSetsOfDocumentsAreTaken(t *testing.T) {
	m := newMesh(t)
	one := json.RawMessage(`{"apiVersion":"parley/v1","kind":"Owner","metadata":{"name":"o"},"spec":{"description":"` + strings.Repeat("x", 900) + `"}}`)
	r := control.ApplyRequest{}
	for range manifest.MaxDocuments {
		r.Documents = append(r.Documents, one)
	}
	if p, err := m.client(t, m.admin).Apply(t.Context(), r); err != nil || p.Unchanged != manifest.MaxDocuments {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestSchemasAreServedToAnybody(t *testing.T) {
	m := newMesh(t)
	for _, kind := range manifest.Kinds {
		got := m.ask(t, "", "GET", "/api/v1/schemas/"+strings.ToLower(string(kind)), "")
		if got.status != 200 || got.body != string(manifest.Schema(kind)) {
			t.Errorf("%s: %d %.80s", kind, got.status, got.body)
		}
	}
	if got := m.ask(t, "", "GET", "/api/v1/schemas/agnet", ""); got.status != 404 || !strings.Contains(got.body, "Agent") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestABackupThatBreaksOffIsAnError(t *testing.T) {
	m := newMesh(t)
	c := m.client(t, m.admin)
	var whole bytes.Buffer
	if err := c.Backup(t.Context(), &whole); err != nil || whole.String() != "an archive" {
		t.Errorf("%q, %v", whole.String(), err)
	}
	m.broken.Store(true)
	if err := c.Backup(t.Context(), io.Discard); parley.KindOf(err) != parley.Unavailable || err == nil {
		t.Errorf("error %v, want one that says so", err)
	}
	m.broken.Store(false)
	if err := c.Backup(t.Context(), io.Discard); err != nil { // the place is free again
		t.Error(err)
	}
	m.mu.Lock()
	if m.discarded != 3 {
		t.Errorf("%d of 3 copies were taken away", m.discarded)
	}
	m.mu.Unlock()
	if err := m.client(t, m.operator).Backup(t.Context(), io.Discard); parley.KindOf(err) != parley.Denied {
		t.Errorf("an operator took a backup: %v", err)
	}
}
