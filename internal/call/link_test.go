package call

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/parley"
)

func id(n byte) parley.CallID { return parley.CallID{15: n} }

func TestPlace(t *testing.T) {
	a := Candidate{ID: id(1), Root: id(9), Depth: 2, TaskID: "t1", ContextID: "c", SpanID: "s1"}
	b := Candidate{ID: id(2), Root: id(2), Depth: 0, TaskID: "t2", ContextID: "c", SpanID: "s2"}
	for _, tc := range []struct {
		name       string
		candidates []Candidate
		hints      Hints
		want       Link
		root       parley.CallID
	}{
		{"no candidate", nil, Hints{ParentSpan: "s1"}, Link{Kind: LinkRoot}, id(7)},
		{"one candidate needs no hint", []Candidate{a}, Hints{}, Link{Kind: LinkParent, Parent: id(1), Depth: 3, Candidates: []parley.CallID{id(1)}, Count: 1}, id(9)},
		{"a wrong hint does not lose the only candidate", []Candidate{a}, Hints{ParentSpan: "zz"}, Link{Kind: LinkParent, Parent: id(1), Depth: 3, Candidates: []parley.CallID{id(1)}, Count: 1}, id(9)},
		{"span picks", []Candidate{a, b}, Hints{ParentSpan: "s2"}, Link{Kind: LinkParent, Parent: id(2), Depth: 1, Candidates: []parley.CallID{id(2)}, Count: 2}, id(2)},
		{"reference picks", []Candidate{a, b}, Hints{ReferenceTaskIDs: []string{"x", "t1"}}, Link{Kind: LinkParent, Parent: id(1), Depth: 3, Candidates: []parley.CallID{id(1)}, Count: 2}, id(9)},
		{"a shared context picks nobody", []Candidate{a, b}, Hints{ContextID: "c"}, Link{Kind: LinkAmbiguous, Depth: 1, Candidates: []parley.CallID{id(1), id(2)}, Count: 2}, id(7)},
		{"a hint adds nobody", []Candidate{a, b}, Hints{ParentSpan: "forged"}, Link{Kind: LinkAmbiguous, Depth: 1, Candidates: []parley.CallID{id(1), id(2)}, Count: 2}, id(7)},
	} {
		link, root := Place(id(7), tc.candidates, tc.hints)
		if diff := cmp.Diff(tc.want, link); diff != "" || root != tc.root {
			t.Errorf("%s: root %v, link (-want +got):\n%s", tc.name, root, diff)
		}
	}
}

func TestManyCandidatesAreCounted(t *testing.T) {
	var many []Candidate
	for i := range 40 {
		many = append(many, Candidate{ID: id(byte(i)), Depth: 40 - i})
	}
	link, _ := Place(id(99), many, Hints{})
	if len(link.Candidates) != MaxCandidates || link.Count != 40 || link.Depth != 2 {
		t.Errorf("got %d named, count %d, depth %d; want 16, 40, 2", len(link.Candidates), link.Count, link.Depth)
	}
	var back Link
	if err := back.DecodeCandidates(link.EncodeCandidates()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(link.Candidates, back.Candidates); diff != "" || back.Count != link.Count {
		t.Errorf("stored link differs (-want +got):\n%s", diff)
	}
}
