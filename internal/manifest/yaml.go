package manifest

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// yaml reads the documents of a YAML file. The syntax tree is walked instead of
// decoded: only the tree knows where everything stands, and in it an alias is
// still a name and not what it stands for.
func (r *reader) yaml(raw []byte) (roots []*node) {
	if line := tooNested(raw); line > 0 {
		r.fail(Position{r.file, line, 1}, "", "", "nested deeper than %d levels", maxDepth)
		return nil
	}
	tree, err := parser.ParseBytes(raw, 0)
	if err != nil {
		at, message := Position{File: r.file}, "the file cannot be read"
		var told yaml.Error
		if errors.As(err, &told) { // its Error() prints the source, in quadratic time
			message = told.GetMessage()
			if t := told.GetToken(); t != nil && t.Position != nil {
				at = r.position(t)
			}
		}
		r.fail(at, "", "", "not YAML: %s", message)
		return nil
	}
	for _, doc := range tree.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue // only comments between two separators
		}
		if n := r.fromYAML(doc.Body, 1); n != nil {
			roots = append(roots, n)
		}
	}
	return roots
}

// tooNested finds the first line that nests deeper than any document does, or
// 0. The parser below recurses, so that hostile nesting is refused before it:
// brackets that stay open, and dashes one after another on a line.
func tooNested(raw []byte) int {
	line, open := 1, 0
	dashes, start := 0, true
	var quote byte
	for i, c := range raw {
		switch {
		case c == '\n':
			line++
			dashes, start = 0, true
		case quote != 0:
			if c == quote && !(c == '"' && i > 0 && raw[i-1] == '\\') {
				quote = 0
			}
		case start && (c == '-' || c == '?' || c == ':'):
			dashes++
		case c == ' ' || c == '\t':
		case c == '"' || c == '\'':
			start = false
			if i == 0 || strings.IndexByte(" \t\n[{,:", raw[i-1]) >= 0 {
				quote = c
			}
		case c == '[' || c == '{':
			start = false
			open++
		case c == ']' || c == '}':
			start = false
			open = max(0, open-1)
		default:
			start = false
		}
		if open > maxDepth || start && dashes > 4*maxDepth {
			return line
		}
	}
	return 0
}

func (r *reader) position(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{File: r.file}
	}
	return Position{r.file, t.Position.Line, t.Position.Column}
}

// fromYAML gives the node of a value; nil where it is refused, which is told.
func (r *reader) fromYAML(n ast.Node, depth int) *node {
	at := r.position(n.GetToken())
	if !r.admit(at, depth) {
		return nil
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &node{shape: null, at: at}
	case *ast.StringNode:
		return &node{shape: text, text: n.Value, at: at}
	case *ast.LiteralNode:
		return &node{shape: text, text: n.Value.Value, at: at}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &node{shape: number, text: n.GetToken().Value, at: at}
	case *ast.BoolNode:
		return &node{shape: boolean, text: n.GetToken().Value, at: at}
	case *ast.SequenceNode:
		seq := &node{shape: list, at: at}
		for _, item := range n.Values {
			if child := r.fromYAML(item, depth+1); child != nil {
				seq.items = append(seq.items, child)
			}
		}
		return seq
	case ast.MapNode:
		return r.fromMap(n, at, depth)
	}
	r.fail(at, "", "write the value out", "anchors, aliases and tags are not taken")
	return nil
}

func (r *reader) fromMap(n ast.MapNode, at Position, depth int) *node {
	m := &node{shape: object, at: at}
	for entries := n.MapRange(); entries.Next(); {
		key := entries.Key()
		keyAt := r.position(key.GetToken())
		if len(m.members) == 0 {
			m.at = keyAt
		}
		name, ok := key.(*ast.StringNode)
		if !ok || key.IsMergeKey() {
			r.fail(keyAt, "", "write the name out", "anchors, aliases, merge keys and names that are no text are not taken")
			continue
		}
		if value := r.fromYAML(entries.Value(), depth+1); value != nil {
			m.add(r, name.Value, keyAt, value)
		}
	}
	return m
}

// add takes a member, once.
func (n *node) add(r *reader, name string, at Position, value *node) {
	for _, m := range n.members {
		if m.name == name {
			r.fail(at, "", "keep one", "%.64q stands twice; first at %s", name, m.at)
			return
		}
	}
	n.members = append(n.members, member{name, at, value})
}
