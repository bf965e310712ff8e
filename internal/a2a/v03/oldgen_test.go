package v03_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a/v03"
)

// oldGen makes documents of version 0.3 in a dialect. It leaves out what
// docs/versions.md lists as not the same after the way there and back; see
// TestOldReturnsOtherwise.
type oldGen struct {
	gen
	d v03.Dialect
}

func (g oldGen) rpc() bool { return g.d == v03.RPC }

// kind is an object of RPC that says what it is.
func (g oldGen) kind(name string, o object) object {
	if g.rpc() {
		o["kind"] = name
	}
	return o
}

func (g oldGen) part() object {
	var p object
	switch g.IntN(4) {
	case 0:
		p = g.kind("text", object{"text": g.text()})
	case 1:
		value := g.free(2)
		if g.rpc() {
			p = g.kind("data", object{"data": value})
		} else {
			p = object{"data": object{"data": value}}
		}
	case 2:
		content := base64.StdEncoding.EncodeToString([]byte(g.text()))
		if g.rpc() {
			p = g.kind("file", object{"file": object{"bytes": content}})
		} else { // in two layers, as the SDKs write it
			p = object{"file": object{"fileWithBytes": base64.StdEncoding.EncodeToString([]byte(content))}}
		}
	default:
		name := map[bool]string{true: "uri", false: "fileWithUri"}[g.rpc()]
		p = g.kind("file", object{"file": object{name: "https://a.example/" + g.text()}})
	}
	if file, ok := p["file"].(object); ok {
		g.with(file, "name", g.text())
		g.with(file, "mimeType", "text/"+g.text())
	}
	g.with(p, "metadata", g.free(2))
	return p
}

func (g oldGen) parts() []object {
	list := []object{g.part()}
	for g.maybe() {
		list = append(list, g.part())
	}
	return list
}

func (g oldGen) message() object {
	role, parts := []string{"user", "agent"}[g.IntN(2)], "parts"
	if !g.rpc() {
		role, parts = "ROLE_"+strings.ToUpper(role), "content"
	}
	m := g.kind("message", object{"messageId": g.id(), "role": role, parts: g.parts()})
	g.with(m, "contextId", g.id())
	g.with(m, "taskId", g.id())
	g.with(m, "metadata", g.free(2))
	g.with(m, "extensions", []string{g.text()})
	if g.rpc() { // the proto file does not have it
		g.with(m, "referenceTaskIds", []string{g.id(), g.id()})
	}
	return m
}

var oldStates = []string{"submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required"}

func (g oldGen) status() object {
	state := oldStates[g.IntN(len(oldStates))]
	s, message := object{"state": state}, "message"
	if !g.rpc() {
		s["state"] = "TASK_STATE_" + strings.ToUpper(strings.NewReplacer("-", "_", "canceled", "cancelled").Replace(state))
	}
	g.with(s, message, g.message())
	g.with(s, "timestamp", "2026-01-02T03:04:05.678Z")
	return s
}

func (g oldGen) artifact() object {
	a := object{"artifactId": g.id(), "parts": g.parts()}
	if g.IntN(8) == 0 {
		if a["parts"] = []object{}; !g.rpc() {
			delete(a, "parts") // as ProtoJSON writes an empty list
		}
	}
	g.with(a, "name", g.text())
	g.with(a, "description", g.text())
	g.with(a, "metadata", g.free(2))
	g.with(a, "extensions", []string{g.text()})
	return a
}

func (g oldGen) task() object {
	t := g.kind("task", object{"id": g.id(), "contextId": g.id(), "status": g.status()})
	g.with(t, "artifacts", []object{g.artifact(), g.artifact()})
	g.with(t, "history", []object{g.message()})
	g.with(t, "metadata", g.free(2))
	return t
}

// wrapped is a result as Proto has it, by the name of what it is.
func (g oldGen) wrapped(name string, o object) object {
	if g.rpc() {
		return o
	}
	return object{name: o}
}

func (g oldGen) event() object {
	e := object{"taskId": g.id(), "contextId": g.id()}
	g.with(e, "metadata", g.free(2))
	switch g.IntN(4) {
	case 0:
		return g.wrapped("task", g.task())
	case 1:
		return g.wrapped("message", g.message())
	case 2:
		e["status"], e["final"] = g.status(), g.maybe()
		return g.wrapped("statusUpdate", g.kind("status-update", e))
	}
	e["artifact"] = g.artifact()
	g.with(e, "append", true)
	g.with(e, "lastChunk", true)
	return g.wrapped("artifactUpdate", g.kind("artifact-update", e))
}

func (g oldGen) push() object {
	p := object{"id": g.id(), "url": "https://a.example/hook"}
	g.with(p, "token", g.text())
	g.with(p, "authentication", object{"schemes": []string{"Bearer"}, "credentials": "c" + g.text()})
	return p
}

func (g oldGen) bound() object {
	p := g.push()
	if g.rpc() {
		return object{"taskId": g.id(), "pushNotificationConfig": p}
	}
	escape := strings.NewReplacer("%", "%25", "/", "%2F")
	return object{"name": fmt.Sprintf("tasks/%s/pushNotificationConfigs/%s", escape.Replace(g.id()), escape.Replace(p["id"].(string))), "pushNotificationConfig": p}
}

func (g oldGen) send() object {
	c := object{"blocking": g.maybe()}
	g.with(c, "acceptedOutputModes", []string{"text/plain"})
	push := map[bool]string{true: "pushNotificationConfig", false: "pushNotification"}
	g.with(c, push[g.rpc()], g.push())
	g.with(c, "historyLength", 1+g.IntN(3))
	s := object{"message": g.message(), "configuration": c}
	g.with(s, "metadata", g.free(2))
	return s
}

func (g oldGen) sent() object {
	if g.maybe() {
		return g.wrapped("task", g.task())
	}
	return g.wrapped("message", g.message())
}

func (g oldGen) failure() object {
	e := object{"code": []int{-32700, -32600, -32001, -32002, -32003, -32004, -32005, -32006, -32007, -31999, 7}[g.IntN(11)], "message": g.text()}
	g.with(e, "data", g.free(2))
	return e
}

// oldDocuments are the kinds of documents that 0.3 has, by the name of the
// translation that they go through.
var oldDocuments = map[string]func(oldGen) object{
	"event": oldGen.event, "push": oldGen.bound, "error": oldGen.failure,
	"send request": oldGen.send, "stream request": oldGen.send,
	"send result": oldGen.sent, "get result": oldGen.task, "cancel result": oldGen.task, "push create result": oldGen.bound,
	"get request": func(g oldGen) object {
		q := object{"id": g.id()}
		g.with(q, "historyLength", g.IntN(3))
		return q
	},
	"cancel request":      func(g oldGen) object { return object{"id": g.id()} },
	"subscribe request":   func(g oldGen) object { return object{"id": g.id()} },
	"push get request":    func(g oldGen) object { return object{"id": g.id(), "pushNotificationConfigId": g.id()} },
	"push delete request": func(g oldGen) object { return object{"id": g.id(), "pushNotificationConfigId": g.id()} },
	"push list request":   func(g oldGen) object { return object{"id": g.id()} },
}

// TestOldReturnsAsItWas: what 0.3 can say goes through 1.0 and comes back the same,
// in both dialects.
func TestOldReturnsAsItWas(t *testing.T) {
	for name, make := range oldDocuments {
		tr := translations()[name]
		for _, d := range tr.dialects {
			t.Run(name+" "+string(d), func(t *testing.T) {
				for seed := range uint64(500) {
					in, err := json.Marshal(make(oldGen{gen{rand.New(rand.NewPCG(seed, 3))}, d}))
					if err != nil {
						t.Fatal(err)
					}
					v1, err := tr.to(d, in)
					if err != nil {
						t.Fatalf("seed %d: %v\n0.3 %s", seed, err, in)
					}
					back, err := tr.from(d, v1)
					if err != nil || !same(t, in, back) {
						t.Fatalf("seed %d: %v\n0.3  %s\n1.0  %s\nback %s", seed, err, in, v1, back)
					}
				}
			})
		}
	}
}
