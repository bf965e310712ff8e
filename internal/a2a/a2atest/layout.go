package a2atest

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// LayOut writes JSON for reading: a value on one line where it fits, else a
// member to a line. What is no JSON is given back as it is.
func LayOut(v jsontext.Value) string {
	if !v.IsValid() {
		return string(v)
	}
	var b strings.Builder
	layOut(&b, v, "")
	return b.String()
}

func layOut(b *strings.Builder, v jsontext.Value, indent string) {
	const wide = 110
	if len(indent)+len(v) <= wide || v[0] != '{' && v[0] != '[' {
		b.Write(v)
		return
	}
	deeper := indent + "  "
	b.WriteByte(v[0])
	if v[0] == '{' {
		for i, m := range jsonwire.Members(v) {
			b.WriteString(strings.Repeat(",", min(i, 1)) + "\n" + deeper + string(jsonwire.Quote(m.Name)) + ": ")
			layOut(b, m.Value, deeper)
		}
	} else {
		for i, e := range jsonwire.Elements(v) {
			b.WriteString(strings.Repeat(",", min(i, 1)) + "\n" + deeper)
			layOut(b, bytes.TrimSpace(e), deeper)
		}
	}
	b.WriteString("\n" + indent + string(v[0]+2)) // '{' and '}', '[' and ']' are two apart
}
