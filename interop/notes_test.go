package interop

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadNotes(t *testing.T) {
	for text, problem := range map[string]string{
		"- why: w\n  at: a/0\n":                              "note 1: why, at and from are needed",
		"- why: w\n  at: a/0\n  from: '('\n":                 "note 1: from: ",
		"- why: w\n  at: 'a/['\n  from: x\n":                 "note 1: \"a/[\"",
		"- why: w\n  at: a/0\n  from: x\n  because: of it\n": "unknown field",
	} {
		if _, err := ReadNotes(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("ReadNotes(%q) = %v, want an error with %q", text, err, problem)
		}
	}
}

func TestExpect(t *testing.T) {
	notes, err := ReadNotes(strings.NewReader(`
- {why: one, client: js03/*, at: "files/*", from: name, to: ""}
- {why: two, agent: go/rest python/*, way: direct, at: send/1, from: "b(.)", to: "${1}b"}
- {why: three, at: send/*, from: zebra, to: ""}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Told{"send": {"ba", "bx"}, "files": {"a name"}}
	tests := []struct {
		name          string
		client, agent Endpoint
		way           Way
		told          Told
		used          []int
	}{
		{"client", Endpoint{JavaScript03, HTTPJSON}, Endpoint{Go, JSONRPC}, Through, Told{"send": {"ba", "bx"}, "files": {"a "}}, []int{0}},
		{"agent, other way", Endpoint{Go, GRPC}, Endpoint{Python, GRPC}, Through, want, nil},
		{"agent", Endpoint{Go, HTTPJSON}, Endpoint{Go, HTTPJSON}, Direct, Told{"send": {"ba", "xb"}, "files": {"a name"}}, []int{1}},
		{"both", Endpoint{JavaScript03, GRPC}, Endpoint{Python, GRPC}, Direct, Told{"send": {"ba", "xb"}, "files": {"a "}}, []int{0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			told, used := Expect(want, notes, Cell{tt.client, tt.agent}, tt.way)
			if diff := cmp.Diff(tt.told, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.used, used); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
