package identitytest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// subject is the key of a link.
type subject struct{ issuer, name string }

// Linked implements identity.Store.
func (s *Store) Linked(_ context.Context, issuer, name string) (l *identity.Link, p *identity.Principal, err error) {
	err = s.do(func() error {
		row, ok := s.links[subject{issuer, name}]
		if !ok {
			return missing("link", name)
		}
		l = &row
		p, err = get(s.principals, "principal", row.Principal)
		return err
	})
	return l, p, err
}

// Links implements identity.Store.
func (s *Store) Links(_ context.Context, principal parley.PrincipalName, limit int) (out []*identity.Link, err error) {
	err = s.do(func() error {
		for _, l := range s.links {
			if l.Principal == principal {
				out = append(out, &l)
			}
		}
		slices.SortFunc(out, func(a, b *identity.Link) int {
			return cmp.Or(cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Subject, b.Subject))
		})
		out = out[:min(len(out), limit)]
		return nil
	})
	return out, err
}

// AddLink implements identity.Store.
func (s *Store) AddLink(_ context.Context, l *identity.Link, events ...parley.Event) error {
	return s.do(func() error { return s.addLink(l, events) })
}

func (s *Store) addLink(l *identity.Link, events []parley.Event) error {
	key := subject{l.Issuer, l.Subject}
	if err := set(&s.links, key, *l, 0, func(identity.Link) int64 { return 1 }); err != nil {
		return err
	}
	s.record(events)
	return nil
}

// AdmitPrincipal implements identity.Store.
func (s *Store) AdmitPrincipal(_ context.Context, p *identity.Principal, l *identity.Link, events ...parley.Event) error {
	return s.do(func() error {
		if _, ok := s.owners[p.Owner]; !ok {
			return parley.E("identitytest.admit", parley.Invalid, parley.Subject(p.Owner), "no such owner", nil)
		}
		if _, taken := s.principals[p.Name]; taken {
			return parley.E("identitytest.admit", parley.Conflict, parley.Subject(p.Name), "exists already", nil)
		}
		if err := s.addLink(l, events); err != nil {
			return err
		}
		p.Version = 1
		return set(&s.principals, p.Name, *p, 0, func(p identity.Principal) int64 { return p.Version })
	})
}

// TouchLink implements identity.Store.
func (s *Store) TouchLink(_ context.Context, issuer, name string, at time.Time) error {
	return s.do(func() error {
		if l, ok := s.links[subject{issuer, name}]; ok {
			l.SeenAt = at
			s.links[subject{issuer, name}] = l
		}
		return nil
	})
}

// RemoveLink implements identity.Store.
func (s *Store) RemoveLink(_ context.Context, l *identity.Link, events ...parley.Event) error {
	return s.do(func() error {
		if _, ok := s.links[subject{l.Issuer, l.Subject}]; !ok {
			return missing("link", l.Subject)
		}
		delete(s.links, subject{l.Issuer, l.Subject})
		s.record(events)
		return nil
	})
}
