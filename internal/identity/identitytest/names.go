package identitytest

import (
	"context"
	"maps"
	"slices"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// FrozenPrincipals implements identity.Store.
func (s *Store) FrozenPrincipals(context.Context) (names []parley.PrincipalName, err error) {
	err = s.do(func() error {
		for name, p := range s.principals {
			if p.Frozen() {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

// placeOf is where a name stands in the map.
func placeOf(kind identity.NameKind, name string) string { return string(kind) + " " + name }

// PrincipalByName implements identity.NameStore.
func (s *Store) PrincipalByName(_ context.Context, kind identity.NameKind, name string) (p *identity.Principal, err error) {
	err = s.do(func() error {
		s.lookups++
		n, err := get(s.names, "name", placeOf(kind, name))
		if err != nil {
			return err
		}
		p, err = get(s.principals, "principal", n.Principal)
		return err
	})
	return p, err
}

// Names implements identity.NameStore.
func (s *Store) Names(_ context.Context, principal parley.PrincipalName) (out []*identity.CertName, err error) {
	err = s.do(func() error {
		for _, place := range slices.Sorted(maps.Keys(s.names)) {
			if n := s.names[place]; n.Principal == principal {
				out = append(out, &n)
			}
		}
		return nil
	})
	return out, err
}

// LinkName implements identity.NameStore.
func (s *Store) LinkName(_ context.Context, n *identity.CertName, events ...parley.Event) error {
	return s.do(func() error {
		if _, err := get(s.principals, "principal", n.Principal); err != nil {
			return err
		}
		if err := set(&s.names, placeOf(n.Kind, n.Name), *n, 0, func(identity.CertName) int64 { return 1 }); err != nil {
			return err
		}
		s.record(events)
		return nil
	})
}

// UnlinkName implements identity.NameStore.
func (s *Store) UnlinkName(_ context.Context, n *identity.CertName, events ...parley.Event) error {
	return s.do(func() error {
		old, err := get(s.names, "name", placeOf(n.Kind, n.Name))
		if err != nil {
			return err
		}
		if old.Principal != n.Principal {
			return missing("name", n.Name)
		}
		delete(s.names, placeOf(n.Kind, n.Name))
		s.record(events)
		return nil
	})
}
