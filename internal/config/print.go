package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
)

// WriteEffective writes every key with its value in force as YAML that Load
// reads back, each followed by where the value was written. Secrets are
// written as [redacted]: replace them by references before reading it back.
func (c *Config) WriteEffective(w io.Writer) error {
	var out strings.Builder
	section := ""
	for _, k := range c.keys() {
		indent, name := "", k.path
		if s, rest, ok := strings.Cut(k.path, "."); ok {
			if s != section {
				fmt.Fprintf(&out, "%s:\n", s)
			}
			section, indent, name = s, "  ", rest
		}
		text, err := yamlText(k.value)
		if err != nil {
			return fmt.Errorf("print %s: %w", k.path, err)
		}
		fmt.Fprintf(&out, "%s%s: %s # %s\n", indent, name, text, c.Origin(k.path))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Setting is one key with its value in force.
type Setting struct {
	Key    string   `json:"key"`
	Value  string   `json:"value"`            // as in the file; empty for lists
	Values []string `json:"values,omitempty"` // of lists
	From   string   `json:"from"`             // file and line, variable or flag; default
}

// Effective lists every key with its value in force and where it was written.
// Secrets are [redacted].
func (c *Config) Effective() []Setting {
	var all []Setting
	for _, k := range c.keys() {
		s := Setting{Key: k.path, From: c.Origin(k.path).String()}
		if l, ok := k.value.(listValue); ok {
			s.Values = l.elements()
		} else {
			s.Value = k.value.text()
		}
		all = append(all, s)
	}
	return all
}

// yamlText returns a value on one line, quoted where YAML would read it as
// something else.
func yamlText(v value) (string, error) {
	if n, ok := v.(nodeValue); ok {
		return n.text(), nil
	}
	l, ok := v.(listValue)
	if !ok {
		return yamlScalar(v.text())
	}
	texts := make([]string, 0, len(l.elements()))
	for _, element := range l.elements() {
		text, err := yamlScalar(element)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return "[" + strings.Join(texts, ", ") + "]", nil
}

func yamlScalar(text string) (string, error) {
	if isPlainWord(text) {
		return text, nil
	}
	quoted, err := yaml.MarshalWithOptions(text, yaml.JSON())
	return strings.TrimSpace(string(quoted)), err
}

// isPlainWord reports whether text needs no quotes: letters, digits and a few
// marks that mean nothing to YAML inside a word.
func isPlainWord(text string) bool {
	if text == "" || strings.HasPrefix(text, "-") || strings.HasSuffix(text, ":") {
		return false
	}
	for _, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("./-_:", r) {
			return false
		}
	}
	return true
}
