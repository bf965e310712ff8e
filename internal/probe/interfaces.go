package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Results for interfaces that are not probed.
const (
	notSpoken = "not spoken by the mesh"
	notProbed = "not probed: the card names too many interfaces"
)

// probe asks every usable interface which binding answers there, and chooses
// the first proven one in the card's order. An interface whose address is not
// permitted is a warning as long as another one is left.
func (l *look) probe(ctx context.Context) error {
	var usable []int
	for n := range l.found.Interfaces {
		i := &l.found.Interfaces[n]
		switch {
		case !spoken(*i):
			i.Probe = notSpoken
		case len(usable) == maxProbes:
			i.Probe = notProbed
		default:
			usable = append(usable, n)
		}
	}
	odd := make([]string, len(l.found.Interfaces))
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	for _, n := range usable {
		g.Go(func() error {
			odd[n] = l.probeOne(ctx, &l.found.Interfaces[n])
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	l.report(odd)
	permitted := slices.ContainsFunc(l.found.Interfaces, func(i registry.Interface) bool {
		return spoken(i) && !strings.HasPrefix(i.Probe, refusedPrefix)
	})
	if !permitted {
		return l.nonePermitted()
	}
	l.found.Use = slices.IndexFunc(l.found.Interfaces, func(i registry.Interface) bool { return i.Probe == registry.ProbeOK })
	return nil
}

// spoken tells whether calls to the interface are possible at all.
func spoken(i registry.Interface) bool {
	alone := a2a.AgentCard{SupportedInterfaces: []a2a.AgentInterface{
		{URL: i.URL, ProtocolBinding: a2a.Binding(i.Binding), ProtocolVersion: a2a.Version(i.Version)},
	}}
	_, ok := alone.SelectInterface(a2a.V10)
	return ok
}

// probeOne probes one interface: in the binding of its label and, where
// something else answers, in the other one.
func (l *look) probeOne(ctx context.Context, i *registry.Interface) (odd string) {
	label, other := a2a.JSONRPC, a2a.HTTPJSON
	if a2a.Binding(i.Binding) == other {
		label, other = other, label
	}
	f := l.bind(ctx, *i, label)
	i.Probe = f.result
	if f.proven() || f.result == registry.ProbeUnauthorized || !f.heard {
		return f.odd
	}
	if f := l.bind(ctx, *i, other); f.proven() && f.sure {
		i.Probe, i.Behaves = registry.ProbeOK, string(other)
		return fmt.Sprintf("is labelled %s, but %s answers there, which is used", label, other)
	}
	return ""
}

// report tells what the probes found. odd holds, by interface, what is out of
// the ordinary although it works.
func (l *look) report(odd []string) {
	for n, i := range l.found.Interfaces {
		path := fmt.Sprintf("supportedInterfaces[%d]", n)
		switch {
		case odd[n] != "":
			l.problem(registry.Warning, path, odd[n], "")
		case i.Probe == registry.ProbeOK, i.Probe == notSpoken: // the latter the card's check has told
		case i.Probe == registry.ProbeUnauthorized:
			l.problem(registry.Warning, path, l.unauthorized(i), registry.AuthCommand(l.request.Agent, registry.Credential{Kind: registry.Bearer})+", or as the card's schemes say")
		default:
			l.problem(registry.Warning, path, i.Probe, "")
		}
	}
}

// unauthorized tells whether the credential was refused or not even shown.
func (l *look) unauthorized(i registry.Interface) string {
	switch c := l.request.Credential; {
	case c == nil:
		return "wants credentials"
	case !c.For(i.URL):
		return "wants credentials, and those at hand are for " + c.Origin + " only"
	}
	return "refuses the credentials it was shown"
}

// nonePermitted is the error of a card whose every usable interface is at an
// address the mesh may not connect to.
func (l *look) nonePermitted() error {
	var fields []parley.Field
	for n, i := range l.found.Interfaces {
		if spoken(i) {
			fields = append(fields, parley.Field{Path: fmt.Sprintf("supportedInterfaces[%d].url", n), Problem: i.Probe})
		}
	}
	for k, p := range l.found.Problems {
		if strings.Contains(p.Problem, refusedPrefix) {
			l.found.Problems[k].Level = registry.Refusal
		}
	}
	return l.fail(parley.Invalid, "the mesh may not connect to any interface of this card", fields...)
}
