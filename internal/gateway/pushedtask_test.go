package gateway

import (
	"testing"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Whatever JSON an agent sends, it names one task or none.
func FuzzPushedTask(f *testing.F) {
	for _, seed := range []string{
		`{"task":{"id":"t","status":{}}}`, `{"statusUpdate":{"taskId":"t"}}`, `{"id":"t","status":{"state":"x"}}`,
		`{"kind":"task","id":"t","status":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t"}}`, `{"taskId":"t","message":{"taskId":"u"}}`,
		`[]`, `"t"`, `{"result":{"result":{"taskId":"t"}}}`, `{"task":"t"}`, `{"taskId":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if jsonwire.Valid(body, jsonwire.Limits{MaxBytes: 1 << 16, MaxDepth: 32}) != nil {
			return
		}
		if id, ok := pushedTask(body); ok != (id != "") {
			t.Errorf("task %q, %t", id, ok)
		}
	})
}
