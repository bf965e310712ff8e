package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// silencer matches "//nolint:NAME[,NAME] reason".
var silencer = regexp.MustCompile(`^//nolint:([A-Za-z0-9_,]+)\s+(?:// *)?(\S.*)$`)

// silencers finds comments that silence without saying what or why.
var silencers = &analysis.Analyzer{
	Name: "nolint",
	Doc:  "reports //nolint comments without an analyzer's name or a reason",
	Run: func(pass *analysis.Pass) (any, error) {
		eachComment(pass.Files, func(c *ast.Comment) {
			if strings.HasPrefix(c.Text, "//nolint") && !silencer.MatchString(c.Text) {
				pass.Reportf(c.Pos(), "write //nolint:NAME reason: the analyzer and why it is wrong here")
			}
		})
		return nil, nil
	},
}

func eachComment(files []*ast.File, visit func(*ast.Comment)) {
	for _, file := range files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				visit(c)
			}
		}
	}
}

// silenceable makes analyzers keep quiet about lines that carry their silencer.
// The analyzers are changed in place: others may require them by address.
func silenceable(all []*analysis.Analyzer) []*analysis.Analyzer {
	for _, a := range all {
		run := a.Run
		a.Run = func(pass *analysis.Pass) (any, error) {
			quiet := silencedLines(pass, a.Name)
			report := pass.Report
			pass.Report = func(d analysis.Diagnostic) {
				at := pass.Fset.Position(d.Pos)
				if quiet[line{at.Filename, at.Line}] {
					return
				}
				d.Message += " (" + a.Name + ")" // what a silencer would have to name
				report(d)
			}
			return run(pass)
		}
	}
	return all
}

type line struct {
	file   string
	number int
}

func silencedLines(pass *analysis.Pass, analyzer string) map[line]bool {
	quiet := map[line]bool{}
	eachComment(pass.Files, func(c *ast.Comment) {
		match := silencer.FindStringSubmatch(c.Text)
		if match == nil {
			return
		}
		for name := range strings.SplitSeq(match[1], ",") {
			if name == analyzer {
				at := position(pass.Fset, c)
				quiet[at], quiet[line{at.file, at.number + 1}] = true, true
			}
		}
	})
	return quiet
}

func position(fset *token.FileSet, c *ast.Comment) line {
	at := fset.Position(c.Pos())
	return line{at.Filename, at.Line}
}
