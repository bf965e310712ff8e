package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

type callerKey struct{}

// WithCaller notes in ctx who asks, so that events can say whose change they
// tell of.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom is who asks, or nil where the mesh acts by itself.
func CallerFrom(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// changeData is the data of every event of this package. Members that do not
// belong to the kind of thing that changed stay empty.
type changeData struct {
	Name        string             `json:"name,omitempty"`
	Owner       parley.OwnerName   `json:"owner,omitempty"`
	Environment parley.Environment `json:"environment,omitempty"`
	Agent       parley.AgentName   `json:"agent,omitempty"`
	Roles       []parley.Role      `json:"roles,omitempty"`
	Description string             `json:"description,omitempty"`
	Frozen      string             `json:"frozen,omitempty"` // the reason, of a principal that is frozen

	Key       string               `json:"key,omitempty"` // the public half
	Principal parley.PrincipalName `json:"principal,omitempty"`
	Kind      NameKind             `json:"kind,omitempty"`     // of CertName
	CertName  string               `json:"certName,omitempty"` // linked or unlinked
	Note      string               `json:"note,omitempty"`
	Issuer    string               `json:"issuer,omitempty"`
	Subject   string               `json:"subject,omitempty"`
	ExpiresAt *time.Time           `json:"expiresAt,omitempty"`

	By parley.PrincipalName `json:"by,omitempty"` // empty: the mesh itself
}

// event makes the event of one change. Subjects are kind/name.
func (d *Directory) event(ctx context.Context, typ, subject string, owner parley.OwnerName, env parley.Environment, data changeData) parley.Event {
	return changeEvent(ctx, d.opts.Now(), typ, subject, owner, env, data)
}

func changeEvent(ctx context.Context, now time.Time, typ, subject string, owner parley.OwnerName, env parley.Environment, data changeData) parley.Event {
	if c := CallerFrom(ctx); c != nil {
		data.By = c.Name
	}
	body, err := json.Marshal(data)
	if err != nil { // strings and times always encode
		panic(fmt.Sprintf("event %s: %v", typ, err))
	}
	return parley.Event{Subject: subject, Type: typ, Time: now, Owner: owner, Environment: env, Data: body}
}

func (d *Directory) ownerEvent(ctx context.Context, typ string, o *Owner) parley.Event {
	return d.event(ctx, typ, "owners/"+string(o.Name), o.Name, d.opts.Environment, changeData{
		Name: string(o.Name), Description: o.Description,
	})
}

func (d *Directory) principalEvent(ctx context.Context, typ string, p *Principal) parley.Event {
	return principalEvent(ctx, d.opts.Now(), typ, p)
}

func principalEvent(ctx context.Context, now time.Time, typ string, p *Principal) parley.Event {
	return changeEvent(ctx, now, typ, "principals/"+string(p.Name), p.Owner, p.Environment, changeData{
		Name: string(p.Name), Owner: p.Owner, Environment: p.Environment, Agent: p.Agent,
		Roles: p.Roles, Description: p.Description, Frozen: p.FrozenReason,
	})
}

func (d *Directory) keyEvent(ctx context.Context, typ string, k *Key, p *Principal) parley.Event {
	return keyEvent(ctx, d.opts.Now(), typ, k, p)
}

func keyEvent(ctx context.Context, now time.Time, typ string, k *Key, p *Principal) parley.Event {
	data := changeData{Key: k.ID, Principal: k.Principal, Note: k.Note}
	if !k.ExpiresAt.IsZero() {
		data.ExpiresAt = &k.ExpiresAt
	}
	return changeEvent(ctx, now, typ, "keys/"+k.ID, p.Owner, p.Environment, data)
}

// CallingSideRemoved tells that an agent was removed and took with it the
// principal under which it called and that principal's valid keys. The store
// asks for it inside the transaction, since only there it is certain which keys
// those are.
func CallingSideRemoved(ctx context.Context, now time.Time, p *Principal, valid []*Key) []parley.Event {
	events := make([]parley.Event, 0, len(valid)+1)
	for _, k := range valid {
		events = append(events, keyEvent(ctx, now, "key.revoked", k, p))
	}
	return append(events, principalEvent(ctx, now, "principal.removed", p))
}
