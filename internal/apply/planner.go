package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/nearest"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxWrong is how many wrong fields one answer names.
const maxWrong = 200

// planner makes one plan.
type planner struct {
	*Engine
	req   Request
	batch Batch
	plan  Plan
	wrong []parley.Field

	declared map[string]int           // index of a document by its id
	marks    map[string]manifest.Mark // by id
	owners   map[parley.OwnerName]bool
	parts    map[string]bool // declared, or already taken away, by the id of their marks
	proves   map[string]int  // index of the document that declares a proof

	changedAgents, goneAgents []parley.AgentName
	limits                    bool // limits change
	writes                    bool // the batch has something to write
}

func id(k manifest.Kind, name string) string { return string(k) + "/" + name }

// plan compares, in the order in which things need each other.
func (e *Engine) plan(ctx context.Context, req Request) (*planner, error) {
	p := &planner{
		Engine: e, req: req, batch: e.Begin(),
		plan:     Plan{Set: req.Set, Changes: []Change{}, Orphans: []Orphan{}},
		declared: map[string]int{}, marks: map[string]manifest.Mark{}, owners: map[parley.OwnerName]bool{},
		parts: map[string]bool{}, proves: map[string]int{},
	}
	if err := p.prepare(ctx); err != nil {
		return p, err
	}
	for _, step := range []func(context.Context) error{p.planOwners, p.planPrincipals, p.planAgents, p.planLimits} {
		if err := step(ctx); err != nil {
			return p, err
		}
	}
	if len(p.wrong) == 0 {
		if err := p.planRemovals(ctx); err != nil {
			return p, err
		}
		if err := p.planPartRemovals(ctx); err != nil {
			return p, err
		}
	}
	if len(p.wrong) > 0 {
		return p, &parley.Error{Op: "apply.plan", Kind: parley.Invalid, Message: "the documents cannot be applied, and nothing was changed", Fields: p.wrong[:min(len(p.wrong), maxWrong)]}
	}
	return p, nil
}

// result is the plan, where there is one.
func (p *planner) result(err error) *Plan {
	if err != nil {
		return nil
	}
	return &p.plan
}

// prepare indexes the documents and reads the marks.
func (p *planner) prepare(ctx context.Context) error {
	docs := make([]*manifest.Document, len(p.req.Documents))
	for i, in := range p.req.Documents {
		docs[i] = in.Document
		if first, twice := p.declared[in.ID()]; twice {
			p.refuse(i, "/metadata/name", fmt.Sprintf("%s %s is declared twice, by document %d as well", in.Kind, in.Name, first+1), "keep one")
			continue
		}
		p.declared[in.ID()] = i
		if in.Kind == manifest.KindOwner {
			p.owners[parley.OwnerName(in.Name)] = true
		}
	}
	if len(docs) > manifest.MaxDocuments {
		return parley.E("apply.plan", parley.Invalid, "", fmt.Sprintf("%d documents are too many: use at most %d for one set", len(docs), manifest.MaxDocuments), nil)
	}
	marks, err := p.Store.Marks(ctx)
	if err != nil {
		return err
	}
	for _, m := range marks {
		p.marks[id(m.Kind, m.Name)] = m
	}
	return nil
}

// each goes through the documents of a kind.
func (p *planner) each(kind manifest.Kind, do func(i int, d Input) error) error {
	for i, d := range p.req.Documents {
		if d.Kind != kind || p.declared[d.ID()] != i {
			continue
		}
		if err := do(i, d); err != nil {
			return err
		}
	}
	return nil
}

// refuse notes a wrong part of a document.
func (p *planner) refuse(i int, pointer, problem, fix string) {
	p.wrong = append(p.wrong, parley.Field{Path: fmt.Sprintf("/documents/%d%s", i, pointer), Problem: problem, Fix: fix})
}

// judge sorts the error of a draft: one that is about the document is noted and
// ends only that document; any other ends the plan.
func (p *planner) judge(i int, err error) (ok bool, _ error) {
	return p.judgeAt(err, func(path string) (int, string) { return i, documentPointer(path) })
}

// judgeAt is judge where a domain's paths are at the places that at says.
func (p *planner) judgeAt(err error, at func(path string) (i int, pointer string)) (ok bool, _ error) {
	if err == nil {
		return true, nil
	}
	e, ours := errors.AsType[*parley.Error](err)
	if !ours {
		return false, err
	}
	switch e.Kind {
	case parley.Invalid, parley.Conflict, parley.AgentFailed, parley.Unsupported, parley.Denied, parley.Exhausted:
	default:
		return false, err
	}
	if len(e.Fields) == 0 {
		i, pointer := at("")
		p.refuse(i, pointer, e.Message, "")
	}
	for _, f := range e.Fields {
		i, pointer := at(f.Path)
		p.refuse(i, pointer, f.Problem, f.Fix)
	}
	return false, nil
}

// documentPointer is where in a document the member of a domain stands.
func documentPointer(path string) string {
	path = strings.TrimPrefix(path, "/")
	switch first, _, _ := strings.Cut(path, "/"); first {
	case "name":
		return "/metadata/name"
	case "url", "owner", "environment", "allow", "roles", "description", "kind", "in", "origin":
		return "/spec/" + path
	case "secret":
		return "/spec/secretRef"
	}
	return ""
}

// free refuses a document of a thing that another set created.
func (p *planner) free(i int, d Input, madeAt int64) bool {
	return p.freePart(i, "/metadata/name", d.ID(), string(d.Kind)+" "+d.Name, madeAt)
}

// freePart is free for what has the mark's id.
func (p *planner) freePart(i int, pointer, mark, what string, madeAt int64) bool {
	m, marked := p.marks[mark]
	if !marked || m.MadeAt.UnixMicro() != madeAt || m.Set == p.req.Set {
		return true
	}
	p.refuse(i, pointer, fmt.Sprintf("%s belongs to the set %q", what, m.Set), fmt.Sprintf("apply it with --set %s, or take it out of one of the sets", m.Set))
	return false
}

// ours reports whether this set has made what has the mark's id at madeAt.
func (p *planner) ours(mark string, madeAt int64) bool {
	m, marked := p.marks[mark]
	return marked && m.Set == p.req.Set && m.MadeAt.UnixMicro() == madeAt
}

// home refuses an owner that nobody is.
func (p *planner) home(ctx context.Context, i int, pointer string, name parley.OwnerName) (bool, error) {
	if p.owners[name] {
		return true, nil
	}
	_, err := p.Store.Owner(ctx, name)
	if err == nil {
		p.owners[name] = true
		return true, nil
	}
	if parley.KindOf(err) != parley.NotFound {
		return false, err
	}
	fix := "declare it as an Owner"
	if near, err := p.nearOwner(ctx, name); err != nil {
		return false, err
	} else if near != "" {
		fix = fmt.Sprintf("did you mean %q? else declare it as an Owner", near)
	}
	p.refuse(i, pointer, fmt.Sprintf("no owner is named %q", name), fix)
	return false, nil
}

// nearOwner is the owner that was probably meant.
func (p *planner) nearOwner(ctx context.Context, name parley.OwnerName) (string, error) {
	stored, err := p.Store.Owners(ctx, "", manifest.MaxDocuments)
	if err != nil {
		return "", err
	}
	var known []string
	for o := range p.owners {
		known = append(known, string(o))
	}
	for _, o := range stored {
		known = append(known, string(o.Name))
	}
	slices.Sort(known)
	return nearest.Of(string(name), known), nil
}

// change adds a change to the plan.
func (p *planner) change(c Change) {
	p.plan.Changes = append(p.plan.Changes, c)
	p.writes = true
}

// caller is who applies; its access is not taken away.
func caller(ctx context.Context) parley.PrincipalName {
	if c := identity.CallerFrom(ctx); c != nil {
		return c.Name
	}
	return ""
}
