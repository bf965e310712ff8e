package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		name, in, want string
		ok             bool
	}{
		{"passing", `
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`, "ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n", true},
		{"failing", `
{"Action":"output","Package":"p","Test":"TestA","Output":"why\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`, "why\nFAIL\tp\t0.1s\n0 passed, 1 failed, 0 skipped\n", false},
		{"skipping says why", `
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no Node\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
`, "skipped p TestA: a_test.go:1: no Node\n1 passed, 0 failed, 1 skipped\n", true},
		{"crash outside a test", `
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"panic: x\n"}
{"Action":"fail","Package":"p"}
`, "panic: x\n1 passed, 0 failed, 0 skipped\n", false},
		{"does not build", `
{"ImportPath":"p","Action":"build-output","Output":"p.go:1: syntax error\n"}
{"Action":"fail","Package":"p","Elapsed":0}
`, "p.go:1: syntax error\n0 passed, 0 failed, 0 skipped\n", false},
		{"nothing ran", "", "0 passed, 0 failed, 0 skipped\n", false},
	} {
		var out bytes.Buffer
		s := &summary{out: &out, output: map[string][]string{}}
		if err := s.read(strings.NewReader(strings.TrimPrefix(test.in, "\n"))); err != nil {
			t.Fatal(err)
		}
		ok := s.close()
		if ok != test.ok || out.String() != test.want {
			t.Errorf("%s: ok %t, want %t; got:\n%swant:\n%s", test.name, ok, test.ok, out.String(), test.want)
		}
	}
}
