package app

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Status tells how the mesh is.
func (a *App) Status(ctx context.Context) (control.Status, error) {
	s := control.Status{
		MeshID: a.store.MeshID(), Version: a.opts.Version, Environment: a.cfg.Environment, Started: a.started,
		Addresses: control.Addresses{
			Edge: a.ready.Listen, GRPC: a.ready.GRPC, Operations: a.ready.Ops, Public: a.ready.Public, Socket: a.ready.Socket,
		},
		Store: a.storeStatus(ctx),
	}
	if a.ready.Control != a.ready.Listen {
		s.Addresses.Control = a.ready.Control
	}
	for _, network := range a.cfg.AllowedNetworks() {
		s.NetworkAllow = append(s.NetworkAllow, network.String())
	}
	var err error
	s.Counts, err = a.counts(ctx)
	return s, err
}

func (a *App) storeStatus(ctx context.Context) control.StoreStatus {
	s := control.StoreStatus{Kind: "sqlite", Path: a.store.Where(), Durability: string(a.cfg.Durability), Healthy: true}
	if err := a.store.Health(ctx); err != nil {
		s.Healthy, s.Problem = false, parley.PublicMessage(err)
	}
	if a.store.Shared() {
		s.Kind = "postgres"
		if size, err := a.store.Size(ctx); err == nil { // else Problem says more
			s.SizeBytes = size
		}
		return s
	}
	files, err := filepath.Glob(filepath.Join(a.cfg.Data, "*.db*"))
	if err == nil {
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				s.SizeBytes += info.Size()
			}
		}
	}
	var disk unix.Statfs_t
	if unix.Statfs(a.cfg.Data, &disk) == nil {
		s.FreeBytes = int64(disk.Bavail) * disk.Bsize
	}
	return s
}

// counts walks the registry's and identity's rows: hundreds, not millions.
func (a *App) counts(ctx context.Context) (c control.Counts, err error) {
	c.OpenCalls = a.store.Stats().Open
	if c.Owners, err = walk(func(after parley.OwnerName, n int) ([]*identity.Owner, error) { return a.store.Owners(ctx, after, n) },
		func(o *identity.Owner) parley.OwnerName { return o.Name }, nil); err != nil {
		return c, err
	}
	if c.Principals, err = walk(func(after parley.PrincipalName, n int) ([]*identity.Principal, error) {
		return a.store.Principals(ctx, "", after, n)
	}, func(p *identity.Principal) parley.PrincipalName { return p.Name }, nil); err != nil {
		return c, err
	}
	c.Agents, err = walk(func(after parley.AgentName, n int) ([]*registry.Agent, error) {
		return a.store.Agents(ctx, "", after, n)
	},
		func(agent *registry.Agent) parley.AgentName { return agent.Name },
		func(agent *registry.Agent) {
			if agent.Status == registry.Active {
				c.Active++
			}
		})
	return c, err
}

// walkPage is how many rows a walk reads at once.
const walkPage = 200

// walk counts the rows that a paged read gives, and shows each to see.
func walk[Name ~string, Row any](page func(after Name, limit int) ([]Row, error), name func(Row) Name, see func(Row)) (n int, err error) {
	var after Name
	for {
		rows, err := page(after, walkPage)
		if err != nil {
			return n, err
		}
		for _, row := range rows {
			if see != nil {
				see(row)
			}
			after = name(row)
		}
		n += len(rows)
		if len(rows) < walkPage {
			return n, nil
		}
	}
}
