package apply

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
)

// partRemoval is how a part is taken away, and how that is told.
type partRemoval struct {
	name   string
	fields fields
	do     func()
}

// planPartRemovals removes, or names, the parts that the set has made and that
// are declared no more. Those of a thing that goes as a whole go with it.
func (p *planner) planPartRemovals(ctx context.Context) error {
	removed := map[string]bool{}
	for _, c := range p.plan.Changes {
		if c.Action == Remove {
			removed[id(c.Kind, c.Name)] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.marks)) {
		m := p.marks[key]
		whole := wholeOf(m)
		if whole == "" || m.Set != p.req.Set || p.parts[key] {
			continue
		}
		if removed[whole] {
			p.batch.Unmark(m.Kind, m.Name)
			continue
		}
		if err := p.partOrphan(ctx, m, whole); err != nil {
			return err
		}
	}
	return nil
}

// wholeOf is the id of the thing of which a mark's part is one; empty where the
// mark is of no part.
func wholeOf(m manifest.Mark) string {
	owner, _, _ := strings.Cut(m.Name, "/")
	switch m.Kind {
	case manifest.PartInstance:
		return id(manifest.KindAgent, owner)
	case manifest.PartCertName, manifest.PartSubject:
		return id(manifest.KindPrincipal, owner)
	}
	return ""
}

// partOrphan decides about one part that is declared no more.
func (p *planner) partOrphan(ctx context.Context, m manifest.Mark, whole string) error {
	_, owner, _ := strings.Cut(whole, "/")
	var r *partRemoval
	var err error
	switch m.Kind {
	case manifest.PartInstance:
		r, err = p.instanceRemoval(ctx, m, parley.AgentName(owner))
	case manifest.PartCertName:
		r, err = p.certNameRemoval(ctx, m, parley.PrincipalName(owner))
	case manifest.PartSubject:
		r, err = p.subjectRemoval(ctx, m, parley.PrincipalName(owner))
	}
	switch {
	case err != nil:
		return err
	case r == nil: // gone already, or another of the same name
		if p.req.Prune {
			p.batch.Unmark(m.Kind, m.Name)
			p.writes = true
		}
	case !p.req.Prune:
		p.plan.Orphans = append(p.plan.Orphans, Orphan{m.Kind, r.title(), whyNotPruned})
	case m.Kind != manifest.PartInstance && parley.PrincipalName(owner) == caller(ctx):
		p.plan.Orphans = append(p.plan.Orphans, Orphan{m.Kind, r.title(), whyYourself})
	default:
		p.removePart(m, r)
	}
	return nil
}

func (p *planner) removePart(m manifest.Mark, r *partRemoval) {
	p.change(Change{Action: Remove, Kind: m.Kind, Name: r.name, Fields: r.fields})
	r.do()
	p.batch.Unmark(m.Kind, m.Name)
	p.parts[id(m.Kind, m.Name)] = true
}

// title names the part in one line.
func (r *partRemoval) title() string {
	texts := []string{r.name}
	for _, f := range r.fields {
		texts = append(texts, f.Before)
	}
	return strings.Join(texts, " ")
}
