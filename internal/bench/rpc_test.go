package bench

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckReply(t *testing.T) {
	tests := []struct {
		name, body, wrong string // wrong is a part of the error; empty accepts
	}{
		{"result", `{"jsonrpc":"2.0","id":"1","result":{"message":{}}}`, ""},
		{"other order and white space", " {\n\"result\" : { \"a\" : [1,{\"b\":\"}]\"}] } , \"id\" : \"1\" }\n", ""},
		{"escaped quotes", `{"id":"1","result":{"text":"a \"quoted\\\" word"}}`, ""},
		{"error", `{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"no"}}`, "JSON-RPC error"},
		{"error beside a result", `{"id":"1","result":{},"error":{"code":1}}`, "JSON-RPC error"},
		{"a result only inside", `{"id":"1","params":{"result":{}}}`, "no result object"},
		{"null result", `{"id":"1","result":null}`, "no result object"},
		{"another request's id", `{"id":"2","result":{}}`, `reply is for id "2"`},
		{"id as a number", `{"id":1,"result":{}}`, "reply is for id 1"},
		{"no id", `{"result":{}}`, "reply is for id"},
		{"empty object", `{}`, "no result object"},
		{"empty", ``, "not a JSON object"},
		{"an array", `[{"id":"1","result":{}}]`, "not a JSON object"},
		{"cut off", `{"id":"1","result":{"message":{}`, "not a JSON object"},
		{"cut off in a string", `{"id":"1","result":{"text":"abc`, "not a JSON object"},
		{"cut off after an escape", `{"id":"1\`, "not a JSON object"},
		{"something behind", `{"id":"1","result":{}}{}`, "not a JSON object"},
		{"no comma", `{"id":"1" "result":{}}`, "not a JSON object"},
		{"no colon", `{"id" "1"}`, "not a JSON object"},
		{"HTML", `<html>502</html>`, "not a JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkReply([]byte(tt.body), []byte(`"1"`))
			switch {
			case tt.wrong == "" && err != nil:
				t.Errorf("checkReply(%s) = %v, want nil", tt.body, err)
			case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
				t.Errorf("checkReply(%s) = %v, want an error with %q", tt.body, err, tt.wrong)
			}
		})
	}
}

// Of every valid object the scanner must find the same members as the standard
// library, and of anything at all it must return.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[{"c":"]}"}],"d":"\"\\"}`, `{"a":{"b":{"c":null}}} `, `{"a`, `[1]`, `{"a":tru,}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		found := map[string]string{}
		err := members(doc, func(name, value []byte) { found[string(name)] = string(value) })
		var want map[string]json.RawMessage
		if json.Unmarshal(doc, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("members(%q) = %v, but it is a valid object", doc, err)
		}
		for name, value := range found {
			var plain string
			if json.Unmarshal([]byte(`"`+name+`"`), &plain) != nil {
				t.Fatalf("members(%q): name %q is no JSON string", doc, name)
			}
			if plain == name && string(want[plain]) != value {
				t.Fatalf("members(%q): %q is %q, want %q", doc, name, value, want[plain])
			}
		}
	})
}
