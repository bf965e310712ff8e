package v03_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// gen makes documents of version 1.0 that use everything it has.
type gen struct{ *rand.Rand }

type object = map[string]any

func (g gen) maybe() bool { return g.IntN(2) == 0 }

func (g gen) text() string {
	words := []string{"a", "é\u2028\"\\", "tasks/x", "parts", "aGVsbG8=", "kind", "0", "\U0001f600", " "}
	return words[g.IntN(len(words))] + words[g.IntN(len(words))]
}

func (g gen) id() string { return fmt.Sprintf("id-%d/%%é", g.IntN(1000)) }

func (g gen) value(depth int) any {
	switch n := g.IntN(7); {
	case n == 0:
		return nil
	case n == 1:
		return g.maybe()
	case n == 2:
		return json.Number(fmt.Sprint(g.Int64(), ".5e3"))
	case n == 3 && depth > 0:
		return []any{g.value(depth - 1), g.value(depth - 1)}
	case n == 4 && depth > 0:
		return g.free(depth - 1)
	}
	return g.text()
}

// free is an object that is not empty.
func (g gen) free(depth int) object {
	o := object{"k" + g.text(): g.value(depth)}
	if g.maybe() {
		o["kind"] = g.value(depth)
	}
	return o
}

func (g gen) with(o object, name string, value any) {
	if g.maybe() {
		o[name] = value
	}
}

func (g gen) part() object {
	p := object{}
	switch g.IntN(4) {
	case 0:
		p["text"] = g.text()
	case 1:
		p["raw"] = base64.StdEncoding.EncodeToString([]byte(g.text()))
	case 2:
		p["url"] = "https://a.example/" + g.text()
	default:
		p["data"] = g.value(3)
	}
	g.with(p, "metadata", g.free(2))
	g.with(p, "filename", g.text())
	g.with(p, "mediaType", "text/"+g.text())
	return p
}

func (g gen) parts() []object {
	list := []object{g.part()}
	for g.maybe() {
		list = append(list, g.part())
	}
	return list
}

func (g gen) message() object {
	m := object{"messageId": g.id(), "role": []string{"ROLE_USER", "ROLE_AGENT"}[g.IntN(2)], "parts": g.parts()}
	g.with(m, "contextId", g.id())
	g.with(m, "taskId", g.id())
	g.with(m, "metadata", g.free(2))
	g.with(m, "extensions", []string{g.text()})
	g.with(m, "referenceTaskIds", []string{g.id(), g.id()})
	return m
}

var states = []string{"UNSPECIFIED", "SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED"}

func (g gen) status() object {
	s := object{"state": "TASK_STATE_" + states[g.IntN(len(states))]}
	g.with(s, "message", g.message())
	g.with(s, "timestamp", "2026-01-02T03:04:05.678Z")
	return s
}

func (g gen) artifact() object {
	a := object{"artifactId": g.id(), "parts": g.parts()}
	g.with(a, "name", g.text())
	g.with(a, "description", g.text())
	g.with(a, "metadata", g.free(2))
	g.with(a, "extensions", []string{g.text()})
	return a
}

func (g gen) task() object {
	t := object{"id": g.id(), "status": g.status()}
	g.with(t, "contextId", g.id())
	g.with(t, "artifacts", []object{g.artifact(), g.artifact()})
	g.with(t, "history", []object{g.message()})
	g.with(t, "metadata", g.free(2))
	return t
}

func (g gen) event() object {
	e := object{"taskId": g.id(), "contextId": g.id()}
	g.with(e, "metadata", g.free(2))
	switch g.IntN(4) {
	case 0:
		return object{"task": g.task()}
	case 1:
		return object{"message": g.message()}
	case 2:
		e["status"] = g.status()
		return object{"statusUpdate": e}
	}
	e["artifact"] = g.artifact()
	g.with(e, "append", true)
	g.with(e, "lastChunk", true)
	return object{"artifactUpdate": e}
}

func (g gen) push() object {
	p := object{"id": g.id(), "url": "https://a.example/hook"}
	g.with(p, "token", g.text())
	g.with(p, "authentication", object{"scheme": "Bearer", "credentials": "c" + g.text()})
	return p
}

func (g gen) send() object {
	s := object{"message": g.message()}
	g.with(s, "metadata", g.free(2))
	c := object{}
	g.with(c, "acceptedOutputModes", []string{"text/plain"})
	g.with(c, "taskPushNotificationConfig", g.push())
	g.with(c, "historyLength", g.IntN(3))
	g.with(c, "returnImmediately", true)
	if len(c) > 0 {
		s["configuration"] = c
	}
	return s
}

// bound is a push configuration of a task.
func (g gen) bound() object {
	p := g.push()
	p["taskId"] = g.id()
	return p
}

// translation is one kind of document and its way to 0.3 and back.
type translation struct {
	make     func(g gen) object
	from, to func(d v03.Dialect, raw []byte) ([]byte, error)
	dialects []v03.Dialect // those that have it
}

var none jsonwire.Limits

func translations() map[string]translation {
	both, rpc := []v03.Dialect{v03.RPC, v03.Proto}, []v03.Dialect{v03.RPC}
	request := func(m string, make func(g gen) object, ds []v03.Dialect) translation {
		return translation{make,
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.RequestFromV1(m, d, raw, none) },
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.RequestToV1(m, d, raw, none) }, ds}
	}
	result := func(m string, make func(g gen) object) translation {
		return translation{make,
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.ResultFromV1(m, d, raw, none) },
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.ResultToV1(m, d, raw, none) }, both}
	}
	return map[string]translation{
		"event": {gen.event,
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.EventFromV1(d, raw, none) },
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.EventToV1(d, raw, none) }, both},
		"push": {gen.bound,
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.PushFromV1(d, raw, none) },
			func(d v03.Dialect, raw []byte) ([]byte, error) { return v03.PushToV1(d, raw, none) }, both},
		"error": {gen.failure,
			func(_ v03.Dialect, raw []byte) ([]byte, error) { return v03.ErrorFromV1(raw, none) },
			func(_ v03.Dialect, raw []byte) ([]byte, error) { return v03.ErrorToV1(raw, none) }, rpc},
		"send request":   request("SendMessage", gen.send, both),
		"stream request": request("SendStreamingMessage", gen.send, both),
		"push request":   request("CreateTaskPushNotificationConfig", gen.bound, both),
		"get request": request("GetTask", func(g gen) object {
			q := object{"id": g.id()}
			g.with(q, "historyLength", g.IntN(3))
			return q
		}, rpc),
		"cancel request": request("CancelTask", func(g gen) object {
			q := object{"id": g.id()}
			g.with(q, "metadata", g.free(1))
			return q
		}, rpc),
		"subscribe request":   request("SubscribeToTask", func(g gen) object { return object{"id": g.id()} }, rpc),
		"push get request":    request("GetTaskPushNotificationConfig", func(g gen) object { return object{"taskId": g.id(), "id": g.id()} }, rpc),
		"push delete request": request("DeleteTaskPushNotificationConfig", func(g gen) object { return object{"taskId": g.id(), "id": g.id()} }, rpc),
		"push list request":   request("ListTaskPushNotificationConfigs", func(g gen) object { return object{"taskId": g.id()} }, rpc),
		"card request":        request("GetExtendedAgentCard", func(gen) object { return object{} }, rpc),
		"send result": result("SendMessage", func(g gen) object {
			if g.maybe() {
				return object{"message": g.message()}
			}
			return object{"task": g.task()}
		}),
		"get result":         result("GetTask", gen.task),
		"cancel result":      result("CancelTask", gen.task),
		"push create result": result("CreateTaskPushNotificationConfig", gen.bound),
		"push list result":   result("ListTaskPushNotificationConfigs", func(g gen) object { return object{"configs": []object{g.bound(), g.bound()}} }),
		"push delete result": result("DeleteTaskPushNotificationConfig", func(gen) object { return object{} }),
	}
}

func (g gen) failure() object {
	e := object{"code": -32001, "message": g.text()}
	g.with(e, "data", []object{{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}})
	return e
}

// TestV1ReturnsAsItWas: whatever 1.0 can say goes through 0.3 and comes back the
// same, in both dialects; and what went there once goes there and back the same.
func TestV1ReturnsAsItWas(t *testing.T) {
	for name, tr := range translations() {
		for _, d := range tr.dialects {
			t.Run(name+" "+string(d), func(t *testing.T) {
				for seed := range uint64(500) {
					in, err := json.Marshal(tr.make(gen{rand.New(rand.NewPCG(seed, 1))}))
					if err != nil {
						t.Fatal(err)
					}
					old, err := tr.from(d, in)
					if err != nil {
						t.Fatalf("seed %d: %v\nin  %s", seed, err, in)
					}
					back, err := tr.to(d, old)
					if err != nil {
						t.Fatalf("seed %d: %v\nin  %s\n0.3 %s", seed, err, in, old)
					}
					if !same(t, in, back) {
						t.Fatalf("seed %d\nin   %s\n0.3  %s\nback %s", seed, in, old, back)
					}
					again, err := tr.from(d, back)
					if err != nil || !same(t, old, again) {
						t.Fatalf("seed %d: %v\n0.3   %s\nagain %s", seed, err, old, again)
					}
					mixed(t, d, old)
				}
			})
		}
	}
}

// same compares two documents as values, numbers by their text.
func same(t testing.TB, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(decode(t, a), decode(t, b))
}

func decode(t testing.TB, raw []byte) (v any) {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// mixed fails on a member that is not of the dialect.
func mixed(t *testing.T, d v03.Dialect, raw []byte) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case object:
			for name, e := range v {
				switch name {
				case "metadata", "data":
					continue
				case "raw", "url", "filename", "mediaType", "taskPushNotificationConfig", "returnImmediately":
					if name != "url" || v["schemes"] == nil && v["pushNotificationConfig"] == nil && !isPush(v) {
						t.Fatalf("%s is a member of 1.0: %s", name, raw)
					}
				case "content", "fileWithBytes", "fileWithUri", "pushNotification", "name":
					if d == v03.RPC && name != "name" {
						t.Fatalf("%s is no member of RPC: %s", name, raw)
					}
				case "kind", "bytes", "uri":
					if d == v03.Proto {
						t.Fatalf("%s is no member of Proto: %s", name, raw)
					}
				}
				walk(e)
			}
		}
	}
	walk(decode(t, raw))
}

// isPush tells a push configuration, whose url is one in both versions.
func isPush(o object) bool { return o["url"] == "https://a.example/hook" }
