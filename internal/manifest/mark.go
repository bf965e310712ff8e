package manifest

import "time"

// DefaultSet is the set of documents that were applied without a name.
const DefaultSet = "default"

// Mark says that a set of documents has created a thing. It holds for the thing
// that was made at MadeAt, and not for one that has its name later.
type Mark struct {
	Kind   Kind
	Name   string
	Set    string
	MadeAt time.Time
}
