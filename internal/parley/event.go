package parley

import "time"

// Event is one change of state, committed in the same transaction as the
// state it tells of. Domains make events; the store numbers them.
type Event struct {
	// Seq is the event's place in the mesh's one feed; 0 until the store has
	// given it. Readers may rely on it growing, not on it being contiguous.
	Seq int64
	// Subject is what changed, as kind/name ("agents/echo", "calls/ID").
	Subject string
	// SubjectSeq counts the events of one subject from 1 without gaps.
	SubjectSeq int64
	// Type is kind.verb in the past tense ("agent.added").
	Type        string
	Time        time.Time
	Owner       OwnerName
	Environment Environment
	// Data is one JSON object; it never holds payloads or secrets.
	Data []byte
}
