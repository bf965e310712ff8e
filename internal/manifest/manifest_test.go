package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/config"
)

// said is problems, one a line.
func said(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s: %s", p.At, p.Problem)
		if p.Fix != "" {
			fmt.Fprintf(&b, " (%s)", p.Fix)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const head = "apiVersion: parley/v1\nkind: "

func TestProblemsSayWhereAndWhatToDo(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"not YAML":       {"a: [", "f.yaml:1:4: not YAML: "},
		"no document":    {"hello", "f.yaml:1:1: is text, not a document (begin with apiVersion: parley/v1)\n"},
		"empty":          {"# nothing\n---\n", ""},
		"kind":           {head + "Agnet\nmetadata: {name: a}\n", "f.yaml:2:7: there is no kind \"Agnet\" (did you mean \"Agent\"?)\n"},
		"version":        {"apiVersion: v1\nkind: Owner\nmetadata: {name: a}\n", "f.yaml:1:13: this version of documents is not known (write parley/v1)\n"},
		"no name":        {head + "Owner\nmetadata: {}\n", "f.yaml:3:11: the name is missing (add one)\n"},
		"number as name": {head + "Owner\nmetadata: {name: 7}\n", "f.yaml:3:18: the name is a number, not text (put quotes around it)\n"},
		"bad name":       {head + "Owner\nmetadata: {name: A}\n", "f.yaml:3:18: owner name \"A\" has \"A\" at position 1: use letters a-z, digits and '-', starting with a letter\n"},
		"unknown field":  {head + "Owner\nmetadata: {name: a}\nspec:\n  descripton: x\n", "f.yaml:5:3: there is no \"descripton\" in the spec of Owner (did you mean \"description\"?)\n"},
		"missing field":  {head + "Agent\nmetadata: {name: a}\n", "f.yaml:1:1: \"url\" is missing in the spec of Agent (add it: The card's address, a base address or a bare host.)\n"},
		"enum":           {head + "Principal\nmetadata: {name: a}\nspec: {environment: stage}\n", "f.yaml:4:21: \"stage\" is no environment (known here: dev, test, staging, prod)\n"},
		"list":           {head + "Agent\nmetadata: {name: a}\nspec: {url: x, allow: b}\n", "f.yaml:4:23: allow is text, not a list (write [first, second])\n"},
		"no unit":        {head + "Limits\nmetadata: {name: default}\nspec: {call_deadline: 5}\n", "f.yaml:4:23: call_deadline is a number, not text (give it a unit, as in 5s)\n"},
		"item":           {head + "Agent\nmetadata: {name: a}\nspec: {url: x, allow: [b, 7]}\n", "f.yaml:4:27: allow is a number, not text (put quotes around it)\n"},
		"twice":          {"kind: Owner\nkind: Owner\n", "f.yaml:2:1: not YAML: "},
		"anchor":         {head + "Owner\nmetadata: &m {name: a}\n", "f.yaml:3:11: anchors, aliases and tags are not taken (write the value out)\n"},
		"tag":            {head + "Owner\nmetadata: {name: !!str a}\n", "f.yaml:3:18: anchors, aliases and tags are not taken (write the value out)\n"},
		"limits name":    {head + "Limits\nmetadata: {name: a}\n", "f.yaml:3:18: a mesh has one set of limits, and it is named \"default\" (write default)\n"},
		"restart": {head + "Limits\nmetadata: {name: default}\nspec: {card: 1MiB}\n",
			"f.yaml:4:8: limits.card cannot change while the mesh runs (set limits.card in the configuration; it needs a restart)\n"},
		"unknown limit": {head + "Limits\nmetadata: {name: default}\nspec: {streems: 7}\n", "f.yaml:4:8: there is no \"streems\" in the spec of Limits (did you mean \"streams\"?)\n"},
		"no reference":  {head + "Credential\nmetadata: {name: a}\nspec: {kind: bearer, secretRef: {}}\n", "f.yaml:4:22: the reference names not exactly one place (write file or env, one of them)\n"},
		"control":       {head + "Owner\nmetadata: {name: a}\nspec: {description: \"a\\u001bb\"}\n", "f.yaml:4:21: description holds control characters or is not UTF-8 (use one line of plain text)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f.yaml", []byte(c.in))
			got := said(problems)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestEveryProblemIsToldAtOnce(t *testing.T) {
	in := head + "Owner\nmetadata: {nam: a}\nspec: {descr: x}\n---\n" + head + "Principal\nmetadata: {name: p}\nspec: {roles: operator, owner: A}\n---\n" + head + "Owner\nmetadata: {name: fine}\n"
	docs, problems := Decode("f.yaml", []byte(in))
	if len(problems) != 5 || len(docs) != 1 || docs[0].Name != "fine" {
		t.Errorf("%d documents and:\n%s", len(docs), said(problems))
	}
}

func TestASecretIsRefusedAndNeverRepeated(t *testing.T) {
	for _, spec := range []string{
		"secret: hunter2", "token: hunter2", "Password: hunter2", "secretRef: hunter2", "secretRef: {value: hunter2}",
		"secretRef: {token: hunter2}", "kind: hunter2", "in: hunter2", "secretRef: [hunter2]", "apiKey: {x: hunter2}",
	} {
		_, problems := Decode("f.yaml", []byte(head+"Credential\nmetadata: {name: a}\nspec: {"+spec+"}\n"))
		if text := said(problems); text == "" || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %q", spec, text)
		}
	}
}

func TestCredentialsOfEveryKind(t *testing.T) {
	const ref, pem = "secretRef: {env: T}", "certificate: {chainRef: {file: c}, keyRef: {file: k}, caRef: {env: CA}}"
	const oauth2 = "oauth2: {tokenUrl: 'https://login.example.com/token', clientId: mesh, scopes: [a, b], audience: x, authStyle: post}"
	for spec, want := range map[string]string{
		"kind: oauth2, " + oauth2 + ", " + ref:             "",
		"kind: oauth2, " + oauth2 + ", " + pem + "," + ref: "",
		"kind: client_certificate, " + pem:                 "",
		"kind: bearer, " + pem + ", " + ref:                "",
		"kind: bearer, " + pem:                             `"secretRef" is missing`,
		"kind: oauth2, " + ref:                             "where tokens are had is missing",
		"kind: oauth2, name: mesh, " + oauth2 + ", " + ref: "write oauth2.clientId",
		"kind: bearer, " + oauth2 + ", " + ref:             "does not go with the kind bearer",
		"kind: client_certificate":                         "the certificate is missing",
		"kind: client_certificate, " + pem + ", " + ref:    "has no secret but its key",
		"kind: client_certificate, certificate: {chainRef: {file: c}, keyRef: {file: k, env: K}}": "f.yaml:4:69: the reference names not exactly one place",
		"kind: client_certificate, certificate: {chainRef: {file: c}}":                            `"keyRef" is missing`,
		"kind: client_certificate, certificate: {chainRef: {file: c}, key: hunter2}":              "write keyRef: {file: PATH}",
		"kind: oauth2, oauth2: {tokenUrl: x, clientId: y, secret: hunter2}, " + ref:               "no document may hold a secret",
		"kind: oauth2, oauth2: {tokenUrl: x, clientId: y, authStyle: hunter2}, " + ref:            "is no authStyle",
	} {
		docs, problems := Decode("f.yaml", []byte(head+"Credential\nmetadata: {name: a}\nspec: {"+spec+"}\n"))
		got := said(problems)
		if (want == "") != (len(docs) == 1) || !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %d documents, %q, want %q", spec, len(docs), got, want)
		}
	}
}

func TestJSONIsReadAsYAMLIs(t *testing.T) {
	in := "{\"apiVersion\": \"parley/v1\",\n  \"kind\": \"Agent\", \"metadata\": {\"name\": \"a\"},\n  \"spec\": {\"url\": \"x\", \"alow\": []}}\n{\"apiVersion\": 1}"
	_, problems := Decode("f.json", []byte(in))
	const want = "f.json:3:24: there is no \"alow\" in the spec of Agent (did you mean \"allow\"?)\nf.json:4:16: this version of documents is not known (write parley/v1)\n"
	if got := said(problems); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, broken := range []string{"{", `{"a": }`, `{"a": 1`, `{"a": 1, "a": 2}`, "{\"a\": \"\xff\"}", `{} x`} {
		if docs, problems := Decode("f.json", []byte(broken)); len(problems) == 0 {
			t.Errorf("%q was read as %v", broken, docs)
		}
	}
}

func TestADocumentSurvivesItsJSON(t *testing.T) {
	yaml := head + "Agent\nmetadata: {name: a}\nspec: {url: x, owner: o, environment: prod, allow: [b, c], instances: [{id: i, url: y, credential: true}, {id: j, url: z}]}\n---\n" +
		head + "Principal\nmetadata: {name: b}\nspec: {spiffe: ['spiffe://a/b'], dns: [c], subjects: [{issuer: 'https://i', subject: s}]}\n---\n" +
		head + "Credential\nmetadata: {name: b}\nspec: {kind: oauth2, oauth2: {tokenUrl: u, clientId: c, scopes: [s]}, certificate: {chainRef: {file: c}, keyRef: {env: K}}, secretRef: {env: S}}\n---\n" +
		head + "Credential\nmetadata: {name: a}\nspec: {kind: api_key, in: header, name: X-Key, origin: 'https://a', secretRef: {file: f}}\n---\n" +
		head + "Limits\nmetadata: {name: default}\nspec: {streams: 7, call_deadline: 12h}\n---\n" +
		head + "Principal\nmetadata: {name: p}\nspec: {roles: [admin], description: é}\n---\n" + head + "Owner\nmetadata: {name: o}\n"
	docs, problems := Decode("f.yaml", []byte(yaml))
	if len(problems) > 0 || len(docs) != 7 {
		t.Fatal(said(problems))
	}
	for _, d := range docs {
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := DecodeJSON(raw)
		if len(problems) > 0 {
			t.Fatalf("%s: %s", raw, said(problems))
		}
		again.places, d.places = nil, nil
		if !reflect.DeepEqual(again, d) {
			t.Errorf("%s became %+v", raw, again)
		}
	}
}

// TestHostileFilesEndSoon: what a file may cost is bounded by its size.
func TestHostileFilesEndSoon(t *testing.T) {
	deep := func(open string, n int) string { return strings.Repeat(open, n) }
	for name, in := range map[string]string{
		"brackets":       deep("[", MaxFile-1),
		"braces":         deep("{a: ", MaxFile/4-1),
		"dashes":         deep("- ", MaxFile/2-1),
		"questions":      deep("? ", MaxFile/2-1),
		"quoted":         "'" + deep("[", 1000),
		"colons":         deep("a: ", MaxFile/3-1),
		"many documents": deep("---\n", MaxFile/4-1),
		"many values":    "[" + deep("1,", MaxFile/2-2),
		"laughs":         "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\n",
		"too large":      deep("a", MaxFile+1),
		"indents":        indents(500),
		"JSON arrays":    `{"a":` + deep("[", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			docs, problems := Decode("f.yaml", []byte(in))
			if len(docs) != 0 || len(problems) > maxProblems+1 {
				t.Errorf("%d documents, %d problems", len(docs), len(problems))
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("took %s", took)
			} else {
				t.Logf("took %s: %.100s", took, said(problems))
			}
		})
	}
}

// indents is a mapping nested n deep.
func indents(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func TestTwoOfOneNameAreRefused(t *testing.T) {
	docs, _ := Decode("f.yaml", []byte(head+"Owner\nmetadata: {name: a}\n---\n"+head+"Principal\nmetadata: {name: a}\n---\n"+head+"Owner\nmetadata: {name: a}\n"))
	const want = "f.yaml:11:12: Owner a is declared twice; first at f.yaml:3:12 (keep one)\n"
	if got := said(CheckTogether(docs)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLimitsAreKeysOfTheConfiguration keeps the two lists one.
func TestLimitsAreKeysOfTheConfiguration(t *testing.T) {
	for _, key := range LimitKeys() {
		if !config.HasKey(key) {
			t.Errorf("%s is no key of the configuration", key)
		}
	}
	streams, text := int64(7), "12h"
	values := (&Limits{Streams: &streams, CallDeadline: &text}).Values()
	if values["limits.streams"] != "7" || values["limits.call_deadline"] != "12h" || len(values) != 2 {
		t.Errorf("values %v", values)
	}
}

// TestSchemasSayWhatTheDecoderDoes: for each member of each spec, what the
// schema requires and allows is what the decoder takes.
func TestSchemasSayWhatTheDecoderDoes(t *testing.T) {
	for _, kind := range Kinds {
		var s schema
		if err := json.Unmarshal(Schema(kind), &s); err != nil {
			t.Fatal(err)
		}
		checkClosed(t, string(kind), &s)
		spec := s.Properties["spec"]
		full := map[string]any{}
		for name, p := range spec.Properties {
			full[name] = sampleOf(name, p)
		}
		delete(full, "oauth2") // goes with one kind only, see TestCredentialsOfEveryKind
		if text := decodeSpec(kind, full); text != "" {
			t.Errorf("%s: what the schema allows is refused: %s", kind, text)
		}
		for name, p := range spec.Properties {
			without := decodeSpec(kind, withoutMember(full, name)) != ""
			if required := slices.Contains(spec.Required, name); required != without && name != "secretRef" {
				t.Errorf("%s.%s: required is %v in the schema, and for the decoder %v", kind, name, required, without)
			}
			if len(p.Enum) > 0 && decodeSpec(kind, withMember(full, name, "other")) == "" {
				t.Errorf("%s.%s: the decoder takes what the schema does not list", kind, name)
			}
		}
	}
}

func checkClosed(t *testing.T, where string, s *schema) {
	t.Helper()
	if s.Type == "object" && (s.Closed == nil || *s.Closed) {
		t.Errorf("%s: unknown members pass", where)
	}
	for name, p := range s.Properties {
		checkClosed(t, where+"."+name, p)
	}
	if s.Items != nil {
		checkClosed(t, where+"[]", s.Items)
	}
}

func sampleOf(name string, s *schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "integer":
		return 7
	case s.Type == "array":
		return []any{sampleOf(name, s.Items)}
	case s.Type == "boolean":
		return true
	case s.Type == "object" && s.MinMembers == 1:
		return map[string]any{"file": "f"}
	case s.Type == "object":
		all := map[string]any{}
		for name, p := range s.Properties {
			all[name] = sampleOf(name, p)
		}
		return all
	case s.Pattern == durationPattern:
		return "12h"
	}
	return "a"
}

func withMember(m map[string]any, name string, value any) map[string]any {
	next := withoutMember(m, name)
	next[name] = value
	return next
}

func withoutMember(m map[string]any, name string) map[string]any {
	next := map[string]any{}
	for k, v := range m {
		if k != name {
			next[k] = v
		}
	}
	return next
}

func decodeSpec(kind Kind, spec map[string]any) string {
	name := "a"
	if kind == KindLimits {
		name = LimitsName
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": APIVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec})
	if err != nil {
		return err.Error()
	}
	_, problems := DecodeJSON(raw)
	return said(problems)
}

// FuzzDecode: whatever stands in a file, decoding ends, names places inside of
// it, and what it takes survives its JSON.
func FuzzDecode(f *testing.F) {
	f.Add(false, []byte(head+"Agent\nmetadata: {name: a}\nspec: {url: x, allow: [b]}\n"))
	f.Add(false, []byte(head+"Credential\nmetadata:\n  name: a\nspec:\n  kind: bearer\n  secretRef:\n    env: T\n"))
	f.Add(true, []byte(`{"apiVersion": "parley/v1", "kind": "Owner", "metadata": {"name": "a"}}`))
	f.Add(false, []byte("a: &a [*a]\n--- !x\n? - : \n"))
	f.Fuzz(func(t *testing.T, isJSON bool, raw []byte) {
		name := "f.yaml"
		if isJSON {
			name = "f.json"
		}
		docs, problems := Decode(name, raw)
		for _, p := range problems {
			if p.Problem == "" || p.At.Line > strings.Count(string(raw), "\n")+strings.Count(string(raw), "\r")+2 {
				t.Errorf("a problem out of place: %+v", p)
			}
		}
		for _, d := range docs {
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			again, problems := DecodeJSON(text)
			if len(problems) > 0 {
				t.Fatalf("%s is refused: %s", text, said(problems))
			}
			if back, err := json.Marshal(again); err != nil || string(back) != string(text) {
				t.Errorf("%s became %s, %v", text, back, err)
			}
		}
	})
}
