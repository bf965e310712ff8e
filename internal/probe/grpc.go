package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/registry"
)

// grpcURL is the address of a gRPC interface as it is kept: a URL that says
// whether TLS is used, whatever form the card has. Where the card does not say,
// it is that of the card's own address until the probe knows better.
func (l *look) grpcURL(text string) string {
	address, err := a2a.ParseGRPCAddress(text)
	if err != nil {
		return text // the card's check has refused it before
	}
	if !address.Said {
		address.Plain = strings.HasPrefix(l.found.CardURL, "http://")
	}
	return address.URL()
}

// bindGRPC probes a gRPC interface: with TLS, and where the address is one of the
// operator's own and TLS is not what answers there, without. What answered is
// noted in the interface's URL. Where it is not the version of the label, the other
// one is tried.
func (l *look) bindGRPC(ctx context.Context, i *registry.Interface) finding {
	address, err := a2a.ParseGRPCAddress(i.URL)
	if err != nil {
		return finding{result: err.Error()}
	}
	plain := address
	plain.Plain = true
	secure := address
	secure.Plain = false
	version := a2a.Version(i.SpeaksVersion())
	f, noTLS := l.askGRPC(ctx, *i, secure, version)
	if noTLS {
		if g, _ := l.askGRPC(ctx, *i, plain, version); g.heard {
			f, address = g, plain
		}
	} else if f.heard {
		address = secure
	}
	i.URL, i.Probe = address.URL(), f.result
	if f.proven() || f.result == registry.ProbeUnauthorized || !f.heard {
		return f
	}
	label := manner{a2a.GRPC, a2a.Version(i.SpeaksVersion())}
	second := manner{a2a.GRPC, otherVersion(label.version)}
	if g, _ := l.askGRPC(ctx, *i, address, second.version); g.sure {
		i.Probe, i.BehavesVersion = registry.ProbeOK, string(second.version)
		g.odd = fmt.Sprintf("is labelled %s, but %s answers there, which is used", label, second)
		return g
	}
	return f
}

// askGRPC asks for a task that cannot exist. noTLS is set where a connection was
// had on which TLS was not spoken.
func (l *look) askGRPC(ctx context.Context, i registry.Interface, at a2a.GRPCAddress, version a2a.Version) (f finding, noTLS bool) {
	ctx, cancel := context.WithTimeout(ctx, l.limits.Probe)
	defer cancel()
	q, err := a2a.NewRequest(a2a.GetTask, a2a.GetTaskRequest{ID: uuid.NewString()})
	if err != nil {
		return finding{result: err.Error()}, false
	}
	header, u := http.Header{}, &url.URL{Scheme: "https", Host: at.String()}
	if at.Plain {
		u.Scheme = "http"
	}
	l.present(u, header) // a query parameter has no place in gRPC
	client := &a2agrpc.Client{Pool: l.grpcAt(u), Limits: jsonwire.Limits{MaxBytes: maxAnswerBytes}}
	name := "gRPC"
	if version == a2a.V03 {
		name = "gRPC of A2A 0.3"
	}
	reply, err := client.Do(ctx, a2a.Endpoint{URL: at.URL(), Binding: a2a.GRPC, Version: version, Tenant: i.Tenant}, q, header)
	_, failedTLS := errors.AsType[*a2agrpc.TLSError](err)
	switch failure, broken := errors.AsType[*a2a.TransportError](err); {
	case err == nil && reply.Err == nil:
		return finding{result: name + ": knows a task that nobody made, where TaskNotFound was expected", heard: true}, false
	case err == nil && reply.Err.Bare:
		return finding{result: "answers over HTTP, but not in gRPC", heard: true}, false
	case err == nil:
		f = judgeError(name, reply.Err)
		if reply.Err.Status == "UNIMPLEMENTED" || version == a2a.V03 && reply.Err.Reason == a2a.ReasonUnsupportedOperation {
			f.result, f.odd = name+": does not know GetTask; an agent of another version of A2A answers so", ""
		}
		f.sure = f.proven()
		return f, false
	case errors.Is(err, a2a.ErrNotA2A):
		return finding{result: "the answer is not A2A's over gRPC", heard: true}, false
	case netguard.ReasonOf(err) == netguard.ReasonRefused:
		return finding{result: refusal(err), refused: true}, false
	case failedTLS:
		return finding{result: "no TLS handshake: check the certificate, and that gRPC over TLS is spoken there"}, true
	case broken && failure.Stage == a2a.StageDial && errors.Is(err, a2agrpc.ErrNotHTTP2):
		return finding{result: "does not speak HTTP/2, as gRPC does"}, false
	}
	return finding{result: l.explain(err)}, false
}
