// Package identitytest has an in-memory identity.Store for tests of what stands
// on it. It keeps the promises of the interface (compare-and-set, kinds of
// error, order, state together with events) and nothing more: what survives a
// restart is tested with the real store.
package identitytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// Store keeps everything in maps. The zero value is empty and ready; it is safe
// for concurrent use.
type Store struct {
	mu         sync.Mutex
	owners     map[parley.OwnerName]identity.Owner
	principals map[parley.PrincipalName]identity.Principal
	keys       map[string]identity.Key
	links      map[subject]identity.Link
	names      map[string]identity.CertName
	events     []parley.Event
	lookups    int
	fail       error
}

var _ identity.Store = (*Store)(nil)

// Events gives all events so far, in order.
func (s *Store) Events() []parley.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Lookups counts the calls of KeyByID.
func (s *Store) Lookups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookups
}

// Fail makes every operation give err from now on; nil ends that.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// AppendEvents keeps events that belong to no other change.
func (s *Store) AppendEvents(_ context.Context, events ...parley.Event) error {
	return s.do(func() error { s.record(events); return nil })
}

// do runs f as one transaction.
func (s *Store) do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	return f()
}

func (s *Store) record(events []parley.Event) {
	for _, e := range events {
		e.Seq = int64(len(s.events)) + 1
		e.SubjectSeq = 1
		for _, old := range s.events {
			if old.Subject == e.Subject {
				e.SubjectSeq = old.SubjectSeq + 1
			}
		}
		s.events = append(s.events, e)
	}
}

func missing(what, name string) error {
	return parley.E("identitytest.get", parley.NotFound, parley.Subject(name), what+" not found", nil)
}

// get finds one row.
func get[K ~string, V any](rows map[K]V, what string, name K) (*V, error) {
	v, ok := rows[name]
	if !ok {
		return nil, missing(what, string(name))
	}
	return &v, nil
}

// set writes one row by compare-and-set: version is what the caller has seen.
func set[K comparable, V any](rows *map[K]V, name K, row V, version int64, current func(V) int64) error {
	old, exists := (*rows)[name]
	if exists != (version != 0) || exists && current(old) != version {
		return parley.E("identitytest.save", parley.Conflict, parley.Subject(fmt.Sprint(name)), "exists already or has changed", nil)
	}
	if *rows == nil {
		*rows = make(map[K]V)
	}
	(*rows)[name] = row
	return nil
}

// page gives at most limit rows behind after that match, by name.
func page[K cmp.Ordered, V any](rows map[K]V, after K, limit int, match func(V) bool) []*V {
	var out []*V
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if v := rows[name]; name > after && match(v) && len(out) < limit {
			out = append(out, &v)
		}
	}
	return out
}

// Owner implements identity.Store.
func (s *Store) Owner(_ context.Context, name parley.OwnerName) (o *identity.Owner, err error) {
	err = s.do(func() error { o, err = get(s.owners, "owner", name); return err })
	return o, err
}

// Owners implements identity.Store.
func (s *Store) Owners(_ context.Context, after parley.OwnerName, limit int) (out []*identity.Owner, err error) {
	err = s.do(func() error {
		out = page(s.owners, after, limit, func(identity.Owner) bool { return true })
		return nil
	})
	return out, err
}

// SaveOwner implements identity.Store.
func (s *Store) SaveOwner(_ context.Context, o *identity.Owner, events ...parley.Event) error {
	return s.do(func() error {
		row := *o
		row.Version++
		if err := set(&s.owners, o.Name, row, o.Version, func(o identity.Owner) int64 { return o.Version }); err != nil {
			return err
		}
		o.Version = row.Version
		s.record(events)
		return nil
	})
}

// DeleteOwner implements identity.Store.
func (s *Store) DeleteOwner(_ context.Context, name parley.OwnerName, version int64, events ...parley.Event) error {
	return s.do(func() error {
		o, err := get(s.owners, "owner", name)
		if err != nil {
			return err
		}
		if o.Version != version {
			return parley.E("identitytest.delete", parley.Conflict, parley.Subject(name), "has changed", nil)
		}
		delete(s.owners, name)
		s.record(events)
		return nil
	})
}

// Principal implements identity.Store.
func (s *Store) Principal(_ context.Context, name parley.PrincipalName) (p *identity.Principal, err error) {
	err = s.do(func() error { p, err = get(s.principals, "principal", name); return err })
	return p, err
}

// Principals implements identity.Store.
func (s *Store) Principals(_ context.Context, owner parley.OwnerName, after parley.PrincipalName, limit int) (out []*identity.Principal, err error) {
	err = s.do(func() error {
		out = page(s.principals, after, limit, func(p identity.Principal) bool { return owner == "" || p.Owner == owner })
		return nil
	})
	return out, err
}

// SavePrincipal implements identity.Store.
func (s *Store) SavePrincipal(_ context.Context, p *identity.Principal, events ...parley.Event) error {
	return s.do(func() error {
		row := *p
		row.Roles = slices.Clone(p.Roles)
		row.Version++
		if err := set(&s.principals, p.Name, row, p.Version, func(p identity.Principal) int64 { return p.Version }); err != nil {
			return err
		}
		p.Version = row.Version
		s.record(events)
		return nil
	})
}

// DeletePrincipal implements identity.Store; its keys and links go with it.
func (s *Store) DeletePrincipal(_ context.Context, name parley.PrincipalName, version int64, events ...parley.Event) error {
	return s.do(func() error {
		p, err := get(s.principals, "principal", name)
		if err != nil {
			return err
		}
		if p.Version != version {
			return parley.E("identitytest.delete", parley.Conflict, parley.Subject(name), "has changed", nil)
		}
		delete(s.principals, name)
		maps.DeleteFunc(s.keys, func(_ string, k identity.Key) bool { return k.Principal == name })
		maps.DeleteFunc(s.links, func(_ subject, l identity.Link) bool { return l.Principal == name })
		maps.DeleteFunc(s.names, func(_ string, n identity.CertName) bool { return n.Principal == name })
		s.record(events)
		return nil
	})
}

// KeyByID implements identity.Store.
func (s *Store) KeyByID(_ context.Context, id string) (k *identity.Key, p *identity.Principal, err error) {
	err = s.do(func() error {
		s.lookups++
		if k, err = get(s.keys, "key", id); err != nil {
			return err
		}
		p, err = get(s.principals, "principal", k.Principal)
		return err
	})
	return k, p, err
}

// Keys implements identity.Store.
func (s *Store) Keys(_ context.Context, principal parley.PrincipalName, after string, limit int) (out []*identity.Key, err error) {
	err = s.do(func() error {
		out = page(s.keys, after, limit, func(k identity.Key) bool { return principal == "" || k.Principal == principal })
		return nil
	})
	return out, err
}

// CreateKey implements identity.Store.
func (s *Store) CreateKey(_ context.Context, k *identity.Key, events ...parley.Event) error {
	return s.do(func() error {
		if err := set(&s.keys, k.ID, *k, 0, func(identity.Key) int64 { return 1 }); err != nil {
			return err
		}
		s.record(events)
		return nil
	})
}

// RevokeKey implements identity.Store.
func (s *Store) RevokeKey(_ context.Context, id string, at time.Time, events ...parley.Event) error {
	return s.do(func() error {
		k, err := get(s.keys, "key", id)
		if err != nil {
			return err
		}
		k.RevokedAt = at
		s.keys[id] = *k
		s.record(events)
		return nil
	})
}
