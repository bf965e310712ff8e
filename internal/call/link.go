package call

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/parley-mesh/parley/internal/parley"
)

// MaxCandidates is how many candidate parents a record names. Above it only
// their number is kept.
const MaxCandidates = 16

// LinkKind says how sure the mesh is of a call's parent.
type LinkKind string

// The kinds of link.
const (
	LinkRoot      LinkKind = "root"      // no candidate: a new root
	LinkParent    LinkKind = "parent"    // exactly one candidate, or one picked
	LinkAmbiguous LinkKind = "ambiguous" // several candidates and none picked
	LinkTurn      LinkKind = "turn"      // a further turn of a task: beside the call that began it
)

// Link places a call inside another.
type Link struct {
	Kind       LinkKind
	Parent     parley.CallID // set for LinkParent, and for LinkTurn where the first turn has one
	Depth      int           // 0 for a root; the smallest of the candidates' plus one if ambiguous
	Candidates []parley.CallID
	Count      int // how many candidates there were, above MaxCandidates too
}

// Candidate is one open call whose callee is the caller of the new call.
type Candidate struct {
	ID        parley.CallID
	Root      parley.CallID
	Depth     int
	TaskID    string
	ContextID string
	SpanID    string
}

// Hints pick among candidates; they never add one.
type Hints struct {
	ParentSpan       string   // span id of the incoming traceparent
	ContextID        string   // contextId of the incoming message
	ReferenceTaskIDs []string // of the incoming message
}

// Place decides whose inside a call is. The candidates are the open calls
// whose callee is this call's caller; fresh is the new call's own id. It gives
// the link and the root of the chain. Source: design, life of a call, step 2.
func Place(fresh parley.CallID, candidates []Candidate, h Hints) (Link, parley.CallID) {
	switch len(candidates) {
	case 0:
		return Link{Kind: LinkRoot}, fresh
	case 1:
		return inside(candidates[0], candidates), candidates[0].Root
	}
	if c, ok := pick(candidates, h); ok {
		return inside(c, candidates), c.Root
	}
	link := Link{Kind: LinkAmbiguous, Depth: candidates[0].Depth, Count: len(candidates)}
	for i, c := range candidates {
		link.Depth = min(link.Depth, c.Depth)
		if i < MaxCandidates {
			link.Candidates = append(link.Candidates, c.ID)
		}
	}
	link.Depth++
	return link, fresh
}

// Turn places a further turn of a task that first began, where nothing else
// says whose inside it is: under the same root, beside the first turn.
func Turn(first *Record) (Link, parley.CallID) {
	return Link{Kind: LinkTurn, Parent: first.Link.Parent, Depth: first.Link.Depth}, first.Root
}

func inside(parent Candidate, all []Candidate) Link {
	return Link{
		Kind: LinkParent, Parent: parent.ID, Depth: parent.Depth + 1,
		Candidates: []parley.CallID{parent.ID}, Count: len(all),
	}
}

// pick tries the hints from the most to the least exact. A hint counts only
// where it names exactly one candidate.
func pick(candidates []Candidate, h Hints) (Candidate, bool) {
	hints := []func(Candidate) bool{
		func(c Candidate) bool { return h.ParentSpan != "" && c.SpanID == h.ParentSpan },
		func(c Candidate) bool {
			for _, id := range h.ReferenceTaskIDs {
				if id != "" && c.TaskID == id {
					return true
				}
			}
			return false
		},
		func(c Candidate) bool { return h.ContextID != "" && c.ContextID == h.ContextID },
	}
	for _, names := range hints {
		var found []Candidate
		for _, c := range candidates {
			if names(c) {
				found = append(found, c)
			}
		}
		if len(found) == 1 {
			return found[0], true
		}
	}
	return Candidate{}, false
}

// linkJSON is a link as it is stored.
type linkJSON struct {
	Candidates []string `json:"candidates,omitempty"`
	Count      int      `json:"count,omitempty"`
}

// EncodeCandidates gives the candidates as compact JSON for storage; empty
// where there are none.
func (l Link) EncodeCandidates() string {
	if l.Count == 0 {
		return ""
	}
	stored := linkJSON{Count: l.Count}
	for _, id := range l.Candidates {
		stored.Candidates = append(stored.Candidates, hex.EncodeToString(id[:]))
	}
	b, err := json.Marshal(stored)
	if err != nil { // strings and an int always encode
		panic(err)
	}
	return string(b)
}

// DecodeCandidates reads what EncodeCandidates wrote.
func (l *Link) DecodeCandidates(s string) error {
	if s == "" {
		return nil
	}
	var stored linkJSON
	if err := json.Unmarshal([]byte(s), &stored); err != nil {
		return fmt.Errorf("candidates: %w", err)
	}
	l.Count = stored.Count
	for _, c := range stored.Candidates {
		var id parley.CallID
		if n, err := hex.Decode(id[:], []byte(c)); err != nil || n != len(id) {
			return fmt.Errorf("candidate %q is not a call id", c)
		}
		l.Candidates = append(l.Candidates, id)
	}
	return nil
}
