package jsonwire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestEdits(t *testing.T) {
	tests := []struct{ op, doc, path, value, want string }{
		{"set", `{}`, "/a", `1`, `{"a":1}`},
		{"set", `{ }`, "/a", `1`, `{"a":1 }`},
		{"set", `{"b":2}`, "/a", `1`, `{"a":1,"b":2}`},
		{"set", `{"b": 2 , "a" : [1, 2] }`, "/a", `"x"`, `{"b": 2 , "a" : "x" }`},
		{"set", `{"m":{"a":1.0}}`, "/m/b", `null`, `{"m":{"b":null,"a":1.0}}`},
		{"set", `{"a/b":{"~":1}}`, "/a~1b/~0", `2`, `{"a/b":{"~":2}}`},
		{"set", `{"\u0061":1}`, "/a", `2`, `{"\u0061":2}`},
		{"delete", `{"a":1}`, "/a", ``, `{}`},
		{"delete", `{ "a" : 1 }`, "/a", ``, `{  }`},
		{"delete", `{"a":1,"b":2,"c":3}`, "/a", ``, `{"b":2,"c":3}`},
		{"delete", `{"a":1,"b":2,"c":3}`, "/b", ``, `{"a":1,"c":3}`},
		{"delete", `{"a":1, "b":2 }`, "/b", ``, `{"a":1 }`},
		{"delete", `{"m":{"a":{"x":"},"}},"n":1e400}`, "/m/a", ``, `{"m":{},"n":1e400}`},
		{"delete", `{"a":1}`, "/b", ``, `{"a":1}`},
		{"delete", `{"a":1}`, "/m/b", ``, `{"a":1}`},
		{"delete", `{"a":1}`, "/a/b", ``, `{"a":1}`},
	}
	for _, tt := range tests {
		var got []byte
		var err error
		if tt.op == "set" {
			got, err = Set([]byte(tt.doc), tt.path, jsontext.Value(tt.value))
		} else {
			got, err = Delete([]byte(tt.doc), tt.path)
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s %s in %s = %s, %v; want %s", tt.op, tt.path, tt.doc, got, err, tt.want)
		}
	}
	if _, err := Set([]byte(`{"a":1}`), "/m/b", jsontext.Value("1")); !errors.Is(err, ErrNoParent) {
		t.Errorf("set below nothing: %v, want ErrNoParent", err)
	}
	if _, err := Set([]byte(`{"a":`), "/b", jsontext.Value("1")); err == nil {
		t.Error("set in half a document must fail")
	}
}

// What is set can be read, and taking it out again restores every byte.
func TestSetThenDelete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(rapid.SampledFrom([]string{`{}`, `{ }`, "{\n \"b\": 1\n}", `{"m":{"k":[1,{"a":2}]},"z":"\"}"}`, `{"m":{}}`, `{"m": { "q":0 } }`}).Draw(t, "doc"))
		name := rapid.StringMatching(`[a-zA-Z/~ é"\\]{1,8}`).Filter(func(s string) bool { return s != "m" && s != "b" && s != "z" && s != "k" && s != "q" }).Draw(t, "name")
		path := "/" + EscapePointer(name)
		if _, ok := Get(doc, "/m"); ok && rapid.Bool().Draw(t, "inner") {
			path = "/m" + path
		}
		value := jsontext.Value(rapid.SampledFrom([]string{`1`, `"x,}"`, `null`, `{"a":[]}`}).Draw(t, "value"))
		set, err := Set(doc, path, value)
		if err != nil {
			t.Fatal(err)
		}
		if e := Valid(set, Limits{}); e != nil {
			t.Fatalf("%s is no JSON: %v", set, e)
		}
		if got, ok := Get(set, path); !ok || !bytes.Equal(got, value) {
			t.Fatalf("read %s back from %s: %s", path, set, got)
		}
		back, err := Delete(set, path)
		if err != nil || !bytes.Equal(back, doc) {
			t.Fatalf("set and delete %s turn %s into %s (%v)", path, doc, back, err)
		}
	})
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[]}`), "/a/b")
	f.Add([]byte(`{"a":1 ,"b":2}`), "/a")
	f.Add([]byte(`{"\u0061":"}"}`), "/a")
	f.Add([]byte(`[1]`), "/0")
	f.Fuzz(func(t *testing.T, doc []byte, path string) {
		if Valid(doc, Limits{}) != nil {
			return
		}
		set, err := Set(doc, path, jsontext.Value(`"v"`))
		if err == nil {
			if e := Valid(set, Limits{}); e != nil {
				t.Fatalf("set %q in %s gives %s: %v", path, doc, set, e)
			}
			if got, ok := Get(set, path); !ok || string(got) != `"v"` {
				t.Fatalf("set %q in %s gives %s, read back %s", path, doc, set, got)
			}
		}
		cut, err := Delete(doc, path)
		if err == nil {
			if e := Valid(cut, Limits{}); e != nil {
				t.Fatalf("delete %q in %s gives %s: %v", path, doc, cut, e)
			}
			if _, ok := Get(cut, path); ok && path != "" {
				t.Fatalf("delete %q in %s leaves it: %s", path, doc, cut)
			}
		}
	})
}
