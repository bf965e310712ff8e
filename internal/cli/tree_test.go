package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func TestDrawTree(t *testing.T) {
	ended := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one := func(id, parent string, link call.LinkKind, caller, agent, outcome string, ms float64) control.Call {
		c := control.Call{ID: id, Root: "r", Parent: parent, Link: link, Caller: parley.PrincipalName(caller), Agent: parley.AgentName(agent), Method: "SendMessage", Outcome: outcome, TotalMs: ms}
		if outcome != "open" {
			c.Ended = &ended
		}
		return c
	}
	calls := []control.Call{
		one("r", "", "root", "alice", "planner", "ok", 912.4),
		one("a", "r", "parent", "planner", "search", "ok", 120),
		one("b", "a", "parent", "search", "archive", "crash", 3.04),
		one("c", "r", "parent", "planner", "writer", "open", 0),
		one("d", "", "turn", "alice", "planner", "ok", 30),
		one("e", "gone", "parent", "writer", "search", "ok", 1),
	}
	calls[2].Reason = "dial"
	for _, tc := range []struct {
		name  string
		calls []control.Call
		asked string
		want  string
	}{
		{"every call is drawn below its parent, a turn and an orphan below the root", calls, "b", `
alice → planner                  SendMessage   ok               912.4 ms   r
├─ planner → search              SendMessage   ok               120.0 ms   a
│  └─ search → archive           SendMessage   crash (dial)       3.0 ms   b ←
├─ planner → writer              SendMessage   open                    -   c
├─ alice → planner (next turn)   SendMessage   ok                30.0 ms   d
└─ writer → search               SendMessage   ok                 1.0 ms   e
`},
		{"a root that is no longer kept is said to be gone", calls[1:3], "a", `
r   no longer on record
└─ planner → search      SendMessage   ok               120.0 ms   a ←
   └─ search → archive   SendMessage   crash (dial)       3.0 ms   b
`},
		{"a circle ends", []control.Call{
			one("r", "", "root", "alice", "planner", "ok", 1),
			one("a", "b", "parent", "x", "y", "ok", 1), one("b", "a", "parent", "y", "x", "ok", 1),
		}, "r", `
alice → planner   SendMessage   ok       1.0 ms   r ←
├─ x → y          SendMessage   ok       1.0 ms   a
└─ y → x          SendMessage   ok       1.0 ms   b
`},
	} {
		var out bytes.Buffer
		if err := drawTree(&out, style{}, control.CallTree{Root: "r", Calls: tc.calls}, tc.asked); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, "\n"+out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
