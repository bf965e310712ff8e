package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/parley-mesh/parley/internal/nearest"
)

// maxFile bounds the configuration file; every key written out with comments
// is a few kilobytes.
const maxFile = MiB

// file reads a YAML file. It walks the syntax tree instead of decoding into
// structs, because only the tree knows the line of every key and value.
func (l *loader) file(name string) {
	whole := Origin{FromFile, name}
	raw, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		l.fail(whole, "", "the file does not exist")
		return
	}
	if err != nil {
		l.fail(whole, "", "%s", err)
		return
	}
	tree, err := parser.ParseBytes(raw, 0)
	if err != nil {
		l.fail(syntaxOrigin(name, err), "", "not YAML: %s", syntaxMessage(err))
		return
	}
	w := &fileWalk{loader: l, name: name, base: filepath.Dir(name)}
	bodies := 0
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if bodies++; bodies > 1 {
			l.fail(w.at(doc.Body), "", "a second document begins here: keep one")
			return
		}
		w.section("", doc.Body)
	}
}

// syntaxOrigin finds the line in an error of the YAML library.
func syntaxOrigin(name string, err error) Origin {
	var withToken yaml.Error
	if errors.As(err, &withToken) && withToken.GetToken() != nil {
		return Origin{FromFile, fmt.Sprintf("%s:%d", name, withToken.GetToken().Position.Line)}
	}
	return Origin{FromFile, name}
}

func syntaxMessage(err error) string {
	var withToken yaml.Error
	if errors.As(err, &withToken) {
		return withToken.GetMessage()
	}
	return err.Error()
}

// fileWalk is one pass over one file.
type fileWalk struct {
	loader *loader
	name   string
	base   string // folder that relative paths start from
}

func (w *fileWalk) at(node ast.Node) Origin {
	line := 0
	if token := node.GetToken(); token != nil && token.Position != nil {
		line = token.Position.Line
	}
	return Origin{FromFile, fmt.Sprintf("%s:%d", w.name, line)}
}

// section reads the mapping below prefix, which is "" for the whole file. A
// section without content, as commenting out its keys leaves it, is fine.
func (w *fileWalk) section(prefix string, node ast.Node) {
	if node.Type() == ast.NullType {
		return
	}
	mapping, ok := node.(ast.MapNode)
	if !ok {
		w.loader.fail(w.at(node), prefix, "has keys of its own: write them below it, one a line, as in \"%s: …\"", w.firstKey(prefix))
		return
	}
	for entries := mapping.MapRange(); entries.Next(); {
		w.entry(prefix, entries.Key(), entries.Value())
	}
}

func (w *fileWalk) entry(prefix string, keyNode ast.MapKeyNode, node ast.Node) {
	name, ok := scalarText(keyNode)
	if !ok || keyNode.IsMergeKey() {
		w.loader.fail(w.at(keyNode), prefix, "anchors, aliases, tags and merge keys are not taken here: write the key out")
		return
	}
	full := join(prefix, name)
	for _, k := range w.loader.keys {
		if k.path == full {
			w.leaf(k, node)
			return
		}
	}
	if w.isSection(full) {
		w.section(full, node)
		return
	}
	w.loader.fail(w.at(keyNode), full, "unknown key%s", w.suggest(prefix, name))
}

func (w *fileWalk) leaf(k key, node ast.Node) {
	if node.Type() == ast.NullType {
		w.loader.fail(w.at(node), k.path, "has no value: give it one (%s) or take the line out", k.value.kind())
		return
	}
	if v, ok := k.value.(nodeValue); ok {
		v.setNode(w, k, node)
		return
	}
	if v, ok := k.value.(listValue); ok {
		w.list(k, v, node)
		return
	}
	text, ok := scalarText(node)
	if !ok {
		w.loader.fail(w.at(node), k.path, "takes one plain value: %s", k.value.kind())
		return
	}
	w.loader.set(k, text, w.base, w.at(node))
}

// list takes a sequence, or one scalar for a list of one.
func (w *fileWalk) list(k key, v listValue, node ast.Node) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		text, ok := scalarText(node)
		if !ok {
			w.loader.fail(w.at(node), k.path, "takes a %s: write [first, second]", v.kind())
			return
		}
		w.loader.setList(k, v, splitList(text), w.at(node))
		return
	}
	var elements []string
	for _, element := range sequence.Values {
		text, ok := scalarText(element)
		if !ok || element.Type() == ast.NullType {
			w.loader.fail(w.at(element), k.path, "takes a %s, each a plain value; quote one that contains a colon", v.kind())
			return
		}
		elements = append(elements, text)
	}
	w.loader.setList(k, v, elements, w.at(node))
}

// scalarText returns the text of a plain value as it was written, whichever
// type YAML would give it, so that 1e3 or 0x10 reach our own parsers.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.NullNode:
		return node.GetToken().Value, true
	default:
		return "", false
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func (w *fileWalk) isSection(path string) bool { return w.firstKey(path) != "" }

// firstKey returns the first key below a section, without the section's path.
func (w *fileWalk) firstKey(section string) string {
	for _, k := range w.loader.keys {
		if rest, ok := strings.CutPrefix(k.path, section+"."); ok {
			return rest
		}
	}
	return ""
}

// suggest names the known key a stranger was probably meant to be: one of the
// same section if any is near, else one anywhere, else the section's keys.
func (w *fileWalk) suggest(prefix, name string) string {
	var siblings, all []string
	for _, k := range w.loader.keys {
		all = append(all, k.path)
		rest := k.path
		if prefix != "" {
			var below bool
			if rest, below = strings.CutPrefix(k.path, prefix+"."); !below {
				continue
			}
		}
		first, _, _ := strings.Cut(rest, ".")
		if len(siblings) == 0 || siblings[len(siblings)-1] != first {
			siblings = append(siblings, first)
		}
	}
	if near := nearest.Of(name, siblings); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if near := nearestLeaf(name, all); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; known here: " + strings.Join(siblings, ", ")
}
