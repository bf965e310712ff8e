package parleytest

import (
	"context"
	"net/url"
	"strings"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

// ctx bounds one request of the test itself.
func (m *Mesh) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience)
}

// Owner makes an owner.
func (m *Mesh) Owner(name parley.OwnerName) {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	if _, err := m.Admin.CreateOwner(ctx, control.NewOwner{Name: name}); err != nil {
		m.t.Fatalf("make owner %s: %v", name, err)
	}
}

// Key makes a principal of an existing owner (empty: the default one) and gives
// the text of a key of its.
func (m *Mesh) Key(name parley.PrincipalName, owner parley.OwnerName, roles ...parley.Role) string {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	if _, err := m.Admin.CreatePrincipal(ctx, control.NewPrincipal{Name: name, Owner: owner, Roles: roles}); err != nil {
		m.t.Fatalf("make principal %s: %v", name, err)
	}
	return m.NewKey(control.NewKey{Principal: name}).Text
}

// AgentKey makes a key with which an agent calls others.
func (m *Mesh) AgentKey(agent parley.AgentName) string {
	m.t.Helper()
	return m.NewKey(control.NewKey{Agent: agent}).Text
}

// NewKey makes a key.
func (m *Mesh) NewKey(n control.NewKey) control.CreatedKey {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	key, err := m.Admin.CreateKey(ctx, n)
	if err != nil {
		m.t.Fatalf("make a key: %v", err)
	}
	return key
}

// Add registers an agent, which must turn out to be active.
func (m *Mesh) Add(n control.NewAgent) control.Agent {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	seen, err := m.Admin.AddAgent(ctx, n)
	if err != nil {
		m.t.Fatalf("add agent %s: %v; %+v", n.Name, err, seen.Report)
	}
	if seen.Agent.Status != "active" {
		m.t.Fatalf("agent %s is %s: %s; %+v", n.Name, seen.Agent.Status, seen.Agent.Reason, seen.Report)
	}
	return *seen.Agent
}

// hostOf is host:port of an address that the mesh itself printed.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return strings.TrimPrefix(address, "http://")
	}
	return u.Host
}
