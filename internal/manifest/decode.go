package manifest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/nearest"
	"github.com/parley-mesh/parley/internal/parley"
)

// Decode reads the documents of one file, in YAML, or in JSON where the name
// ends in .json or the content begins with a brace. Problems are in order of
// their places; documents without any are given even where others have some.
func Decode(file string, raw []byte) ([]*Document, []Problem) {
	r := &reader{file: file}
	if len(raw) > MaxFile {
		r.fail(Position{File: file}, "", "split the file", "larger than %d bytes", MaxFile)
		return nil, r.problems
	}
	var roots []*node
	if filepath.Ext(file) == ".json" || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		roots = r.json(raw)
	} else {
		roots = r.yaml(raw)
	}
	var docs []*Document
	for _, root := range roots {
		if d := r.document(root); d != nil {
			docs = append(docs, d)
		}
	}
	if r.full {
		r.problems = append(r.problems, Problem{At: Position{File: file}, Problem: fmt.Sprintf("more than %d problems: the rest is left out", maxProblems)})
	}
	return docs, r.problems
}

// DecodeJSON reads one document in JSON.
func DecodeJSON(raw []byte) (*Document, []Problem) {
	r := &reader{file: ""}
	if len(raw) > MaxFile {
		r.fail(Position{}, "", "send less", "larger than %d bytes", MaxFile)
		return nil, r.problems
	}
	roots := r.json(raw)
	if len(roots) != 1 && len(r.problems) == 0 {
		r.fail(Position{}, "", "send one", "%d documents stand where one is expected", len(roots))
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return r.document(roots[0]), r.problems
}

// CheckTogether says what is wrong with documents as one plan.
func CheckTogether(docs []*Document) (problems []Problem) {
	if len(docs) > MaxDocuments {
		return []Problem{{Problem: fmt.Sprintf("%d documents are too many", len(docs)), Fix: fmt.Sprintf("use at most %d for one set", MaxDocuments)}}
	}
	first := map[string]*Document{}
	for _, d := range docs {
		if other := first[d.ID()]; other != nil {
			problems = append(problems, Problem{At: d.Place("/metadata/name"), Pointer: "/metadata/name",
				Problem: fmt.Sprintf("%s %s is declared twice; first at %s", d.Kind, d.Name, other.Place("/metadata/name")), Fix: "keep one"})
			continue
		}
		first[d.ID()] = d
	}
	return problems
}

// document decodes one root; nil where something is wrong with it.
func (r *reader) document(root *node) *Document {
	before := len(r.problems)
	d := &Document{places: map[string]Position{"": root.at}}
	if root.shape != object {
		r.fail(root.at, "", "begin with apiVersion: "+APIVersion, "is %s, not a document", root.shape)
		return nil
	}
	b := &binder{reader: r, doc: d}
	envelope := b.members(root, "", "a document", "apiVersion", "kind", "metadata", "spec")
	r.version(root, envelope["apiVersion"])
	d.Kind = r.kind(root, envelope["kind"])
	d.Name = b.metadata(root, envelope["metadata"])
	if spec := d.specOf(d.Kind); spec != nil {
		b.spec(root, envelope["spec"], spec)
	}
	if len(r.problems) > before {
		return nil
	}
	return d
}

func (r *reader) version(root, n *node) {
	switch {
	case n == nil:
		r.fail(root.at, "/apiVersion", "write apiVersion: "+APIVersion, "apiVersion is missing")
	case n.shape != text || n.text != APIVersion:
		r.fail(n.at, "/apiVersion", "write "+APIVersion, "this version of documents is not known")
	}
}

func (r *reader) kind(root, n *node) Kind {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = string(k)
	}
	switch {
	case n == nil:
		r.fail(root.at, "/kind", "use one of "+strings.Join(names, ", "), "kind is missing")
	case n.shape != text || !slices.Contains(names, n.text):
		r.fail(n.at, "/kind", suggestion(n.text, names), "there is no kind %.64q", n.text)
	default:
		return Kind(n.text)
	}
	return ""
}

// metadata gives the name.
func (b *binder) metadata(root, n *node) string {
	if n == nil || n.shape != object {
		b.fail(orAt(n, root), "/metadata", "write metadata: {name: NAME}", "metadata is missing")
		return ""
	}
	name := b.members(n, "/metadata", "metadata", "name")["name"]
	const at = "/metadata/name"
	switch {
	case name == nil:
		b.fail(n.at, at, "add one", "the name is missing")
	case name.shape != text:
		b.fail(name.at, at, "put quotes around it", "the name is %s, not text", name.shape)
	case b.doc.Kind == KindLimits && name.text != LimitsName:
		b.fail(name.at, at, "write "+LimitsName, "a mesh has one set of limits, and it is named %q", LimitsName)
	default:
		if err := parley.CheckName(strings.ToLower(string(b.doc.Kind)), name.text); err != nil {
			b.fail(name.at, at, "", "%v", err)
		}
		return name.text
	}
	return ""
}

func orAt(n, or *node) Position {
	if n != nil {
		return n.at
	}
	return or.at
}

// suggestion is what to write instead of a name that nothing has.
func suggestion(name string, known []string) string {
	if near := nearest.Of(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known here: " + strings.Join(known, ", ")
}
