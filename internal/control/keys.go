package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// Key is an API key without its secret.
type Key struct {
	ID        string               `json:"id" doc:"The public half: what stands between pk_ and the second _."`
	Principal parley.PrincipalName `json:"principal"`
	Note      string               `json:"note"`
	CreatedAt time.Time            `json:"createdAt"`
	ExpiresAt *time.Time           `json:"expiresAt,omitempty" doc:"Missing: does not expire."`
	RevokedAt *time.Time           `json:"revokedAt,omitempty" doc:"Missing: not revoked."`
	Valid     bool                 `json:"valid" doc:"Neither expired nor revoked."`
}

// NewKey asks for a key, of a principal or of the calling side of an agent.
type NewKey struct {
	Principal parley.PrincipalName `json:"principal,omitempty"`
	Agent     parley.AgentName     `json:"agent,omitempty" doc:"Instead of a principal: the key lets this agent call others."`
	Note      string               `json:"note,omitempty" doc:"What the key is for."`
	TTLMs     int64                `json:"ttlMs,omitempty" doc:"Milliseconds until it expires; without it, it does not."`
}

// CreatedKey is a key with its text, which is shown this once.
type CreatedKey struct {
	Key
	Text string `json:"text" doc:"The whole key. It is shown this once and kept nowhere."`
}

func (s *Server) keyOf(k *identity.Key) Key {
	now := s.opts.Now()
	return Key{
		ID: k.ID, Principal: k.Principal, Note: k.Note, CreatedAt: k.CreatedAt.UTC(),
		ExpiresAt: timeOf(k.ExpiresAt), RevokedAt: timeOf(k.RevokedAt),
		Valid: !k.Revoked(now) && !k.Expired(now),
	}
}

// timeOf is t, or nil where there is none.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func (s *Server) keyEntity(k *identity.Key, err error) (*entity[Key], error) {
	if err != nil {
		return nil, err
	}
	return &entity[Key]{Body: s.keyOf(k)}, nil
}

// ttlOf keeps a number of milliseconds that no duration holds out of range
// instead of letting it wrap around.
func ttlOf(ms int64) time.Duration {
	return time.Duration(max(-1, min(ms, identity.MaxTTL.Milliseconds()+1))) * time.Millisecond
}

func (s *Server) keyRoutes() {
	dir := s.opts.Identity
	type list struct {
		Paging
		Principal parley.PrincipalName `query:"principal" maxLength:"63" doc:"Only this principal's."`
	}
	type one struct {
		ID string `path:"id" maxLength:"63"`
	}
	route(s, operation("listKeys", "GET", "/keys", "List keys, without their secrets", 200),
		func(ctx context.Context, in *list) (*listed[Key], error) {
			at, err := in.place("keys", 1)
			if err != nil {
				return nil, err
			}
			if err := s.permitKeysOf(ctx, in.Principal); err != nil {
				return nil, err
			}
			keys, err := dir.Keys(ctx, in.Principal, at[0], in.Limit+1)
			return page(keys, in.Limit, s.keyOf, func(k *identity.Key) string { return cursorOf("keys", k.ID) }), err
		})
	route(s, operation("createKey", "POST", "/keys", "Make a key", 201),
		func(ctx context.Context, in *struct{ Body NewKey }) (*entity[CreatedKey], error) {
			if err := s.permitNewKey(ctx, &in.Body); err != nil {
				return nil, err
			}
			text, k, err := dir.CreateKey(ctx, identity.KeyRequest{
				Principal: in.Body.Principal, Agent: in.Body.Agent, Note: in.Body.Note, TTL: ttlOf(in.Body.TTLMs),
			})
			if err != nil {
				return nil, err
			}
			return &entity[CreatedKey]{Location: Prefix + "/keys/" + k.ID, Body: CreatedKey{Key: s.keyOf(k), Text: text}}, nil
		})
	route(s, operation("getKey", "GET", "/keys/{id}", "Show a key, without its secret", 200),
		func(ctx context.Context, in *one) (*entity[Key], error) {
			k, p, err := dir.KeyWithHolder(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			if err := permitRead(ctx, "getKey", p.Owner); err != nil {
				return nil, err
			}
			return s.keyEntity(k, nil)
		})
	route(s, operation("revokeKey", "POST", "/keys/{id}/revoke", "Revoke a key, in force at once", 200),
		func(ctx context.Context, in *one) (*entity[Key], error) {
			_, p, err := dir.KeyWithHolder(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			if err := permitPrincipal(ctx, "revokeKey", p); err != nil {
				return nil, err
			}
			return s.keyEntity(dir.RevokeKey(ctx, in.ID))
		})
}

// permitKeysOf refuses lists of keys that the caller may not see. Whoever sees
// one owner's only has to say whose.
func (s *Server) permitKeysOf(ctx context.Context, name parley.PrincipalName) error {
	const id = "listKeys"
	if reach(ctx, id) == ReachAll {
		return nil
	}
	if name == "" {
		return tooLittle(ctx, id, "keys of all principals are asked for (name one with principal, or --for)")
	}
	p, err := s.opts.Identity.Principal(ctx, name)
	if err != nil {
		return err
	}
	return permitRead(ctx, id, p.Owner)
}

// permitNewKey refuses keys for principals that have more rights than the
// caller, or are out of reach. What is wrong with the request itself is the
// domain's to say.
func (s *Server) permitNewKey(ctx context.Context, n *NewKey) error {
	const id = "createKey"
	if n.Agent != "" {
		a, err := s.opts.Agents.Agent(ctx, n.Agent)
		if err != nil && parley.KindOf(err) == parley.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if err := permitChange(ctx, id, a.Owner, a.Environment); err != nil {
			return err
		}
	}
	for _, name := range []parley.PrincipalName{n.Principal, parley.PrincipalName(n.Agent)} {
		if name == "" {
			continue
		}
		p, err := s.opts.Identity.Principal(ctx, name)
		if err != nil && parley.KindOf(err) == parley.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		if err := permitPrincipal(ctx, id, p); err != nil {
			return err
		}
	}
	return nil
}
