package stream

import (
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

func TestIDs(t *testing.T) {
	key := call.TaskKey{Agent: "a", Instance: "i", ID: "t"}
	ids := NewIDs([]byte(strings.Repeat("k", 32)))
	prefix := ids.Prefix(key)
	if seq, err := ids.Parse(key, prefix+"17"); err != nil || seq != 17 {
		t.Fatalf("read back as %d, %v", seq, err)
	}
	other := NewIDs([]byte(strings.Repeat("l", 32)))
	for what, id := range map[string]string{
		"nothing": "", "a number": "17", "a negative number": prefix + "-1", "a sign": prefix + "+1", "a leading zero": prefix + "017",
		"no number": prefix, "too large a number": prefix + "99999999999999999999", "blanks": prefix + " 17", "a long one": prefix + strings.Repeat("1", 1000),
		"another task's":          ids.Prefix(call.TaskKey{Agent: "a", Instance: "i", ID: "u"}) + "17",
		"a task's cut otherwise":  ids.Prefix(call.TaskKey{Agent: "ai", Instance: "", ID: "t"}) + "17",
		"another mesh's":          other.Prefix(key) + "17",
		"one with a line break":   prefix + "17\n",
		"one with a second event": prefix + "17-18",
	} {
		if seq, err := ids.Parse(key, id); parley.KindOf(err) != parley.Invalid {
			t.Errorf("%s: %q is read as %d, %v", what, id, seq, err)
		}
	}
}

func FuzzIDs(f *testing.F) {
	key := call.TaskKey{Agent: "a", ID: "t"}
	ids := NewIDs([]byte(strings.Repeat("k", 32)))
	f.Add(ids.Prefix(key) + "1")
	f.Fuzz(func(t *testing.T, id string) {
		seq, err := ids.Parse(key, id)
		if err == nil && (!strings.HasPrefix(id, ids.Prefix(key)) || seq < 0) {
			t.Errorf("%q is read as %d", id, seq)
		}
	})
}
