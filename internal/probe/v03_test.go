package probe_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/registry"
)

func face03(url, binding string) face { return face{url, binding, "0.3"} }

// TestOldAgentIsProven: an agent on the official Go SDK of 0.3, whose card is at
// either well-known place and may name its interfaces in any of the ways of 0.3.
func TestOldAgentIsProven(t *testing.T) {
	a := a2atest.NewOldAgent(t)
	want := registry.Interface{URL: a.URL + "/rpc", Binding: "JSONRPC", Version: "0.3", Probe: "ok"}
	for _, path := range []string{"/.well-known/agent-card.json", "/.well-known/agent.json"} {
		a.Show(path, nil)
		for _, address := range []string{a.URL, a.URL + "/", a.URL + "/rpc", strings.TrimPrefix(a.URL, "http://"), a.URL + path} {
			in, _, text := look(t, loopback(), registry.InspectRequest{URL: address})
			if text != "" || in.Use != 0 || in.Interfaces[0] != want || in.CardURL != a.URL+path {
				t.Errorf("%s, card at %s: use %d, %+v, found at %q, %s", address, path, in.Use, in.Interfaces, in.CardURL, text)
			}
		}
	}
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if want := (registry.Interface{URL: "http://" + a.Address, Binding: "GRPC", Version: "0.3", Probe: "ok"}); text != "" || in.Interfaces[1] != want {
		t.Errorf("over gRPC: %+v, %s", in.Interfaces, text)
	}
	for name, change := range map[string]func(*old.AgentCard){
		"no transport": func(c *old.AgentCard) { c.PreferredTransport = "" },
		"no version":   func(c *old.AgentCard) { c.ProtocolVersion = "" },
		"0.2":          func(c *old.AgentCard) { c.ProtocolVersion = "0.2.6" },
	} {
		a.Show("", change)
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if text != "" || in.Use != 0 || in.Interfaces[0].SpeaksVersion() != "0.3" || in.Interfaces[0].Probe != "ok" {
			t.Errorf("%s: use %d, %+v, %s", name, in.Use, in.Interfaces, text)
		}
	}
}

// TestOneIsPreferred: where interfaces of both versions answer, those of 1.0 are
// used, wherever they stand in the card; where they do not, those of 0.3 are.
func TestOneIsPreferred(t *testing.T) {
	o := a2atest.NewOldAgent(t)
	a := newAgent(t)
	for _, tc := range []struct {
		use   int
		faces []face
	}{
		{1, []face{face03(o.URL+"/rpc", "JSONRPC"), rpc(a.URL + "/rpc")}},
		{2, []face{face03(o.URL+"/rpc", "JSONRPC"), rpc(a.URL + "/nowhere"), rest(a.URL + "/rest")}},
		{1, []face{rpc(a.URL + "/nowhere"), face03(o.URL+"/rpc", "JSONRPC")}},
	} {
		a.card = cardOf("", tc.faces...)
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if text != "" || in.Use != tc.use {
			t.Errorf("%v: use %d, %+v, %s", tc.faces, in.Use, in.Interfaces, text)
		}
	}
	// A card of both forms: what it names in the old way only comes last.
	a.card = cardOf(fmt.Sprintf(`,"protocolVersion":"0.3.0","url":"%s/rpc"`, o.URL), rpc(a.URL+"/nowhere"))
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" || in.Use != 1 || in.Interfaces[1].Version != "0.3" || in.Tried[len(in.Tried)-1].Result != "an agent card" {
		t.Errorf("a card of both forms: use %d, %+v, tried %v, %s", in.Use, in.Interfaces, in.Tried, text)
	}
}

// TestWrongVersionIsFound: what answers counts, and the label is a warning.
func TestWrongVersionIsFound(t *testing.T) {
	o, a := a2atest.NewOldAgent(t), newAgent(t)
	for _, tc := range []struct {
		face face
		odd  string
	}{
		{rpc(o.URL + "/rpc"), "is labelled JSONRPC, but JSONRPC of A2A 0.3 answers there, which is used"},
		{face03(a.URL+"/rpc", "JSONRPC"), "is labelled JSONRPC of A2A 0.3, but JSONRPC answers there, which is used"},
		{grpcFace(o.Address), "is labelled GRPC, but GRPC of A2A 0.3 answers there, which is used"},
	} {
		a.card = cardOf("", tc.face)
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if text != "" || in.Use != 0 || in.Interfaces[0].SpeaksVersion() == tc.face.version || !strings.Contains(lines(in, registry.Warning), tc.odd) {
			t.Errorf("%v: use %d, %+v, %v, %s", tc.face, in.Use, in.Interfaces, in.Problems, text)
		}
	}
}

// TestOldRESTIsProven by the errors that agents of 0.3 give, whose shape is open;
// what has no such path, or is another binding, is not.
func TestOldRESTIsProven(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		probe  string
	}{
		{404, `{"message":"Task not found"}`, "ok"}, {404, `{"code":-32001,"message":"nope"}`, "ok"},
		{404, `{"error":{"code":404,"message":"task not found: x"}}`, "ok"},
		{404, `{"detail":"Not Found"}`, "HTTP 404 with application/json: no HTTP+JSON of A2A 0.3 answer"},
		{404, `<html>`, "HTTP 404 with application/json: no HTTP+JSON of A2A 0.3 answer"},
		{200, `{"id":"x"}`, "HTTP+JSON of A2A 0.3: knows a task that nobody made, where TaskNotFound was expected"},
		{200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"task not found"}}`, "HTTP 200 with application/json: no HTTP+JSON of A2A 0.3 answer"},
		{500, `{"message":"broken"}`, "HTTP+JSON of A2A 0.3: answered HTTP 500 for an unknown task, where TaskNotFound was expected"},
		{503, `{"message":"later"}`, "HTTP+JSON of A2A 0.3: not available now (HTTP 503)"},
		{401, ``, "unauthorized"},
	} {
		a := newAgent(t)
		a.mux.HandleFunc("GET /old/v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("A2A-Version") != "0.3" {
				t.Errorf("a request of 0.3 says A2A-Version: %s", r.Header.Get("A2A-Version"))
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.status)
			fmt.Fprint(w, tc.body)
		})
		a.card = cardOf("", face03(a.URL+"/old", "HTTP+JSON"))
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if text != "" || in.Interfaces[0].Probe != tc.probe {
			t.Errorf("%d %s: %+v, %s", tc.status, tc.body, in.Interfaces, text)
		}
	}
}
