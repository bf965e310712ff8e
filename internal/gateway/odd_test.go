package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/control"
)

// TestMethodsOfNobody: a method's name that a caller makes up is no label of a
// metric, and long ones are not recorded whole.
func TestMethodsOfNobody(t *testing.T) {
	m, _ := start(t, nil)
	key := m.Key("alice", "")
	for _, name := range []string{"MadeUpMethod", strings.Repeat("x", 5000)} {
		post(t, m.URL("agent"), key, `{"jsonrpc":"2.0","id":1,"method":"`+name+`","params":{}}`, nil)
	}
	for _, c := range m.Calls(control.CallFilter{Agent: "agent"}) {
		if len(c.Method) > 100 {
			t.Errorf("a method of %d bytes is recorded", len(c.Method))
		}
	}
	resp, err := http.Get(m.Ready.Ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "MadeUpMethod") || strings.Contains(string(text), "xxxxxxxx") {
		t.Error("a made-up method is a label of a metric")
	}
}
