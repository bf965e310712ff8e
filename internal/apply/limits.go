package apply

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
)

// EventLimitsChanged tells that the limits of the running mesh differ from its
// configuration in another way than before.
const EventLimitsChanged = "limits.changed"

// limitsEvent is the data of EventLimitsChanged.
type limitsEvent struct {
	Values map[string]string    `json:"values"`
	By     parley.PrincipalName `json:"by,omitempty"`
}

func (p *planner) limitsChanged(ctx context.Context, values map[string]string) parley.Event {
	raw, err := json.Marshal(limitsEvent{values, caller(ctx)})
	if err != nil { // texts always encode
		panic(err)
	}
	return parley.Event{
		Subject: "limits/" + manifest.LimitsName, Type: EventLimitsChanged, Time: p.Now(),
		Owner: parley.DefaultOwner, Environment: p.Environment, Data: raw,
	}
}

func (p *planner) planLimits(ctx context.Context) error {
	return p.each(manifest.KindLimits, func(i int, d Input) error {
		values := d.Limits.Values()
		if wrong := p.Limits.CheckLimits(values); len(wrong) > 0 {
			for _, f := range wrong {
				p.refuse(i, "/spec/"+strings.TrimPrefix(f.Path, "limits."), f.Problem, f.Fix)
			}
			return nil
		}
		have, madeAt, version, err := p.Store.LimitOverrides(ctx)
		if err != nil {
			return err
		}
		c := Change{Action: Update, Kind: d.Kind, Name: d.Name, Fields: p.limitFields(have, values)}
		if version == 0 {
			c.Action, madeAt = Create, p.Now()
		} else if !p.free(i, d, madeAt.UnixMicro()) {
			return nil
		}
		if version > 0 && maps.Equal(have, values) {
			p.plan.Unchanged++
			return nil
		}
		p.change(c)
		p.limits = true
		p.batch.SaveLimits(ctx, values, madeAt, version, p.limitsChanged(ctx, values))
		if version == 0 {
			p.batch.Mark(manifest.Mark{Kind: d.Kind, Name: d.Name, Set: p.req.Set, MadeAt: madeAt})
		}
		return nil
	})
}

// limitFields are the differences between two sets of overrides; a key that one
// of them lacks has its configured value there.
func (p *planner) limitFields(have, want map[string]string) (f fields) {
	keys := maps.Clone(have)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, want)
	in := func(values map[string]string, key string) string {
		if v, ok := values[key]; ok {
			return v
		}
		return p.Limits.ConfiguredLimit(key) + " (configuration)"
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		f.add(strings.TrimPrefix(key, "limits."), in(have, key), in(want, key))
	}
	return f
}
