package rules

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestPackageComments: a stranger opens a package and reads what it is for.
func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range goFiles(t) {
		if !file.test {
			documented[file.pkg] = documented[file.pkg] || file.ast.Doc != nil
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment: say what it is for, what it does not do, and whether it is safe for concurrent use", pkg)
		}
	}
}

// TestExportedNamesAreDocumented covers internal/ and webhook: whatever another
// package can use says what may be relied on.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test || !(strings.HasPrefix(file.pkg, "internal/") || file.pkg == "webhook") {
			continue
		}
		for _, decl := range file.ast.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s: %s has no comment", file.name, name)
			}
		}
	}
}

func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && receiverExported(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

// undocumentedSpec takes one comment on a group of constants or variables for
// all of them, and the comment of their type for the values of an enumeration.
func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			return []string{s.Name.Name}
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil || isEnumeration(d) {
			return nil
		}
		exported := slices.DeleteFunc(slices.Clone(s.Names), func(n *ast.Ident) bool { return !n.IsExported() })
		names := make([]string, len(exported))
		for i, n := range exported {
			names[i] = n.Name
		}
		return names
	}
	return nil
}

// isEnumeration reports whether d is a group of constants of one named type.
func isEnumeration(d *ast.GenDecl) bool {
	first, ok := d.Specs[0].(*ast.ValueSpec)
	return ok && d.Tok == token.CONST && d.Lparen.IsValid() && first.Type != nil
}

// TestReadmeLeadsToEveryPage: a page that README.md does not name is not found.
func TestReadmeLeadsToEveryPage(t *testing.T) {
	elsewhere := []string{
		"docs/benchmarks-notes.md", // a part of docs/benchmarks.md
		"docs/roadmap.md",          // named by docs/limits.md
	}
	readme := string(read(t, "README.md"))
	for _, name := range repoFiles(t) {
		if path.Dir(name) == "docs" && path.Ext(name) == ".md" && !slices.Contains(elsewhere, name) && !strings.Contains(readme, "]("+name) {
			t.Errorf("README.md does not link %s", name)
		}
	}
}
