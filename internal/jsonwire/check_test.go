package jsonwire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// A small protocol to check against.
type order struct {
	ID       string            `json:"orderId" wire:"required,nonempty,id,fact=id"`
	Count    *int32            `json:"count,omitzero" wire:"min=1,max=10,fact=count"`
	Ratio    float64           `json:"ratio,omitzero"`
	Paid     bool              `json:"paid,omitzero"`
	Lines    []line            `json:"lines,omitzero" wire:"nonempty"`
	Old      []line            `json:"old,omitzero" wire:"quiet"`
	ByName   map[string]line   `json:"byName,omitzero"`
	Free     jsontext.Value    `json:"free,omitzero" wire:"object"`
	Any      jsontext.Value    `json:"any,omitzero"`
	Color    color             `json:"color,omitzero"`
	Labels   map[string]string `json:"labels,omitzero"`
	Contents *contents         `json:"contents,omitzero"`
	Unknown  jsontext.Value    `json:",embed"`
}

type line struct {
	SKU string `json:"sku" wire:"required,fact=sku"`
}

type contents struct {
	Text *string        `json:"text,omitzero" wire:"oneof"`
	Data jsontext.Value `json:"data,omitzero" wire:"oneof"`
}

type color string

func (color) CheckWire(raw jsontext.Value, lax bool) (problem, fix string) {
	if s := String(raw); s == "red" || lax && s == "RED" {
		return "", ""
	}
	return "is no colour", "use red"
}

func TestCheck(t *testing.T) {
	const ok = `"orderId":"o1"`
	tests := []struct {
		name, doc string
		want      []string // Kind, path and problem of each
	}{
		{"all good", `{"orderId":"o1","count":10,"ratio":1.5,"paid":true,"lines":[{"sku":"a"}],"byName":{"x/y":{"sku":"b"}},"free":{"a":[]},"any":3,"color":"red","labels":{"k":"v"},"contents":{"text":""}}`, nil},
		{"unknown members pass", `{` + ok + `,"extra":{"deep":[1,{"a":2}]}}`, nil},
		{"null is absent", `{` + ok + `,"count":null,"lines":null,"free":null,"color":null,"contents":null}`, nil},
		{"null is a value of any", `{` + ok + `,"any":null,"contents":{"data":null}}`, nil},
		{"escaped name is the same name", `{"order\u0049d":"o1"}`, nil},
		{"white space", " {\n\t\"orderId\" : \"o1\" , \"lines\" : [ { \"sku\" : \"a\" } ] } \n", nil},

		{"missing", `{}`, []string{"value /orderId is required"}},
		{"required null", `{"orderId":null}`, []string{"value /orderId is required"}},
		{"empty string", `{"orderId":""}`, []string{"value /orderId must not be empty"}},
		{"empty array", `{` + ok + `,"lines":[ ]}`, []string{"value /lines must not be empty"}},
		{"id with NUL", `{"orderId":"a\u0000"}`, []string{"value /orderId must have at most 1024 bytes and no control characters"}},
		{"long id", `{"orderId":"` + strings.Repeat("x", 1025) + `"}`, []string{"value /orderId must have at most 1024 bytes and no control characters"}},
		{"longest id", `{"orderId":"` + strings.Repeat("x", 1024) + `"}`, nil},
		{"nested missing", `{` + ok + `,"lines":[{"sku":"a"},{}]}`, []string{"value /lines/1/sku is required"}},
		{"map element", `{` + ok + `,"byName":{"x/y":{}}}`, []string{"value /byName/x~1y/sku is required"}},
		{"null element", `{` + ok + `,"lines":[null]}`, []string{"value /lines/0 must not be null"}},
		{"wrong kinds", `{"orderId":7,"paid":"yes","lines":{},"free":[],"count":"3"}`, []string{
			"value /orderId must be a string, not a number", "value /paid must be a boolean, not a string",
			"value /lines must be an array, not an object", "value /free must be an object, not an array",
			"value /count must be a number, not a string"}},
		{"out of range", `{` + ok + `,"count":0}`, []string{"value /count must be from 1 to 10"}},
		{"over range", `{` + ok + `,"count":11}`, []string{"value /count must be from 1 to 10"}},
		{"fraction", `{` + ok + `,"count":1.5}`, []string{"value /count must be a whole number of 32 bits"}},
		{"huge", `{` + ok + `,"count":99999999999}`, []string{"value /count must be a whole number of 32 bits"}},
		{"checker", `{` + ok + `,"color":"blue"}`, []string{"value /color is no colour"}},
		{"strict checker", `{` + ok + `,"color":"RED"}`, []string{"value /color is no colour"}},
		{"oneof none", `{` + ok + `,"contents":{}}`, []string{"value /contents has none of text, data"}},
		{"oneof two", `{` + ok + `,"contents":{"text":"a","data":1}}`, []string{"value /contents has more than one of text, data"}},
		{"oneof null text", `{` + ok + `,"contents":{"text":null,"data":1}}`, nil},

		{"snake case", `{"order_id":"o1"}`, []string{`name /order_id unknown member "order_id"`, "value /orderId is required"}},
		{"case", `{"orderid":"o1",` + ok + `}`, []string{`name /orderid unknown member "orderid"`}},
		{"case inside", `{` + ok + `,"lines":[{"sku":"a","Sku":"b"}]}`, []string{`name /lines/0/Sku unknown member "Sku"`}},
		{"same word elsewhere is free", `{` + ok + `,"SKU":1,"free":{"order_id":1}}`, nil},

		{"duplicate", `{` + ok + `,` + ok + `}`, []string{"syntax /orderId the name is used twice in one object"}},
		{"duplicate by escape", `{` + ok + `,"order\u0049d":"o2"}`, []string{"syntax /orderId the name is used twice in one object"}},
		{"duplicate in free data", `{` + ok + `,"free":{"a":1,"a":2}}`, []string{"syntax /free/a the name is used twice in one object"}},
		{"invalid UTF-8", "{\"orderId\":\"\xff\"}", []string{"syntax /orderId not valid JSON: invalid UTF-8"}},
		{"lone surrogate", `{"orderId":"\ud800"}`, []string{"syntax /orderId not valid JSON: invalid surrogate pair `\\ud800\"}` in string"}},
		{"two values", `{` + ok + `}{}`, []string{"syntax  more than one JSON value"}},
		{"trailing text", `{` + ok + `}x`, []string{"syntax  not valid JSON: invalid character 'x' at start of value"}},
		{"empty", ``, []string{"syntax  not valid JSON: the text ends too early"}},
		{"cut", `{"orderId":"o`, []string{"syntax /orderId not valid JSON: the text ends too early"}},
		{"no object", `[]`, []string{"value  must be an object, not an array"}},
		{"comment", `{` + ok + `/*x*/}`, []string{"syntax  not valid JSON: invalid character '/' after object value (expecting ',' or '}')"}},
		{"too deep", `{` + ok + `,"any":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, []string{"limit  objects and arrays nest more than 128 deep"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range ShapeOf[order]().Check([]byte(tt.doc), CheckOptions{}) {
				got = append(got, fmt.Sprintf("%s %s %s", e.Kind, e.Path, e.Problem))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Check(%s) (-want +got)\n%s", tt.doc, diff)
			}
		})
	}
}

func TestCheckLax(t *testing.T) {
	doc := []byte(`{"orderId":"o1","color":"RED"}`)
	if got := ShapeOf[order]().Check(doc, CheckOptions{Lax: true}); got != nil {
		t.Errorf("lax check of %s: %v", doc, got)
	}
}

func TestCheckLaxList(t *testing.T) {
	type page struct {
		Items []line `json:"items" wire:"required"`
		Next  string `json:"next" wire:"required"`
	}
	doc := []byte(`{"items":null,"next":null}`)
	for lax, want := range map[bool]int{false: 2, true: 1} {
		if got := ShapeOf[page]().Check(doc, CheckOptions{Lax: lax}); len(got) != want {
			t.Errorf("lax %v: %v, want %d problems", lax, got, want)
		}
	}
}

func TestCheckCollectsBoundedly(t *testing.T) {
	doc := `{"orderId":"o1","lines":[` + strings.Repeat(`{},`, 1000) + `{}]}`
	got := ShapeOf[order]().Check([]byte(doc), CheckOptions{})
	if len(got) != MaxProblems {
		t.Errorf("%d problems, want %d", len(got), MaxProblems)
	}
}

func TestLimits(t *testing.T) {
	doc := []byte(`{"orderId":"[[[[[","any":[[1]]}`)
	if e := Valid(doc, Limits{MaxDepth: 3}); e != nil {
		t.Errorf("brackets in strings count as depth: %v", e)
	}
	if e := Valid(doc, Limits{MaxDepth: 2}); e == nil || e.Kind != KindLimit {
		t.Errorf("depth 3 within 2: %v", e)
	}
	if e := Valid(doc, Limits{MaxBytes: 10}); e == nil || e.Kind != KindLimit {
		t.Errorf("%d bytes within 10: %v", len(doc), e)
	}
}

type factList []string

func (l *factList) Fact(name string, raw jsontext.Value) {
	*l = append(*l, name+"="+string(raw))
}

func TestFacts(t *testing.T) {
	doc := ` { "old" : [ {"sku":"hidden"} ] , "orderId" : "o\u0031", "count":3, "lines":[{"sku":"a"}, {"sku" : "b"}] }`
	var got factList
	if problems := ShapeOf[order]().Check([]byte(doc), CheckOptions{Sink: &got}); problems != nil {
		t.Fatal(problems)
	}
	want := factList{`id="o\u0031"`, "count=3", `sku="a"`, `sku="b"`}
	if !slices.Equal(got, want) {
		t.Errorf("facts %q, want %q", got, want)
	}
}

func TestUnmarshalKeepsUnknown(t *testing.T) {
	doc := `{"orderId":"o1","count":3,"contents":{"data":null},"x-new":{"a":[1,2.50]},"other":"é"}`
	var v order
	if err := Unmarshal([]byte(doc), &v, Limits{}); err != nil {
		t.Fatal(err)
	}
	got, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != doc {
		t.Errorf("round trip gives\n%s\nwant\n%s", got, doc)
	}
}

func TestUnmarshalNamesThePlace(t *testing.T) {
	var v order
	err := Unmarshal([]byte(`{"orderId":"o1","Count":3}`), &v, Limits{})
	const want = `/Count: unknown member "Count"; write "count"`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if v.ID != "" {
		t.Errorf("a refused document changed the value: %+v", v)
	}
}

func TestShapeRefusesUnknownOption(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a misspelt wire option must not compile")
		}
	}()
	type bad struct {
		A string `json:"a" wire:"requierd"`
	}
	ShapeOf[bad]()
}

func FuzzCheck(f *testing.F) {
	for _, doc := range []string{`{"orderId":"o1"}`, `{"orderId":"o1","lines":[{"sku":"a"}],"any":[[{"a":null}]]}`, `{"order_id":1,"contents":{}}`, `{"orderId":"\ud83d\ude00","labels":{"a":"b"}}`, `[`, `{"a":1,"a":2}`, "\xff"} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := string(doc)
		var facts factList
		problems := ShapeOf[order]().Check(doc, CheckOptions{Sink: &facts})
		if string(doc) != before {
			t.Fatal("the check changed the document")
		}
		invalid := Valid(doc, Limits{})
		var v order
		all := UnmarshalAll(doc, &v, CheckOptions{})
		if (problems == nil) != (all == nil) {
			t.Fatalf("check says %v, decoding %v", problems, all)
		}
		if problems != nil {
			return
		}
		if invalid != nil {
			t.Fatalf("check passes what is not JSON: %v", invalid)
		}
		out, err := Marshal(v)
		if err != nil {
			t.Fatalf("encode what was decoded from %s: %v", doc, err)
		}
		var again order
		if problems := UnmarshalAll(out, &again, CheckOptions{}); problems != nil {
			t.Fatalf("our own output is refused: %s: %v", out, problems)
		}
		out2, err := Marshal(again)
		if err != nil || string(out) != string(out2) {
			t.Fatalf("not stable: %s then %s (%v)", out, out2, err)
		}
	})
}
