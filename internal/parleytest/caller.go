package parleytest

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/parley"
)

// Caller calls one agent through the mesh.
type Caller struct {
	*a2a.Conn
	mesh *Mesh
}

// URL is where callers reach an agent, with a trailing slash.
func (m *Mesh) URL(agent parley.AgentName) string {
	return m.Ready.Listen + gateway.Prefix + string(agent) + "/"
}

// Caller makes a client of an agent behind the mesh. key is the text of an API
// key; empty for none.
func (m *Mesh) Caller(agent parley.AgentName, binding a2a.Binding, key string) *Caller {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	endpoint := a2a.Endpoint{URL: m.URL(agent), Binding: binding, Version: a2a.V10}
	if binding == a2a.GRPC {
		endpoint.URL, endpoint.Tenant = "http://"+m.Ready.GRPCListen, gateway.TenantPrefix+string(agent)
	}
	return &Caller{mesh: m, Conn: &a2a.Conn{
		Client: &a2a.Client{Transport: m.http, GRPC: &a2agrpc.Client{Pool: m.grpc}}, Header: header, Endpoint: endpoint,
	}}
}

// With gives the same caller with one more header.
func (c *Caller) With(name, value string) *Caller {
	conn := *c.Conn
	conn.Header = c.Header.Clone()
	conn.Header.Set(name, value)
	return &Caller{&conn, c.mesh}
}

// Do makes one call and gives the answer with the mesh's id of the call. That
// there was no answer at all fails the test.
func (c *Caller) Do(ctx context.Context, m a2a.Method, params any) (*a2a.Reply, string) {
	c.mesh.t.Helper()
	q, err := a2a.NewRequest(m, params)
	if err != nil {
		c.mesh.t.Fatalf("%s: %v", m, err)
	}
	reply, err := c.Client.Do(ctx, c.Endpoint, q, c.Header)
	if err != nil {
		c.mesh.t.Fatalf("%s: %v\n%s", m, err, c.mesh.log)
	}
	return reply, reply.Received.Get(gateway.HeaderCallID)
}

// Message is a request that sends a text under a message id; without one, under
// an id of its own.
func Message(id, text string) a2a.SendMessageRequest {
	if id == "" {
		id = uuid.NewString()
	}
	return a2a.SendMessageRequest{Message: a2a.Message{MessageID: id, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart(text)}}}
}

// Call gives the record of a call.
func (m *Mesh) Call(id string) control.Call {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	c, err := m.Admin.Call(ctx, id)
	if err != nil {
		m.t.Fatalf("read call %q: %v", id, err)
	}
	return c
}

// Calls gives the records that match, newest first, 200 at most.
func (m *Mesh) Calls(f control.CallFilter) []control.Call {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	page, err := m.Admin.Calls(ctx, f, control.List{Limit: 200})
	if err != nil {
		m.t.Fatalf("list calls: %v", err)
	}
	return page.Items
}

// errSeen ends the reading of the feed.
var errSeen = errors.New("seen")

// EndOf waits until a call has ended and gives its record. A stream's call ends
// a moment after its caller has read the last frame.
func (m *Mesh) EndOf(id string) control.Call {
	m.t.Helper()
	if c := m.Call(id); Ended(c) {
		return c
	}
	return m.WaitCall(control.CallFilter{}, func(c control.Call) bool { return c.ID == id && Ended(c) })
}

// WaitCall waits until a record that matches the filter also satisfies ok, and
// gives it. It looks at every event, so that nothing is polled.
func (m *Mesh) WaitCall(f control.CallFilter, ok func(control.Call) bool) (found control.Call) {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	err := m.Admin.FollowEvents(ctx, 0, func(control.Event) error {
		page, err := m.Admin.Calls(ctx, f, control.List{Limit: 200})
		if err != nil {
			return err
		}
		for _, c := range page.Items {
			if ok(c) {
				found = c
				return errSeen
			}
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		m.t.Fatalf("no call came to be as expected (%v); there are %+v\n%s", err, m.Calls(f), m.log)
	}
	return found
}

// Ended reports whether a call has ended; for WaitCall.
func Ended(c control.Call) bool { return c.Ended != nil }
