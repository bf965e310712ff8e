package control

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Registrar changes which agents there are; see registry.Registrar.
type Registrar interface {
	Add(ctx context.Context, req registry.AddRequest) (*registry.Agent, *registry.Report, error)
	Refresh(ctx context.Context, name parley.AgentName) (*registry.Agent, *registry.Report, error)
	Approve(ctx context.Context, name parley.AgentName) (*registry.Agent, error)
	Suspend(ctx context.Context, name parley.AgentName, reason string) (*registry.Agent, error)
	Resume(ctx context.Context, name parley.AgentName) (*registry.Agent, error)
	Remove(ctx context.Context, name parley.AgentName) error
	Allow(ctx context.Context, name parley.AgentName, owner parley.OwnerName) (*registry.Agent, error)
	SetAuthPolicy(ctx context.Context, name parley.AgentName, p registry.AuthPolicy) (*registry.Agent, error)
	Disallow(ctx context.Context, name parley.AgentName, owner parley.OwnerName) (*registry.Agent, error)
	SetCredential(ctx context.Context, name parley.AgentName, c registry.Credential) (*registry.Agent, *registry.Report, error)
	RemoveCredential(ctx context.Context, name parley.AgentName) (*registry.Agent, *registry.Report, error)
	CheckCard(ctx context.Context, url string) (*registry.Report, error)
	AddInstance(ctx context.Context, agent parley.AgentName, n registry.NewInstance) (*registry.Instance, *registry.Report, error)
	RemoveInstance(ctx context.Context, agent parley.AgentName, id string, force bool) (open int, err error)
}

// AgentReader finds agents; see registry.Store.
type AgentReader interface {
	Agent(ctx context.Context, name parley.AgentName) (*registry.Agent, error)
	Agents(ctx context.Context, owner parley.OwnerName, after parley.AgentName, limit int) ([]*registry.Agent, error)
	Credential(ctx context.Context, agent parley.AgentName) (*registry.Credential, error)
	Instances(ctx context.Context, agent parley.AgentName) ([]*registry.Instance, error)
	QuietAgents(ctx context.Context, f registry.QuietFilter) ([]*registry.Agent, error)
}

// Agent is something registered that does work.
type Agent struct {
	Name         parley.AgentName     `json:"name"`
	Owner        parley.OwnerName     `json:"owner"`
	Environment  parley.Environment   `json:"environment"`
	Kind         string               `json:"kind"`
	URL          string               `json:"url" doc:"As given at registration."`
	CardURL      string               `json:"cardUrl"`
	Status       registry.Status      `json:"status" enum:"active,suspended,unproven"`
	Reason       string               `json:"reason,omitempty" doc:"Why it is suspended or unproven."`
	CardHash     string               `json:"cardHash" doc:"SHA-256 of the card's bytes, hex."`
	Title        string               `json:"title" doc:"The card's own word, as are description and agentVersion."`
	Description  string               `json:"description"`
	AgentVersion string               `json:"agentVersion"`
	Interfaces   []registry.Interface `json:"interfaces" nullable:"false"`
	Use          int                  `json:"use" doc:"Index of the interface that calls go to; -1 where none is proven."`
	Warnings     []string             `json:"warnings" nullable:"false"`
	Signature    *CardSignature       `json:"signature,omitempty" doc:"What is known of the signatures of the card in use."`
	Pins         []registry.Pin       `json:"pins,omitempty" nullable:"false" doc:"Keys that speak for the agent: a card that none of them has signed waits for approval."`
	Pending      *PendingCard         `json:"pending,omitempty" doc:"A newer card that waits for approval."`
	Allow        []parley.OwnerName   `json:"allow" nullable:"false" doc:"Owners beside its own that may call it."`
	AuthRequired registry.AuthPolicy  `json:"authRequired" enum:"pass,forbid" doc:"Whether it may ask callers for a credential (TASK_STATE_AUTH_REQUIRED)."`
	CheckedAt    *time.Time           `json:"checkedAt,omitempty" doc:"The last look at it, successful or not."`
	CheckError   string               `json:"checkError,omitempty" doc:"What the last look ran into."`
	SeenAt       *time.Time           `json:"seenAt,omitempty" doc:"The last look that went well."`
	CalledAt     *time.Time           `json:"calledAt,omitempty" doc:"The last call to it, to about a minute."`
	CreatedAt    time.Time            `json:"createdAt"`
	UpdatedAt    time.Time            `json:"updatedAt"`
	Version      int64                `json:"version"`
}

// PendingCard is a card that waits for approval.
type PendingCard struct {
	CardHash   string               `json:"cardHash"`
	Why        string               `json:"why"`
	Interfaces []registry.Interface `json:"interfaces" nullable:"false"`
	Since      time.Time            `json:"since"`
	Signature  *CardSignature       `json:"signature,omitempty"`
}

// CardSignature is what a look found about the signatures of a card.
type CardSignature struct {
	State   registry.SignatureState `json:"state" enum:"unsigned,verified,unverified,invalid,withdrawn" doc:"unverified: signed, and no key was to be had to verify with. withdrawn: verified, and its key is no longer published."`
	Keys    []registry.CardKey      `json:"keys,omitempty" nullable:"false" doc:"Those whose signatures hold; form says by which reading of the card."`
	Problem string                  `json:"problem,omitempty"`
	Since   *time.Time              `json:"since,omitempty" doc:"Since when the card in use is known to be so."`
}

func cardSignatureOf(s registry.CardSignature) *CardSignature {
	if s.State == "" {
		return nil
	}
	return &CardSignature{State: s.State, Keys: s.Keys, Problem: s.Problem, Since: timeOf(s.At)}
}

// AgentDetail is one agent with its card and what is shown to it.
type AgentDetail struct {
	Agent
	Card json.RawMessage `json:"card,omitempty" doc:"As the agent serves it."`
	Auth *Auth           `json:"auth,omitempty" doc:"The credential that the mesh shows it, without the secret."`
}

// NewAgent asks for an agent.
type NewAgent struct {
	Name        parley.AgentName   `json:"name" doc:"[a-z][a-z0-9-]*, at most 63 bytes."`
	URL         string             `json:"url" doc:"The card's address, a base address or a bare host."`
	Owner       parley.OwnerName   `json:"owner,omitempty" doc:"Who answers for it; without it, default."`
	Environment parley.Environment `json:"environment,omitempty" doc:"dev, test, staging or prod; without it, dev."`
	Allow       []parley.OwnerName `json:"allow,omitempty" nullable:"false" doc:"Owners beside its own that may call it."`
	Auth        *NewAuth           `json:"auth,omitempty" doc:"What the mesh shows it. Operators may not give it: see docs/roles.md."`
}

// LookedAt is an agent after a look at it. Agent is missing where the look kept
// it from being registered.
type LookedAt struct {
	Agent  *Agent  `json:"agent,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// Report is what a look at an agent found.
type Report struct {
	CardURL    string               `json:"cardUrl,omitempty" doc:"Where the card was found."`
	Tried      []registry.Attempt   `json:"tried" nullable:"false" doc:"Every address that was tried and what answered."`
	Problems   []registry.Problem   `json:"problems" nullable:"false"`
	Interfaces []registry.Interface `json:"interfaces" nullable:"false"`
	Chosen     int                  `json:"chosen" doc:"Index of the interface that calls would go to; -1 for none."`
	Signature  *CardSignature       `json:"signature,omitempty" doc:"What the card's signatures are worth."`
	Card       json.RawMessage      `json:"card,omitempty" doc:"As found; missing where it is not JSON."`
}

func agentOf(a *registry.Agent) Agent {
	out := Agent{
		Name: a.Name, Owner: a.Owner, Environment: a.Environment, Kind: a.Kind, URL: a.URL, CardURL: a.CardURL,
		Status: a.Status, Reason: a.Reason, CardHash: a.CardHash, Title: a.Title, Description: a.Description,
		AgentVersion: a.AgentVersion, Interfaces: filled(a.Interfaces), Use: a.Use, Warnings: filled(a.Warnings),
		AuthRequired: cmp.Or(a.AuthRequired, registry.AuthPass),
		Allow:        filled(a.Allow), CheckedAt: timeOf(a.CheckedAt), CheckError: a.CheckErr,
		SeenAt: timeOf(a.SeenAt), CalledAt: timeOf(a.CalledAt),
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(), Version: a.Version,
	}
	out.Signature, out.Pins = cardSignatureOf(a.Signature), a.Pins
	if p := a.Pending; p != nil {
		out.Pending = &PendingCard{Signature: cardSignatureOf(p.Signature), CardHash: p.CardHash, Why: p.Why, Interfaces: filled(p.Interfaces), Since: p.Since.UTC()}
	}
	return out
}

func reportOf(r *registry.Report) *Report {
	if r == nil {
		return nil
	}
	return &Report{
		Signature: cardSignatureOf(r.Signature),
		CardURL:   r.CardURL, Tried: filled(r.Tried), Problems: filled(r.Problems),
		Interfaces: filled(r.Interfaces), Chosen: r.Chosen, Card: rawJSON(r.Card),
	}
}

// rawJSON is b where it is JSON, else nothing: a foreign card must not break
// our own document.
func rawJSON(b []byte) json.RawMessage {
	if !json.Valid(b) {
		return nil
	}
	return b
}

// filled is list, and [] in JSON where that is nil.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func agentEntity(a *registry.Agent, err error) (*entity[Agent], error) {
	if err != nil {
		return nil, err
	}
	return &entity[Agent]{ETag: etag(a.Version), Body: agentOf(a)}, nil
}

// lookEntity answers with an agent and what a look at it found; a failed look
// tells what it found as well.
func lookEntity(a *registry.Agent, r *registry.Report, err error) (*entity[LookedAt], error) {
	if err != nil {
		p := problemOf(err)
		p.Report = reportOf(r)
		return nil, p
	}
	return &entity[LookedAt]{
		ETag: etag(a.Version), Location: Prefix + "/agents/" + string(a.Name),
		Body: LookedAt{Agent: new(agentOf(a)), Report: reportOf(r)},
	}, nil
}

// AgentPath names an agent in the path of a request.
type AgentPath struct {
	Name parley.AgentName `path:"name" maxLength:"63"`
}

func (s *Server) agentRoutes() {
	reg := s.opts.Registry
	type list struct {
		Paging
		Owner       parley.OwnerName `query:"owner" maxLength:"63" doc:"Only this owner's."`
		SeenBefore  time.Time        `query:"seenBefore" doc:"Only those of which no look has gone well since then."`
		Unused      bool             `query:"unused" doc:"Only those that nobody has called, since unusedSince or ever."`
		UnusedSince time.Time        `query:"unusedSince" doc:"With unused: since when; without it, ever."`
	}
	route(s, operation("listAgents", "GET", "/agents", "List agents by name", 200),
		func(ctx context.Context, in *list) (*listed[Agent], error) {
			at, err := in.place("agents", 1)
			if err != nil {
				return nil, err
			}
			all, err := s.opts.Agents.QuietAgents(ctx, registry.QuietFilter{
				Owner: in.Owner, SeenBefore: in.SeenBefore, Unused: in.Unused, UnusedSince: in.UnusedSince,
				After: parley.AgentName(at[0]), Limit: in.Limit + 1,
			})
			return page(all, in.Limit, agentOf, func(a *registry.Agent) string { return cursorOf("agents", string(a.Name)) }), err
		})
	route(s, operation("addAgent", "POST", "/agents", "Look at an agent and register it", 201),
		func(ctx context.Context, in *struct{ Body NewAgent }) (*entity[LookedAt], error) {
			req := registry.AddRequest{Name: in.Body.Name, URL: in.Body.URL, Owner: in.Body.Owner, Environment: in.Body.Environment, Allow: in.Body.Allow}
			if err := permitNewAgent(ctx, &in.Body); err != nil {
				return nil, err
			}
			if in.Body.Auth != nil {
				req.Credential = new(in.Body.Auth.credential())
			}
			return lookEntity(reg.Add(ctx, req))
		})
	route(s, operation("getAgent", "GET", "/agents/{name}", "Show an agent and its card", 200), s.getAgent)
	type removal struct {
		AgentPath
		Matching
	}
	route(s, operation("removeAgent", "DELETE", "/agents/{name}", "Forget an agent and the keys it calls with; its calls stay on record", 204),
		func(ctx context.Context, in *removal) (*empty, error) {
			if err := s.permitAgent(ctx, "removeAgent", in.Name, &in.Matching); err != nil {
				return nil, err
			}
			return &empty{}, reg.Remove(ctx, in.Name)
		})
	route(s, operation("refreshAgent", "POST", "/agents/{name}/refresh", "Look at an agent again, now", 200),
		func(ctx context.Context, in *AgentPath) (*entity[LookedAt], error) {
			if err := s.permitAgent(ctx, "refreshAgent", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			return lookEntity(reg.Refresh(ctx, in.Name))
		})
	type check struct {
		Body struct {
			URL string `json:"url" doc:"The card's address, a base address or a bare host."`
		}
	}
	route(s, operation("checkCard", "POST", "/cards/check", "Fetch, validate and explain a card; nothing is stored", 200),
		func(ctx context.Context, in *check) (*entity[Report], error) {
			report, err := reg.CheckCard(ctx, in.Body.URL)
			if report == nil {
				return nil, err
			}
			return &entity[Report]{Body: *reportOf(report)}, nil
		})
}

// getAgent shows one agent.
func (s *Server) getAgent(ctx context.Context, in *AgentPath) (*entity[AgentDetail], error) {
	a, err := s.opts.Agents.Agent(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &entity[AgentDetail]{ETag: etag(a.Version), Body: AgentDetail{Agent: agentOf(a), Card: rawJSON(a.Card)}}
	c, err := s.opts.Agents.Credential(ctx, in.Name)
	if err != nil && parley.KindOf(err) != parley.NotFound {
		return nil, err
	}
	if err == nil {
		out.Body.Auth = authOf(c)
	}
	return out, nil
}

// permitNewAgent refuses agents that the caller may not register.
func permitNewAgent(ctx context.Context, n *NewAgent) error {
	owner, env := n.Owner, n.Environment
	if owner == "" {
		owner = parley.DefaultOwner
	}
	if env == "" {
		env = parley.Dev
	}
	if err := permitChange(ctx, "addAgent", owner, env); err != nil {
		return err
	}
	if n.Auth == nil {
		return nil
	}
	return permitChange(ctx, partAgentAuth, owner, env)
}

// permitAgent refuses where the agent is out of the caller's reach, or If-Match
// names another version than the agent's. The registrar's verbs change one thing
// each and never overwrite another's change, so the version guards what a person
// saw, not what is written.
func (s *Server) permitAgent(ctx context.Context, id string, name parley.AgentName, m *Matching) error {
	version, err := m.version()
	if err != nil {
		return err
	}
	if version == 0 && reach(ctx, id) == ReachAll {
		return nil
	}
	a, err := s.opts.Agents.Agent(ctx, name)
	if err != nil {
		return err
	}
	if err := permitChange(ctx, id, a.Owner, a.Environment); err != nil {
		return err
	}
	if id == "removeAgent" && a.Status == registry.Suspended && reach(ctx, id) == ReachOwn {
		return notTheirs(ctx, "agent "+string(name)+" is suspended")
	}
	if version == 0 {
		return nil
	}
	return identity.SameVersion("control.permitAgent", string(name), version, a.Version)
}
