package control

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// AgentFilter selects agents; the zero value selects all.
type AgentFilter struct {
	Owner       parley.OwnerName
	SeenBefore  time.Time // no look has gone well since then
	Unused      bool      // nobody has called them, since UnusedSince or ever
	UnusedSince time.Time
}

// Agents lists agents by name; owner empty means all.
func (c *Client) Agents(ctx context.Context, owner parley.OwnerName, l List) (out Page[Agent], err error) {
	return c.FindAgents(ctx, AgentFilter{Owner: owner}, l)
}

// FindAgents lists the agents that match, by name.
func (c *Client) FindAgents(ctx context.Context, f AgentFilter, l List) (out Page[Agent], err error) {
	q := l.values()
	setText(q, "owner", f.Owner)
	setTime(q, "seenBefore", f.SeenBefore)
	if f.Unused {
		q.Set("unused", "true")
		setTime(q, "unusedSince", f.UnusedSince)
	}
	err = c.do(ctx, request{op: "control.agents", method: http.MethodGet, path: "/agents", query: q}, &out)
	return out, err
}

// AddAgent has the mesh look at an agent and register it. Where the look is
// what failed, the answer holds its report beside the error.
func (c *Client) AddAgent(ctx context.Context, n NewAgent) (out LookedAt, err error) {
	err = c.do(ctx, request{op: "control.addAgent", method: http.MethodPost, path: "/agents", body: n}, &out)
	return out, err
}

// Agent gives one agent with its card.
func (c *Client) Agent(ctx context.Context, name parley.AgentName) (out AgentDetail, err error) {
	err = c.do(ctx, request{op: "control.agent", method: http.MethodGet, path: agentPath(name, "")}, &out)
	return out, err
}

// RemoveAgent forgets an agent. A version other than 0 must be the current one.
func (c *Client) RemoveAgent(ctx context.Context, name parley.AgentName, version int64) error {
	return c.do(ctx, request{op: "control.removeAgent", method: http.MethodDelete, path: agentPath(name, ""), version: version}, nil)
}

// RefreshAgent has the mesh look at an agent again, now; see AddAgent for a
// failed look.
func (c *Client) RefreshAgent(ctx context.Context, name parley.AgentName) (out LookedAt, err error) {
	err = c.do(ctx, request{op: "control.refreshAgent", method: http.MethodPost, path: agentPath(name, "/refresh")}, &out)
	return out, err
}

// ApproveAgent puts the card that waits in use. A version other than 0 must be
// the current one, so that nothing else is approved than what was shown.
func (c *Client) ApproveAgent(ctx context.Context, name parley.AgentName, version int64) (out Agent, err error) {
	err = c.do(ctx, request{op: "control.approveAgent", method: http.MethodPost, path: agentPath(name, "/approve"), version: version}, &out)
	return out, err
}

// SuspendAgent takes an agent out of service.
func (c *Client) SuspendAgent(ctx context.Context, name parley.AgentName, why Suspension) (out Agent, err error) {
	err = c.do(ctx, request{op: "control.suspendAgent", method: http.MethodPost, path: agentPath(name, "/suspend"), body: why}, &out)
	return out, err
}

// ResumeAgent takes a suspension back.
func (c *Client) ResumeAgent(ctx context.Context, name parley.AgentName) (out Agent, err error) {
	err = c.do(ctx, request{op: "control.resumeAgent", method: http.MethodPost, path: agentPath(name, "/resume")}, &out)
	return out, err
}

// AllowOwner lets an owner's callers call the agent.
func (c *Client) AllowOwner(ctx context.Context, name parley.AgentName, owner parley.OwnerName) (out Agent, err error) {
	err = c.do(ctx, request{op: "control.allowOwner", method: http.MethodPut, path: agentPath(name, "/allow/"+segment(owner))}, &out)
	return out, err
}

// SetAgent says what the agent may do.
func (c *Client) SetAgent(ctx context.Context, name parley.AgentName, s AgentSettings) (out Agent, err error) {
	err = c.do(ctx, request{op: "control.setAgent", method: http.MethodPatch, path: agentPath(name, ""), body: s}, &out)
	return out, err
}

// DisallowOwner takes an owner off the agent's list.
func (c *Client) DisallowOwner(ctx context.Context, name parley.AgentName, owner parley.OwnerName) (out Agent, err error) {
	err = c.do(ctx, request{op: "control.disallowOwner", method: http.MethodDelete, path: agentPath(name, "/allow/"+segment(owner))}, &out)
	return out, err
}

// SetAuth stores what the mesh shows the agent, and looks at it.
func (c *Client) SetAuth(ctx context.Context, name parley.AgentName, n NewAuth) (out LookedAt, err error) {
	err = c.do(ctx, request{op: "control.setAuth", method: http.MethodPut, path: agentPath(name, "/auth"), body: n}, &out)
	return out, err
}

// RemoveAuth forgets what the mesh shows the agent, and looks at it.
func (c *Client) RemoveAuth(ctx context.Context, name parley.AgentName) (out LookedAt, err error) {
	err = c.do(ctx, request{op: "control.removeAuth", method: http.MethodDelete, path: agentPath(name, "/auth")}, &out)
	return out, err
}

// CheckCard has the mesh fetch, validate and explain the card at a URL. Nothing
// is stored.
func (c *Client) CheckCard(ctx context.Context, address string) (out Report, err error) {
	body := struct {
		URL string `json:"url"`
	}{address}
	err = c.do(ctx, request{op: "control.checkCard", method: http.MethodPost, path: "/cards/check", body: body}, &out)
	return out, err
}

func agentPath(name parley.AgentName, rest string) string { return "/agents/" + segment(name) + rest }

// Instances lists the addresses of an agent, its own first.
func (c *Client) Instances(ctx context.Context, agent parley.AgentName) (out Page[Instance], err error) {
	err = c.do(ctx, request{op: "control.instances", method: http.MethodGet, path: agentPath(agent, "/instances")}, &out)
	return out, err
}

// AddInstance has the mesh look at a further address of an agent and take it.
func (c *Client) AddInstance(ctx context.Context, agent parley.AgentName, n NewInstance) (out Instance, err error) {
	err = c.do(ctx, request{op: "control.addInstance", method: http.MethodPost, path: agentPath(agent, "/instances"), body: n}, &out)
	return out, err
}

// RemoveInstance takes an instance out of service: at once with force, else
// once nothing is open there.
func (c *Client) RemoveInstance(ctx context.Context, agent parley.AgentName, id string, force bool) (out RemovedInstance, err error) {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	err = c.do(ctx, request{op: "control.removeInstance", method: http.MethodDelete, path: agentPath(agent, "/instances/"+segment(id)), query: q}, &out)
	return out, err
}
