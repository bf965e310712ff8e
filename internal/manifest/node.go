package manifest

import (
	"fmt"
)

// Limits of what is read.
const (
	// MaxFile is the largest file, in bytes. What the YAML parser needs grows
	// faster than a hostile file does.
	MaxFile = 256 << 10
	// MaxDocuments is how many documents one plan may have.
	MaxDocuments = 2000
	// maxDepth is how deep values may be nested; the specs need four levels.
	maxDepth = 16
	// maxValues is how many values one file may have.
	maxValues = 100_000
	// maxProblems is how many problems are told of one file.
	maxProblems = 100
)

// shape is what a value is, whichever syntax wrote it.
type shape uint8

const (
	null shape = iota
	text
	number
	boolean
	list
	object
)

// String names the shape in a message.
func (s shape) String() string {
	return [...]string{"empty", "text", "a number", "true or false", "a list", "a mapping"}[s]
}

// node is one value of a document and where it stands. YAML and JSON become
// the same tree, so that there is one decoder behind both.
type node struct {
	shape   shape
	text    string // of text, number and boolean, as written
	at      Position
	members []member
	items   []*node
}

// member is one name of an object.
type member struct {
	name  string
	at    Position
	value *node
}

// reader counts what one file holds and collects what is wrong with it.
type reader struct {
	file     string
	values   int
	problems []Problem
	full     bool // problems were left out
}

func (r *reader) fail(at Position, pointer, fix, format string, args ...any) {
	if len(r.problems) >= maxProblems {
		r.full = true
		return
	}
	r.problems = append(r.problems, Problem{At: at, Pointer: pointer, Problem: fmt.Sprintf(format, args...), Fix: fix})
}

// admit counts one more value at a depth; false where it is one too many,
// which ends the reading of the file.
func (r *reader) admit(at Position, depth int) bool {
	r.values++
	switch {
	case depth > maxDepth:
		r.fail(at, "", "", "nested deeper than %d levels", maxDepth)
	case r.values == maxValues+1:
		r.fail(at, "", "split the file", "more than %d values in one file", maxValues)
	case r.values > maxValues:
	default:
		return true
	}
	return false
}
