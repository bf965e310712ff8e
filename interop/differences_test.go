package interop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadAllowed(t *testing.T) {
	got, err := ReadAllowed(strings.NewReader("# a comment\n\ngo-*  /list/steps/*/op  because of this\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Allowed{{Line: 3, Pair: "go-*", Place: "/list/steps/*/op", Reason: "because of this"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, problem := range map[string]string{
		"* /list\n":           "line 1: want PAIR PLACE REASON",
		"\n* /list[ reason\n": "line 2: \"/list[\"",
	} {
		if _, err := ReadAllowed(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("ReadAllowed(%q) = %v, want an error with %q", text, err, problem)
		}
	}
}

func TestAllowedCovers(t *testing.T) {
	a := Allowed{Pair: "go-*", Place: "/errors/steps/*/error/message"}
	tests := []struct {
		pair, place string
		want        bool
	}{
		{"go-go", "/errors/steps/3/error/message", true},
		{"js-go", "/errors/steps/3/error/message", false},
		{"go-go", "/errors/steps/3/error/reason", false},
		{"go-go", "/errors/steps/3/x/error/message", false},
	}
	for _, tt := range tests {
		if got := a.Covers(tt.pair, tt.place); got != tt.want {
			t.Errorf("Covers(%q, %q) = %t, want %t", tt.pair, tt.place, got, tt.want)
		}
	}
	below := Allowed{Pair: "*", Place: "/list/steps/[45]/**"}
	for place, want := range map[string]bool{"/list/steps/4/a": true, "/list/steps/5/a/b/0": true, "/list/steps/5": false, "/list/steps/3/a": false} {
		if got := below.Covers("go-go", place); got != want {
			t.Errorf("below: Covers(%q) = %t, want %t", place, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	document := func(result string) Document {
		return Document{Scenario: "get", Client: "go", Steps: []Step{{Op: "get", Result: json.RawMessage(result)}}}
	}
	tests := []struct {
		name, direct, parley string
		want                 []string
	}{
		{"equal", `{"a":[1,{"b":"c"}]}`, `{"a":[1,{"b":"c"}]}`, nil},
		{"order of members and form of numbers", `{"a":1,"b":2}`, `{"b":2.0,"a":1}`, nil},
		{"changed", `{"a":[1,2]}`, `{"a":[1,3]}`, []string{`/get/steps/0/result/a/1 2 3`}},
		{"lost", `{"a":{"b":1}}`, `{}`, []string{"/get/steps/0/result  {}", "/get/steps/0/result/a/b 1 "}},
		{"added", `{"a":1}`, `{"a":1,"x/y":""}`, []string{`/get/steps/0/result/x~1y  ""`}},
		{"null is not an empty list", `{"a":null}`, `{"a":[]}`, []string{"/get/steps/0/result/a null []"}},
		{"order of a list", `{"a":["x","y"]}`, `{"a":["y","x"]}`, []string{
			`/get/steps/0/result/a/0 "x" "y"`, `/get/steps/0/result/a/1 "y" "x"`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := Compare(document(tt.direct), document(tt.parley))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range found {
				got = append(got, d.Place+" "+d.Direct+" "+d.Parley)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
