package conformance

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
)

var update = flag.Bool("update", false, "write docs/conformance.md from this run")

// check is the test of a row.
type check func(t *testing.T, w *world)

// checks are the tests of all rows that have one.
func checks(t *testing.T) map[int]check {
	all := map[int]check{}
	for _, part := range []map[int]check{operationChecks, parameterChecks, conversationChecks, dataChecks, securityChecks, bindingChecks, guardChecks, pushChecks} {
		for n, f := range part {
			if all[n] != nil {
				t.Fatalf("row %d has two tests", n)
			}
			all[n] = f
		}
	}
	return all
}

// sides are all the ways the rows are tested.
func sides(t *testing.T) []Side {
	bindings, m := []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC}, &meshes{t: t}
	var all []Side
	for _, caller := range bindings {
		all = append(all, direct(caller))
	}
	for _, caller := range bindings {
		for _, agent := range bindings {
			all = append(all, m.through(caller, agent))
		}
	}
	return all
}

// TestConformance runs every row on every side and then holds the page in docs
// against what came of it.
func TestConformance(t *testing.T) {
	all := checks(t)
	out, left := Outcomes{}, 0
	for _, side := range sides(t) {
		rows := slices.DeleteFunc(Rows(), side.skips)
		left += len(rows)
		t.Run(side.Name, func(t *testing.T) {
			w := &world{side.Open(t, Variant{}), side}
			for _, row := range rows {
				t.Run(row.Name(), func(t *testing.T) {
					left--
					defer func() { out.Note(row.Number, side.column(), !t.Failed() && !t.Skipped()) }()
					all[row.Number](t, w)
				})
			}
		})
	}
	t.Run("page", func(t *testing.T) {
		if left > 0 {
			t.Skipf("%d rows were left out; run the whole test to check the page", left)
		}
		checkPage(t, out)
	})
}

func (s Side) column() Column {
	if strings.HasPrefix(s.Name, "through") {
		return Through
	}
	return Direct
}

// through tells whether a mesh stands between.
func (w *world) through() bool { return w.side.column() == Through }

// skips tells whether a row is not tested on this side.
func (s Side) skips(r Row) bool {
	reason := r.Direct
	if s.column() == Through {
		reason = r.Through
	}
	return reason != "" || rpcOnly[r.Number] && s.Caller != a2a.JSONRPC || restOnly[r.Number] && s.Caller != a2a.HTTPJSON ||
		grpcOnly[r.Number] && s.Caller != a2a.GRPC
}

// page is where the page is, from this directory.
const page = "../../docs/conformance.md"

func checkPage(t *testing.T, out Outcomes) {
	want := Page(Rows(), out)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/conformance.md does not say what this run showed: see which rows failed above, or run make generate")
	}
}

// TestRows checks the table itself: every row is there once, and has either a
// test or a reason for having none.
func TestRows(t *testing.T) {
	all := checks(t)
	rows := Rows()
	if len(rows) != 131 {
		t.Errorf("%d rows, want 131", len(rows))
	}
	for i, r := range rows {
		if r.Number != i+1 {
			t.Errorf("row %d stands at place %d", r.Number, i+1)
		}
		tested := r.Direct == "" || r.Through == ""
		if tested != (r.Test != "") || tested != (all[r.Number] != nil) {
			t.Errorf("row %d: test %q, direct %q, through %q: a row has a test, or a reason on both sides", r.Number, r.Test, r.Direct, r.Through)
		}
		for _, reason := range []string{r.Direct, r.Through} {
			if reason != "" && !strings.HasPrefix(reason, "open: ") && !strings.HasPrefix(reason, "not applicable: ") {
				t.Errorf("row %d: the reason %q must begin with open: or not applicable:", r.Number, reason)
			}
		}
	}
}

func mustJSON(t *testing.T, raw []byte) obj {
	t.Helper()
	var o obj
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return o
}
