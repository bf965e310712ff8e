package rules

import (
	"cmp"
	"go/ast"
	"path"
	"strings"
	"testing"
)

// TestEveryConfigKeyIsRead: a key that is documented and that nothing reads
// promises what is not kept. A field counts as read where code outside of the
// loader selects it: as cfg.Limits.Card, or as l.Card where l was declared as a
// config.Limits. What only validation reads is listed with its reason.
func TestEveryConfigKeyIsRead(t *testing.T) {
	onlyChecked := map[string]string{}
	fields, read := configFields(t), map[string]bool{}
	for _, file := range goFiles(t) {
		// network.go holds the methods by which others read several fields at once.
		inside := file.pkg == "internal/config" && path.Base(file.name) != "network.go"
		if !file.test && !inside && strings.HasPrefix(file.pkg, "internal/") {
			readFields(file.ast, read)
		}
	}
	for _, field := range fields {
		if !read[field] && onlyChecked[field] == "" {
			t.Errorf("config field %s is read by nothing: wire it, or take its key away", field)
		}
		if read[field] && onlyChecked[field] != "" {
			t.Errorf("config field %s is read by now: take it off the list of exceptions", field)
		}
	}
}

// configFields lists the leaves of config.Config as Type.Field, where a section
// has a type of its own name.
func configFields(t *testing.T) (leaves []string) {
	t.Helper()
	structs := map[string]*ast.StructType{}
	for _, file := range goFiles(t) {
		if file.name != "internal/config/config.go" {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	for name, s := range structs {
		for _, field := range s.Fields.List {
			for _, ident := range field.Names {
				if structs[ident.Name] == nil && ident.IsExported() {
					leaves = append(leaves, name+"."+ident.Name)
				}
			}
		}
	}
	if len(leaves) < 50 {
		t.Fatalf("only %d fields were found: the rule would prove nothing", len(leaves))
	}
	return leaves
}

// readFields notes which fields of the configuration a file selects.
func readFields(file *ast.File, read map[string]bool) {
	types := map[string]string{"cfg": "Config", "c": "Config"} // by the name of the variable or field that holds one
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if section, ok := configType(n.Type); ok {
				for _, name := range n.Names {
					types[name.Name] = section
				}
			}
		case *ast.AssignStmt: // keep := a.cfg.Retention
			for i := range min(len(n.Lhs), len(n.Rhs)) {
				name, isName := n.Lhs[i].(*ast.Ident)
				if section, ok := n.Rhs[i].(*ast.SelectorExpr); ok && isName {
					types[name.Name] = cmp.Or(types[section.Sel.Name], section.Sel.Name)
				}
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch x := s.X.(type) {
		case *ast.Ident:
			read[types[x.Name]+"."+s.Sel.Name] = true
		case *ast.SelectorExpr: // cfg.Limits.Card, a.cfg.Listen
			read[x.Sel.Name+"."+s.Sel.Name] = true
			read[types[x.Sel.Name]+"."+s.Sel.Name] = true
		}
		return true
	})
}

// configType names the type of package config that expr is.
func configType(expr ast.Expr) (string, bool) {
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch e := expr.(type) {
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok && pkg.Name == "config" {
			return e.Sel.Name, true
		}
	case *ast.Ident: // inside of package config
		return e.Name, true
	}
	return "", false
}
