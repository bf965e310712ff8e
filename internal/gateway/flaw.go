package gateway

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// maxFlawPath bounds how much of a path an agent's answer puts into a record,
// in bytes.
const maxFlawPath = 200

// flaw says what makes an answer not the protocol, for the call's record: the
// place and the rule it breaks, and nothing of what the agent wrote there. It
// is empty where no more is known.
func flaw(err error) string {
	if errors.Is(err, a2a.ErrWrongID) {
		return "it carries another request's id"
	}
	e, ok := errors.AsType[*jsonwire.Error](err)
	if !ok {
		return ""
	}
	problem := e.Problem
	if e.Kind == jsonwire.KindSyntax { // what follows quotes the document
		problem, _, _ = strings.Cut(problem, ":")
	}
	if path := flawPath(e.Path); path != "" {
		return path + " " + problem
	}
	if e.Offset > 0 {
		return fmt.Sprintf("%s (byte %d)", problem, e.Offset)
	}
	return problem
}

// flawPath is the part of a path that the protocol names: what lies below a
// free-form member is the agent's own.
func flawPath(path string) string {
	for _, free := range []string{"/metadata/", "/data/", "/details/"} {
		if i := strings.Index(path, free); i >= 0 {
			path = path[:i+len(free)-1]
		}
	}
	if len(path) > maxFlawPath || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return path
}
