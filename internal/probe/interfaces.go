package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

const notProbed = "not probed: the card names too many interfaces"

// probe asks every usable interface which binding and version answer there, and
// chooses the first proven one in the card's order: of those of A2A 1.0 if there is
// one, since nothing has to be translated for it, else of the others. An interface
// whose address is not permitted is a warning as long as another one is left.
func (l *look) probe(ctx context.Context) error {
	all := l.found.Interfaces
	findings := make([]finding, len(all))
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	probes := 0
	for n := range all {
		switch {
		case !spoken(all[n]):
			all[n].Probe = registry.ProbeNotSpoken
		case probes == maxProbes:
			all[n].Probe = notProbed
		default:
			probes++
			g.Go(func() error {
				findings[n] = l.probeOne(ctx, &all[n])
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	refused := 0
	for _, f := range findings {
		if f.refused {
			refused++
		}
	}
	l.report(findings, refused == probes)
	if refused == probes {
		return l.nonePermitted(findings)
	}
	l.found.Use = slices.IndexFunc(all, func(i registry.Interface) bool {
		return i.Probe == registry.ProbeOK && i.SpeaksVersion() == string(a2a.V10)
	})
	if l.found.Use < 0 {
		l.found.Use = slices.IndexFunc(all, func(i registry.Interface) bool { return i.Probe == registry.ProbeOK })
	}
	return nil
}

// spoken tells whether calls to the interface are possible at all.
func spoken(i registry.Interface) bool {
	binding, version := a2a.Binding(i.Binding), a2a.Version(i.SpeaksVersion())
	return slices.Contains([]a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC}, binding) && (version == a2a.V10 || version == a2a.V03)
}

// probeOne probes one interface: in the binding and version of its label and, where
// something else answers over HTTP, in the other ones that may be meant.
func (l *look) probeOne(ctx context.Context, i *registry.Interface) finding {
	if a2a.Binding(i.Binding) == a2a.GRPC {
		return l.bindGRPC(ctx, i)
	}
	label, other := a2a.JSONRPC, a2a.HTTPJSON
	if a2a.Binding(i.Binding) == other {
		label, other = other, label
	}
	version := a2a.Version(i.SpeaksVersion())
	second := otherVersion(version)
	f := l.bind(ctx, *i, label, version)
	i.Probe = f.result
	if f.proven() || f.result == registry.ProbeUnauthorized || !f.heard {
		return f
	}
	for _, try := range []manner{{label, second}, {other, version}} {
		g := l.bind(ctx, *i, try.binding, try.version)
		if !g.proven() || !g.sure {
			continue
		}
		i.Probe = registry.ProbeOK
		if try.binding != label {
			i.Behaves = string(try.binding)
		} else {
			i.BehavesVersion = string(try.version)
		}
		g.odd = fmt.Sprintf("is labelled %s, but %s answers there, which is used", manner{label, version}, try)
		return g
	}
	return f
}

// otherVersion is the version to try where the one of the label does not answer.
func otherVersion(v a2a.Version) a2a.Version {
	if v == a2a.V10 {
		return a2a.V03
	}
	return a2a.V10
}

// manner is a way to speak at an address.
type manner struct {
	binding a2a.Binding
	version a2a.Version
}

// String is the manner in words. 1.0 is what is meant where no version is said.
func (m manner) String() string {
	if m.version == a2a.V10 {
		return string(m.binding)
	}
	return string(m.binding) + " of A2A " + string(m.version)
}

// report tells what the probes found.
func (l *look) report(findings []finding, nonePermitted bool) {
	home, _ := registry.OriginOf(l.found.CardURL) // an address that was fetched has one
	for n, i := range l.found.Interfaces {
		path := fmt.Sprintf("supportedInterfaces[%d]", n)
		if origin, err := registry.OriginOf(i.URL); err == nil && origin != home {
			l.problem(registry.Note, path, "is at another origin than the card: "+origin, "")
		}
		switch {
		case findings[n].odd != "":
			l.problem(registry.Warning, path, findings[n].odd, "")
		case i.Probe == registry.ProbeOK, i.Probe == registry.ProbeNotSpoken: // the latter the card's check has told
		case i.Probe == registry.ProbeUnauthorized:
			l.problem(registry.Warning, path, l.unauthorized(i), cmp.Or(l.auth, registry.AuthCommand(l.request.Agent, registry.Credential{Kind: registry.Bearer})))
		case findings[n].refused && nonePermitted:
			l.problem(registry.Refusal, path, i.Probe, "")
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
func (l *look) nonePermitted(findings []finding) error {
	var fields []parley.Field
	for n, f := range findings {
		if f.refused {
			fields = append(fields, parley.Field{Path: fmt.Sprintf("supportedInterfaces[%d].url", n), Problem: f.result})
		}
	}
	return l.fail(parley.Invalid, "the mesh may not connect to any interface of this card", fields...)
}
