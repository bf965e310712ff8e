package cli

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"unicode"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
)

// Names of the edge that a caller needs.
const (
	edgePrefix      = "/agents/"
	headerCallID    = "Parley-Call-Id"
	headerReference = "Parley-Reference"
)

// edge is an A2A client of one agent, at the mesh.
type edge struct {
	a2a.Conn
	agent string
	ids   *callIDs
}

// edge makes an A2A client of an agent. reference is the caller's own name for
// what the calls are about; empty for none.
func (p *program) edge(agent, reference string) (*edge, error) {
	if err := parley.CheckName("agent", agent); err != nil {
		return nil, parley.E("cli.edge", parley.Invalid, parley.Subject(agent), err.Error(), nil)
	}
	if strings.ContainsFunc(reference, unicode.IsControl) {
		return nil, usagef("--reference has control characters in it: write it in one line")
	}
	m, err := p.mesh()
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if m.key != "" {
		header.Set("Authorization", "Bearer "+m.key)
	}
	if reference != "" {
		header.Set(headerReference, reference)
	}
	ids := &callIDs{next: patient{p, meshOnly{m.name(), m.http}, agent}}
	return &edge{
		agent: agent, ids: ids,
		Conn: a2a.Conn{
			Client:   &a2a.Client{Transport: ids},
			Endpoint: a2a.Endpoint{URL: m.base + edgePrefix + agent + "/", Binding: a2a.JSONRPC, Version: a2a.V10},
			Header:   header,
		},
	}, nil
}

// meshOnly is a transport that refuses what is no answer of a mesh: one that
// knows nothing of A2A. The mesh says in its own words what is wrong, also with
// an agent's answer.
type meshOnly struct {
	name string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o meshOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get(headerCallID) != "" ||
		strings.Contains(resp.Header.Get("Content-Type"), "json") {
		return resp, err
	}
	return nil, connectError{parley.E("cli.edge", parley.Unavailable, parley.Subject(o.name),
		fmt.Sprintf("what answers at %s is not a Parley mesh: it said %s", o.name, resp.Status), resp.Body.Close())}
}

// callIDs notes which call an answer belongs to.
type callIDs struct {
	next http.RoundTripper

	mu   sync.Mutex
	last string
}

// RoundTrip implements http.RoundTripper.
func (c *callIDs) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = resp.Header.Get(headerCallID)
	}
	return resp, err
}

// call is the id of the newest call; empty where none was made or told.
func (e *edge) call() string {
	e.ids.mu.Lock()
	defer e.ids.mu.Unlock()
	return e.ids.last
}
