package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/manifest"
)

// Action is what a plan does with one thing.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Remove Action = "remove"
)

// Plan is every difference between documents and the mesh, in the order in
// which it is made.
type Plan struct {
	Set     string   `json:"set" doc:"The name of the set of documents."`
	Changes []Change `json:"changes" nullable:"false" doc:"What differs, in the order in which it is made."`
	// Unchanged is how many documents are as declared already.
	Unchanged int `json:"unchanged" doc:"Documents that are as declared already."`
	// Orphans are things that the set created and declares no more, which stay.
	Orphans []Orphan `json:"orphans" nullable:"false" doc:"What the set created and declares no more, and that stays."`
	Applied bool     `json:"applied" doc:"Whether the plan was carried out; a plan without changes needs it not."`
}

// Change is what a plan does with one thing.
type Change struct {
	Action Action        `json:"action" enum:"create,update,remove"`
	Kind   manifest.Kind `json:"kind"`
	Name   string        `json:"name"`
	Fields []FieldChange `json:"fields,omitempty" doc:"What differs; secrets are only said to be set."`
	Notes  []string      `json:"notes,omitempty" doc:"What to know of it, such as what a look at an agent found."`
}

// FieldChange is one difference. An empty text is a member that is not there.
type FieldChange struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Orphan is a thing that stays although it is declared no more.
type Orphan struct {
	Kind manifest.Kind `json:"kind"`
	Name string        `json:"name"`
	Why  string        `json:"why"`
}

// What is shown of secrets.
const (
	secretSet   = "(set)"
	secretAnew  = "(set anew)"
	secretThere = "(set before)"
)

// fields collects differences.
type fields []FieldChange

func (f *fields) add(path, before, after string) {
	if before != after {
		*f = append(*f, FieldChange{path, before, after})
	}
}

// addSecret tells whether a secret comes, goes or changes, and nothing of it.
func (f *fields) addSecret(path, before, after string) {
	switch {
	case before == after:
	case before == "":
		f.add(path, "", secretSet)
	case after == "":
		f.add(path, secretThere, "")
	default:
		f.add(path, secretThere, secretAnew)
	}
}

// names is a list of names as a plan shows it.
func names[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = string(n)
	}
	return strings.Join(texts, ", ")
}

// sameNames reports whether two lists hold the same names in any order.
func sameNames[T ~string](a, b []T) bool {
	return slices.Equal(sorted(a), sorted(b))
}

func sorted[T cmp.Ordered](list []T) []T {
	all := slices.Clone(list)
	slices.Sort(all)
	return slices.Compact(all)
}

// Summary is the plan's changes in one line: what is to be done, or what was.
func (p *Plan) Summary() string {
	counts := map[Action]int{}
	for _, c := range p.Changes {
		counts[c.Action]++
	}
	if p.Applied {
		return fmt.Sprintf("%d created, %d changed, %d removed, %d as declared before", counts[Create], counts[Update], counts[Remove], p.Unchanged)
	}
	return fmt.Sprintf("%d to create, %d to change, %d to remove, %d as declared", counts[Create], counts[Update], counts[Remove], p.Unchanged)
}
