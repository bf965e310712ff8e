package jsonwire

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func orderMethod(method string) *Shape {
	if method == "Order" {
		return ShapeOf[order]()
	}
	return nil
}

func TestParseCall(t *testing.T) {
	const params = `{"orderId":"o1"}`
	tests := []struct {
		name, body string
		id, method string
		code       int
		problem    string // path of the first problem
	}{
		{"plain", `{"jsonrpc":"2.0","id":1,"method":"Order","params":` + params + `}`, "1", "Order", 0, ""},
		{"params first", `{"params":` + params + `,"method":"Order","id":"a\n","jsonrpc":"2.0"}`, `"a\n"`, "Order", 0, ""},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"Order","params":` + params + `}`, "null", "Order", 0, ""},
		{"big number stays", `{"jsonrpc":"2.0","id":12345678901234567890.0,"method":"Order","params":` + params + `}`, "12345678901234567890.0", "Order", 0, ""},
		{"unknown member", `{"jsonrpc":"2.0","id":1,"method":"Order","params":` + params + `,"meta":{}}`, "1", "Order", 0, ""},

		{"not JSON", `{"jsonrpc":"2.0","id":1,`, "", "", CodeParse, ""},
		{"empty", ``, "", "", CodeParse, ""},
		{"trailing", `{"jsonrpc":"2.0","id":1,"method":"Order","params":` + params + `} 1`, "", "", CodeParse, ""},
		{"duplicate id", `{"jsonrpc":"2.0","id":1,"id":2,"method":"Order"}`, "", "", CodeParse, "/id"},
		{"fault inside params", `{"jsonrpc":"2.0","id":1,"method":"Order","params":{"orderId":}}`, "", "", CodeParse, "/params/orderId"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"Order"}]`, "", "", CodeInvalidRequest, ""},
		{"empty batch", `[]`, "", "", CodeInvalidRequest, ""},
		{"string", `"Order"`, "", "", CodeInvalidRequest, ""},
		{"wrong version", `{"jsonrpc":"1.0","id":1,"method":"Order"}`, "1", "Order", CodeInvalidRequest, "/jsonrpc"},
		{"no version", `{"id":1,"method":"Order"}`, "1", "Order", CodeInvalidRequest, "/jsonrpc"},
		{"number version", `{"jsonrpc":2.0,"id":1,"method":"Order"}`, "1", "Order", CodeInvalidRequest, "/jsonrpc"},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"Order"}`, "", "Order", CodeInvalidRequest, "/id"},
		{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"Order"}`, "", "Order", CodeInvalidRequest, "/id"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, "1", "", CodeInvalidRequest, "/method"},
		{"number method", `{"jsonrpc":"2.0","id":1,"method":7}`, "1", "", CodeInvalidRequest, "/method"},
		{"misspelt member", `{"jsonrpc":"2.0","ID":1,"method":"Order"}`, "", "Order", CodeInvalidRequest, "/ID"},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"order","params":{"x":1}}`, "1", "order", CodeMethodNotFound, ""},
		{"array params", `{"jsonrpc":"2.0","id":1,"method":"Order","params":[1]}`, "1", "Order", CodeInvalidParams, ""},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"Order"}`, "1", "Order", CodeInvalidParams, "/orderId"},
		{"null params", `{"jsonrpc":"2.0","id":1,"method":"Order","params":null}`, "1", "Order", CodeInvalidParams, "/orderId"},
		{"bad params before the id", `{"jsonrpc":"2.0","method":"Order","params":{"lines":[{}]},"id":9}`, "9", "Order", CodeInvalidParams, "/lines/0/sku"},
		{"bad params before the method", `{"params":{"lines":[{}]},"jsonrpc":"2.0","method":"Order","id":9}`, "9", "Order", CodeInvalidParams, "/lines/0/sku"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call, err := ParseCall([]byte(tt.body), orderMethod, CheckOptions{})
			code, problem := 0, ""
			if err != nil {
				code = err.Code
				if len(err.Problems) > 0 {
					problem = err.Problems[0].Path
				}
			}
			got := fmt.Sprintf("id %s method %s code %d problem %s", string(call.ID), call.Method, code, problem)
			want := fmt.Sprintf("id %s method %s code %d problem %s", tt.id, tt.method, tt.code, tt.problem)
			if got != want {
				t.Errorf("ParseCall(%s)\ngot  %s (%v)\nwant %s", tt.body, got, err, want)
			}
			if err == nil && string(tt.body[call.ParamsOffset:call.ParamsOffset+len(call.Params)]) != params {
				t.Errorf("params %s at %d", call.Params, call.ParamsOffset)
			}
		})
	}
	call, err := ParseCall([]byte(`{"jsonrpc":"2.0","method":"Order","params":`+params+`}`), orderMethod, CheckOptions{})
	if err != nil || !call.Notification {
		t.Errorf("a call without id: %+v, %v; want a notification", call, err)
	}
	call, err = ParseCall([]byte(`{"jsonrpc":"1.0","method":"Order"}`), orderMethod, CheckOptions{})
	if err == nil || call.Notification {
		t.Errorf("what is no request is no notification: %+v, %v", call, err)
	}
}

func TestParseAnswer(t *testing.T) {
	tests := []struct {
		name, body            string
		result, failure, want string // want is the first problem
	}{
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"sku":"a"}}`, `{"sku":"a"}`, "", ""},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","data":[1]}}`, "", `{"code":-1,"message":"m","data":[1]}`, ""},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null,"result":{"sku":"a"}}`, `{"sku":"a"}`, "", ""},
		{"neither", `{"jsonrpc":"2.0","id":1}`, "", "", "a response has a result or an error, this has neither"},
		{"both", `{"jsonrpc":"2.0","id":1,"result":{"sku":"a"},"error":{"code":1}}`, `{"sku":"a"}`, `{"code":1}`, "a response has a result or an error, this has both"},
		{"result null", `{"jsonrpc":"2.0","id":1,"result":null}`, "", "", "/result: must be an object, not null"},
		{"bad result", `{"jsonrpc":"2.0","id":1,"result":{}}`, "{}", "", "/result/sku: is required"},
		{"version", `{"jsonrpc":"1.0","id":1,"result":{"sku":"a"}}`, `{"sku":"a"}`, "", `/jsonrpc: must be "2.0"`},
		{"code missing", `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, "", `{"message":"m"}`, "/error/code: is required"},
		{"HTML", `<html>`, "", "", "not valid JSON: invalid character '<' at start of value"},
		{"array", `[]`, "", "", "must be an object, not an array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, problems := ParseAnswer([]byte(tt.body), ShapeOf[line](), CheckOptions{})
			got := ""
			if problems != nil {
				got = problems[0].Problem
				if problems[0].Path != "" {
					got = problems[0].Path + ": " + got
				}
			}
			if got != tt.want || problems == nil && (string(a.Result) != tt.result || string(a.Error) != tt.failure) {
				t.Errorf("ParseAnswer(%s) = result %s, error %s, problem %q; want %s, %s, %q", tt.body, a.Result, a.Error, got, tt.result, tt.failure, tt.want)
			}
		})
	}
}

func TestSameID(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1`, true}, {`1`, `1.0`, true}, {`1`, `10e-1`, true}, {`1`, `"1"`, false}, {`"a"`, `"\u0061"`, true},
		{`null`, `null`, true}, {`null`, `0`, false}, {``, `1`, false}, {`"a"`, `"b"`, false},
	} {
		if got := SameID(jsontext.Value(tt.a), jsontext.Value(tt.b)); got != tt.want {
			t.Errorf("SameID(%s, %s) = %v", tt.a, tt.b, got)
		}
	}
}

func FuzzParseCall(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"Order","params":{"orderId":"o1"}}`))
	f.Add([]byte(`{"params":{},"id":"x","method":"Order","jsonrpc":"2.0"}`))
	f.Add([]byte(`[{}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","ID":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := ParseCall(body, orderMethod, CheckOptions{})
		if call.ID != nil && Valid(call.ID, Limits{}) != nil {
			t.Fatalf("id %q is no JSON", call.ID)
		}
		if err != nil || call.Notification {
			return
		}
		written := AppendCall(nil, call.ID, call.Method, call.Params)
		again, err := ParseCall(written, orderMethod, CheckOptions{})
		if err != nil || string(again.ID) != string(call.ID) || string(again.Params) != string(call.Params) {
			t.Fatalf("%s written as %s reads %+v, %v", body, written, again, err)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"sku":"a"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, problems := ParseAnswer(body, ShapeOf[line](), CheckOptions{})
		if problems == nil && (a.Result == nil) == (a.Error == nil) {
			t.Fatalf("%s passes with result %s and error %s", body, a.Result, a.Error)
		}
	})
}
