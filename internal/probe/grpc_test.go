package probe_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/probe"
	"github.com/parley-mesh/parley/internal/registry"
)

func grpcFace(address string) face { return face{address, "GRPC", "1.0"} }

// serveGRPC serves an agent without tasks over gRPC, which wants the bearer token
// if one is given, and gives its address.
func serveGRPC(t *testing.T, config *tls.Config, token string) string {
	t.Helper()
	return a2atest.ServeGRPC(t, a2agrpc.NewServer(a2agrpc.Serving(a2a.HandlerFunc(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method != a2a.GetTask {
			t.Errorf("the probe asked for %s", q.Method)
		}
		if token != "" && q.Header.Get("Authorization") != "Bearer "+token {
			return a2a.Fail(a2a.NewError(a2a.ReasonUnauthenticated, "who is it?"))
		}
		return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
	})), a2agrpc.Options{TLS: config}))
}

// TestGRPCIsProven with and without TLS, in whatever form the card writes the
// address; what answered is noted.
func TestGRPCIsProven(t *testing.T) {
	cert, key, pool := certtest.Write(t, t.TempDir(), 1)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	plain := serveGRPC(t, nil, "")
	secure := serveGRPC(t, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}, "")
	inspector := probe.New(loopbackGuard(), probe.Options{TLS: &tls.Config{RootCAs: pool}})
	for address, want := range map[string]string{
		plain: "http://" + plain, "grpc://" + plain: "http://" + plain, "dns:///" + plain: "http://" + plain, "http://" + plain + "/": "http://" + plain,
		secure: "https://" + secure, "grpcs://" + secure: "https://" + secure, "https://" + secure + "/": "https://" + secure,
	} {
		a := newAgent(t)
		a.card = cardOf("", grpcFace(address))
		in, _, text := look(t, inspector, registry.InspectRequest{URL: a.URL})
		if text != "" || in.Use != 0 || in.Interfaces[0] != (registry.Interface{URL: want, Binding: "GRPC", Version: "1.0", Probe: "ok"}) {
			t.Errorf("%s: use %d, %+v, %s", address, in.Use, in.Interfaces, text)
		}
	}
	a := newAgent(t)
	a.card = cardOf("", rpc(a.URL+"/rpc"), grpcFace(plain))
	if in, _, text := look(t, inspector, registry.InspectRequest{URL: a.URL}); text != "" || in.Use != 0 || in.Interfaces[1].Probe != "ok" {
		t.Errorf("beside JSON-RPC: use %d, %+v, %s", in.Use, in.Interfaces, text)
	}
	a.card = cardOf("", rpc(a.URL+"/nowhere"), grpcFace(plain))
	if in, _, text := look(t, inspector, registry.InspectRequest{URL: a.URL}); text != "" || in.Use != 1 {
		t.Errorf("where JSON-RPC does not answer: use %d, %+v, %s", in.Use, in.Interfaces, text)
	}
}

// TestGRPCWithoutProof: what answers is not gRPC, not trusted, or not there.
func TestGRPCWithoutProof(t *testing.T) {
	cert, key, _ := certtest.Write(t, t.TempDir(), 1)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	untrusted := serveGRPC(t, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}, "")
	for address, want := range map[string]string{
		strings.TrimPrefix(a.URL, "http://"): "no TLS handshake",
		closed.Addr().String():               "nothing answers there",
		untrusted:                            "no TLS handshake: check the certificate",
	} {
		a.card = cardOf("", grpcFace(address))
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if text != "" || in.Use != -1 || !strings.Contains(in.Interfaces[0].Probe, want) {
			t.Errorf("%s: use %d, %+v, %s, want %q", address, in.Use, in.Interfaces, text, want)
		}
	}
}

// TestGRPCCredential goes to the origin it was stored for alone.
func TestGRPCCredential(t *testing.T) {
	a := newAgent(t)
	address := serveGRPC(t, nil, "good")
	a.card = cardOf("", grpcFace(address))
	for origin, want := range map[string]string{a.URL: registry.ProbeUnauthorized, "http://" + address: registry.ProbeOK, "https://" + address: registry.ProbeUnauthorized} {
		in, _, text := look(t, loopback(), registry.InspectRequest{Agent: "echo", URL: a.URL, Credential: credentialFor(origin)})
		if text != "" || in.Interfaces[0].Probe != want {
			t.Errorf("a credential for %s: %+v, %s, want %s", origin, in.Interfaces, text, want)
		}
	}
}

// TestGRPCAddressesAreGuarded: a card cannot lead the mesh to addresses that it may
// not reach, nor make it speak in the clear to public ones.
func TestGRPCAddressesAreGuarded(t *testing.T) {
	for _, address := range []string{"169.254.169.254:80", "10.0.0.1:443", "[::1]:50051", "http://1.1.1.1:80", "inner.example:50051", "[::ffff:10.0.0.1]:443"} {
		w := newWorld()
		a := newAgent(t)
		w.site(t, a.mux)
		w.Resolve("inner.example", "192.168.0.1")
		a.card = cardOf("", grpcFace(address))
		in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com"})
		if plain := address == "http://1.1.1.1:80"; plain {
			// TLS is tried there, and only that.
			if kind != 0 || in.Use != -1 {
				t.Errorf("%s: %v %s, %+v", address, kind, text, in.Interfaces)
			}
			continue
		}
		if kind != parley.Invalid || !strings.Contains(text, "may not connect") {
			t.Errorf("%s: %v %s, %+v", address, kind, text, in.Interfaces)
		}
		for _, to := range w.Permitted() {
			if to.String() != "1.1.1.1:443" {
				t.Errorf("%s: the guard let %s through", address, to)
			}
		}
	}
}
