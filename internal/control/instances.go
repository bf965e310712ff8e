package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/registry"
)

// Instance is one address of an agent.
type Instance struct {
	ID           string                  `json:"id" doc:"first is the agent's own address."`
	URL          string                  `json:"url" doc:"As given."`
	Address      string                  `json:"address,omitempty" doc:"Where calls go; missing where nothing is proven."`
	Binding      string                  `json:"binding,omitempty"`
	Status       registry.InstanceStatus `json:"status" enum:"ready,differs,draining,suspended,unproven"`
	Healthy      bool                    `json:"healthy" doc:"Whether new work may go there now."`
	Exchanges    int                     `json:"exchanges" doc:"Under way now, as the answering process sees them."`
	AgentVersion string                  `json:"agentVersion"`
	Credential   bool                    `json:"credential" doc:"Whether the agent's credential was confirmed for its origin."`
	CheckedAt    *time.Time              `json:"checkedAt,omitempty"`
	CheckError   string                  `json:"checkError,omitempty" doc:"What the last look ran into."`
	CreatedAt    time.Time               `json:"createdAt"`
}

// NewInstance asks for an instance of an agent.
type NewInstance struct {
	ID         string `json:"id,omitempty" maxLength:"63" doc:"Unique in the agent; without it the mesh makes one."`
	URL        string `json:"url" doc:"The card's address or a base address of the instance itself."`
	Credential bool   `json:"credential,omitempty" doc:"Confirms that the agent's credential may go to the URL's origin. Needs the rights of setAuth."`
}

// RemovedInstance tells what is left of an instance that is taken out.
type RemovedInstance struct {
	ID   string `json:"id"`
	Gone bool   `json:"gone" doc:"false while it drains: it gets no new work, and goes once nothing is open there."`
	Open int    `json:"open" doc:"Open calls and unfinished tasks there."`
}

// InstancePath names an instance in the path of a request.
type InstancePath struct {
	AgentPath
	ID string `path:"id" maxLength:"63"`
}

// instanceRoutes are the addresses of an agent.
func (s *Server) instanceRoutes() {
	route(s, operation("listInstances", "GET", "/agents/{name}/instances", "List an agent's addresses, its own first", 200), s.listInstances)
	type addition struct {
		AgentPath
		Body NewInstance
	}
	route(s, operation("addInstance", "POST", "/agents/{name}/instances", "Look at a further address of an agent and take it", 201),
		func(ctx context.Context, in *addition) (*entity[Instance], error) {
			if err := s.permitAgent(ctx, "addInstance", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			if in.Body.Credential {
				if err := s.permitAgent(ctx, partInstanceAuth, in.Name, &Matching{}); err != nil {
					return nil, err
				}
			}
			i, report, err := s.opts.Registry.AddInstance(ctx, in.Name, registry.NewInstance{ID: in.Body.ID, URL: in.Body.URL, Credential: in.Body.Credential})
			if err != nil {
				p := problemOf(err)
				p.Report = reportOf(report)
				return nil, p
			}
			return &entity[Instance]{Location: Prefix + "/agents/" + string(in.Name) + "/instances", Body: instanceOf(i, true, 0)}, nil
		})
	type removal struct {
		InstancePath
		Force bool `query:"force" doc:"At once: tasks that are open there are reachable no more."`
	}
	route(s, operation("removeInstance", "DELETE", "/agents/{name}/instances/{id}", "Take an instance out of service, once nothing is open there", 200),
		func(ctx context.Context, in *removal) (*entity[RemovedInstance], error) {
			if err := s.permitAgent(ctx, "removeInstance", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			open, err := s.opts.Registry.RemoveInstance(ctx, in.Name, in.ID, in.Force)
			if err != nil {
				return nil, err
			}
			return &entity[RemovedInstance]{Body: RemovedInstance{ID: in.ID, Gone: in.Force, Open: open}}, nil
		})
}

func (s *Server) listInstances(ctx context.Context, in *AgentPath) (*listed[Instance], error) {
	a, err := s.opts.Agents.Agent(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	all, err := s.opts.Agents.Instances(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	standing := map[string]registry.Standing{}
	if s.opts.Standings != nil {
		seen, err := s.opts.Standings(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		for _, one := range seen {
			standing[one.Instance] = one
		}
	}
	out := &listed[Instance]{Body: Page[Instance]{Items: []Instance{firstOf(a, standing[""])}}}
	for _, i := range all {
		now := standing[i.ID]
		out.Body.Items = append(out.Body.Items, instanceOf(i, now.Healthy, now.Open))
	}
	return out, nil
}

// firstOf is the agent's own address as an instance.
func firstOf(a *registry.Agent, now registry.Standing) Instance {
	status := registry.InstanceReady
	if a.Status != registry.Active {
		status = registry.InstanceStatus(a.Status)
	}
	out := Instance{
		ID: registry.First, URL: a.URL, Status: status, Healthy: now.Healthy, Exchanges: now.Open, AgentVersion: a.AgentVersion,
		Credential: true, CheckedAt: timeOf(a.CheckedAt), CheckError: a.CheckErr, CreatedAt: a.CreatedAt.UTC(),
	}
	out.address(a.Interfaces, a.Use)
	return out
}

func instanceOf(i *registry.Instance, healthy bool, exchanges int) Instance {
	out := Instance{
		ID: i.ID, URL: i.URL, Status: i.Status, Healthy: healthy, Exchanges: exchanges, AgentVersion: i.AgentVersion,
		Credential: i.Credential, CheckedAt: timeOf(i.CheckedAt), CheckError: i.CheckErr, CreatedAt: i.CreatedAt.UTC(),
	}
	out.address(i.Interfaces, i.Use)
	return out
}

// address sets where calls go.
func (i *Instance) address(all []registry.Interface, use int) {
	if use >= 0 && use < len(all) {
		i.Address, i.Binding = all[use].URL, all[use].Speaks()
	}
}
