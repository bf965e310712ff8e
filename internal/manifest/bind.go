package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
)

// binder gives the values of one document to the fields of its spec, by the
// tags of the Go types: json, required, enum, format, maxLength and maxItems.
type binder struct {
	*reader
	doc *Document
}

// secretWords are names under which people write a secret into a document.
var secretWords = []string{"secret", "token", "password", "value", "key", "apiKey", "api_key", "bearer", "secretValue"}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// members gives the members of an object by name and tells of unknown ones.
func (b *binder) members(n *node, at, what string, known ...string) map[string]*node {
	found := map[string]*node{}
	for _, m := range n.members {
		here := at + "/" + m.name
		if !slices.Contains(known, m.name) {
			b.unknown(m, here, what, known)
			continue
		}
		b.doc.places[here] = m.at
		found[m.name] = m.value
	}
	return found
}

func (b *binder) unknown(m member, pointer, what string, known []string) {
	isCredential := b.doc.Kind == KindCredential && strings.HasPrefix(pointer, "/spec")
	isLimits := b.doc.Kind == KindLimits && strings.HasPrefix(pointer, "/spec")
	switch {
	case isCredential && slices.ContainsFunc(secretWords, func(w string) bool { return strings.EqualFold(w, m.name) }):
		ref := "secretRef"
		if strings.HasPrefix(pointer, "/spec/certificate/") {
			ref = "keyRef"
		}
		b.fail(m.at, pointer, fmt.Sprintf("put it into a file or a variable and write %[1]s: {file: PATH} or %[1]s: {env: NAME}", ref), "no document may hold a secret, and %.64q looks like one", m.name)
	case isLimits && config.HasKey(limitsSection+m.name):
		b.fail(m.at, pointer, fmt.Sprintf("set %s%s in the configuration; it needs a restart", limitsSection, m.name), "%s%s cannot change while the mesh runs", limitsSection, m.name)
	default:
		b.fail(m.at, pointer, suggestion(m.name, known), "there is no %.64q in %s", m.name, what)
	}
}

// spec decodes the spec of a document.
func (b *binder) spec(root, n *node, into any) {
	target := reflect.ValueOf(into).Elem()
	if n == nil || n.shape == null {
		n = &node{shape: object, at: root.at} // every spec may be empty that requires nothing
	}
	before := len(b.problems)
	b.object(n, "/spec", "the spec of "+string(b.doc.Kind), target)
	if b.doc.Credential != nil && len(b.problems) == before {
		b.credential(b.doc.Credential)
	}
}

// credential refuses members of a Credential that do not go together.
func (b *binder) credential(c *Credential) {
	wrong := func(pointer, fix, format string, args ...any) {
		b.fail(b.doc.Place(pointer), pointer, fix, format, args...)
	}
	switch {
	case c.Kind == KindOAuth2 && c.OAuth2 == nil:
		wrong("/spec/kind", "add oauth2: {tokenUrl: URL, clientId: ID}", "the kind is oauth2, and where tokens are had is missing")
	case c.Kind == KindOAuth2 && c.Name != "":
		wrong("/spec/name", "leave it out, and write oauth2.clientId", "a name does not go with the kind oauth2")
	case c.Kind != KindOAuth2 && c.OAuth2 != nil:
		wrong("/spec/oauth2", "leave it out, or write kind: oauth2", "oauth2 does not go with the kind %s", c.Kind)
	}
	switch {
	case c.Kind == KindCertificate && c.Certificate == nil:
		wrong("/spec/kind", "add certificate: {chainRef: {file: PATH}, keyRef: {file: PATH}}", "the kind is client_certificate, and the certificate is missing")
	case c.Kind == KindCertificate && c.SecretRef != nil:
		wrong("/spec/secretRef", "leave it out, or choose another kind", "a client certificate alone has no secret but its key")
	case c.Kind != KindCertificate && c.SecretRef == nil:
		wrong("/spec", "write secretRef: {file: PATH} or secretRef: {env: NAME}", "\"secretRef\" is missing in the spec of Credential")
	}
	for _, r := range c.Refs() {
		if (r.Ref.File == "") == (r.Ref.Env == "") {
			wrong(r.Pointer, "write file or env, one of them", "the reference names not exactly one place")
		}
	}
}

func (b *binder) object(n *node, at, what string, into reflect.Value) {
	if n.shape != object {
		b.fail(n.at, at, "write its members below it", "is %s, not a mapping", n.shape)
		return
	}
	t := into.Type()
	var known []string
	for f := range t.Fields() {
		known = append(known, jsonName(f))
	}
	found := b.members(n, at, what, known...)
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		value := found[name]
		switch {
		case value != nil && value.shape != null:
			b.value(value, at+"/"+name, f, into.Field(i))
		case f.Tag.Get("required") == "true":
			b.fail(orAt(value, n), at, "add it: "+f.Tag.Get("doc"), "%q is missing in %s", name, what)
		}
	}
}

// value decodes one value into a field.
func (b *binder) value(n *node, at string, f reflect.StructField, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	switch into.Kind() {
	case reflect.Struct:
		b.object(n, at, jsonName(f), into)
	case reflect.Slice:
		b.list(n, at, f, into)
	case reflect.Int64:
		b.integer(n, at, f, into)
	case reflect.Bool:
		if n.shape != boolean {
			b.fail(n.at, at, "write true or false, without quotes", "%s is %s, not true or false", jsonName(f), n.shape)
			return
		}
		into.SetBool(n.text == "true")
	default:
		if s, ok := b.text(n, at, f); ok {
			into.SetString(s)
		}
	}
}

func (b *binder) list(n *node, at string, f reflect.StructField, into reflect.Value) {
	if n.shape != list {
		b.fail(n.at, at, "write [first, second]", "%s is %s, not a list", jsonName(f), n.shape)
		return
	}
	if most, err := strconv.Atoi(f.Tag.Get("maxItems")); err == nil && len(n.items) > most {
		b.fail(n.at, at, fmt.Sprintf("use at most %d", most), "%s has %d items", jsonName(f), len(n.items))
		return
	}
	for i, item := range n.items {
		here := fmt.Sprintf("%s/%d", at, i)
		b.doc.places[here] = item.at
		if element := into.Type().Elem(); element.Kind() == reflect.Struct {
			one := reflect.New(element).Elem()
			b.object(item, here, "an item of "+jsonName(f), one)
			into.Set(reflect.Append(into, one))
			continue
		}
		if s, ok := b.text(item, here, f); ok {
			into.Set(reflect.Append(into, reflect.ValueOf(s).Convert(into.Type().Elem())))
		}
	}
}

func (b *binder) integer(n *node, at string, f reflect.StructField, into reflect.Value) {
	i, err := strconv.ParseInt(n.text, 10, 64)
	if n.shape != number || err != nil {
		b.fail(n.at, at, "write digits without quotes", "%s is not a whole number", jsonName(f))
		return
	}
	into.SetInt(i)
}

// text reads a text and checks it by the field's tags. Values of a Credential
// are not repeated in messages: what was meant as a secret may stand there.
func (b *binder) text(n *node, at string, f reflect.StructField) (string, bool) {
	name := jsonName(f)
	if n.shape != text {
		fix := "write one plain value"
		if n.shape == number || n.shape == boolean {
			fix = "put quotes around it"
		}
		if n.shape == number && f.Tag.Get("format") == "duration" {
			fix = "give it a unit, as in " + n.text + "s"
		}
		b.fail(n.at, at, fix, "%s is %s, not text", name, n.shape)
		return "", false
	}
	s := n.text
	if most, err := strconv.Atoi(f.Tag.Get("maxLength")); err == nil && len(s) > most {
		b.fail(n.at, at, fmt.Sprintf("use at most %d bytes", most), "%s is %d bytes long", name, len(s))
		return "", false
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		b.fail(n.at, at, "use one line of plain text", "%s holds control characters or is not UTF-8", name)
		return "", false
	}
	if allowed := f.Tag.Get("enum"); allowed != "" && !slices.Contains(strings.Split(allowed, ","), s) {
		said := fmt.Sprintf("%.64q", s)
		if b.doc.Kind == KindCredential {
			said = "what stands here"
		}
		b.fail(n.at, at, suggestion(s, strings.Split(allowed, ",")), "%s is no %s", said, name)
		return "", false
	}
	if f.Tag.Get("format") == "name" {
		if err := parley.CheckName(name, s); err != nil {
			b.fail(n.at, at, "", "%v", err)
			return "", false
		}
	}
	return s, true
}
