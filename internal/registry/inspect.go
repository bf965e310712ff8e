package registry

import (
	"context"

	"github.com/parley-mesh/parley/internal/parley"
)

// Inspector looks at an agent from outside: it fetches and validates its card
// and finds out which binding really answers, without executing anything.
type Inspector interface {
	// Inspect gives what it found. The error is a *parley.Error where the agent
	// cannot be registered as it is; then the Inspection, if not nil, still
	// tells what was tried and what is wrong. Canceling ctx ends it soon.
	Inspect(ctx context.Context, req InspectRequest) (*Inspection, error)
}

// InspectRequest says what to look at.
type InspectRequest struct {
	// Agent is the name used in advice; empty if there is none yet.
	Agent parley.AgentName
	// URL is a card's address, a base address or a bare host.
	URL string
	// Exact asks for the card at URL only, as a refresh does: elsewhere on the
	// same host another agent may live.
	Exact bool
	// ETag and Card are the stored card and its validator: if it still holds,
	// Card is inspected again.
	ETag string
	Card []byte
	// Credential is sent to its origin only; nil for none.
	Credential *Credential
	// Pins are keys that are known to speak for the agent.
	Pins []Pin
}

// Inspection is what was found of one agent at one moment.
type Inspection struct {
	CardURL string // where the card was found; empty if nowhere
	Card    []byte // raw bytes
	Hash    string // SHA-256 of Card, hex
	ETag    string

	Title        string
	Description  string
	AgentVersion string
	Interfaces   []Interface // all of the card, in its order
	Use          int         // index of the first proven interface; -1 if none is

	Signature CardSignature // without At

	Tried    []Attempt
	Problems []Problem
}

// Report is what an inspection tells a person.
type Report struct {
	CardURL    string        `json:"cardUrl,omitempty"`
	Tried      []Attempt     `json:"tried"`
	Problems   []Problem     `json:"problems"`
	Interfaces []Interface   `json:"interfaces"`
	Chosen     int           `json:"chosen"` // index in Interfaces; -1 if none is proven
	Signature  CardSignature `json:"signature,omitzero"`
	Card       []byte        `json:"-"` // raw bytes; nil if none was found
}

// Attempt is one address that was tried and what answered there.
type Attempt struct {
	URL    string `json:"url"`
	Result string `json:"result"`
}

// Level says how much a problem matters.
type Level string

// The levels.
const (
	Refusal Level = "error"   // the agent cannot be registered so
	Warning Level = "warning" // registered, but somebody should look
	Note    Level = "note"    // good to know, such as which credential it wants
)

// Problem is one thing about a card or an address: where, what, and what to do.
type Problem struct {
	Level   Level  `json:"level"`
	Path    string `json:"path,omitempty"` // into the card, as supportedInterfaces[0].url; empty for none
	Problem string `json:"problem"`
	Fix     string `json:"fix,omitempty"`
}

// String is the problem in one line.
func (p Problem) String() string {
	s := p.Problem
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Fix != "" {
		s += " (" + p.Fix + ")"
	}
	return s
}

// report gives what i tells a person; nil for nil.
func (i *Inspection) report() *Report {
	if i == nil {
		return nil
	}
	return &Report{
		CardURL: i.CardURL, Tried: i.Tried, Problems: i.Problems,
		Interfaces: i.Interfaces, Chosen: i.Use, Signature: i.Signature, Card: i.Card,
	}
}

// warnings are the problems that stay with the agent.
func (i *Inspection) warnings() []string {
	var all []string
	for _, p := range i.Problems {
		if p.Level == Warning {
			all = append(all, p.String())
		}
	}
	return all
}
