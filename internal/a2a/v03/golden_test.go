package v03_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a/v03"
)

// document is one document in its three forms, or what becomes of one that does not
// return as it was.
type document struct {
	Name string          `json:"name"`
	As   string          `json:"as"` // the name in translations
	V1   json.RawMessage `json:"v1"`
	RPC  json.RawMessage `json:"rpc,omitempty"`
	// Proto is absent where the document has no form of its own there.
	Proto json.RawMessage `json:"proto,omitempty"`
	// Reads are other forms in which V1 is read: what stands under the dialect's name
	// comes back as above.
	Reads map[v03.Dialect][]json.RawMessage `json:"reads,omitempty"`
}

// TestGolden holds the translation of each kind of document, in both directions and
// dialects, to testdata/documents.json, and what docs/versions.md lists as not the
// same after the way there and back.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "documents.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []document
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range rows {
		row := &rows[i]
		seen[row.As] = true
		tr, ok := translations()[row.As]
		if !ok {
			t.Errorf("%s: there is no translation %q", row.Name, row.As)
			continue
		}
		for _, d := range tr.dialects {
			form := &row.RPC
			if d == v03.Proto {
				form = &row.Proto
			}
			got, err := tr.from(d, row.V1)
			if err != nil {
				t.Errorf("%s: to %s: %v", row.Name, d, err)
				continue
			}
			if len(got) == 0 {
				got = []byte("null")
			}
			if *update {
				*form = got
			}
			if len(*form) == 0 || !same(t, got, *form) {
				t.Errorf("%s: to %s\ngot  %s\nwant %s", row.Name, d, got, *form)
			}
			for _, old := range append([]json.RawMessage{*form}, row.Reads[d]...) {
				if back, err := tr.to(d, old); err != nil || !same(t, back, row.V1) {
					t.Errorf("%s: from %s %s: %v\ngot  %s\nwant %s", row.Name, d, old, err, back, row.V1)
				}
			}
		}
	}
	for name := range translations() {
		if !seen[name] {
			t.Errorf("there is no document for %q", name)
		}
	}
	if *update && !t.Failed() {
		write(t, path, rows)
	}
}

func write(t *testing.T, path string, rows []document) {
	t.Helper()
	raw, err := json.MarshalIndent(rows, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
