// Command lint is the analyzer set of this repository, run by
// "go vet -vettool". It finds what the compiler and go vet leave: bugs known to
// staticcheck, errors compared or wrapped the wrong way, response bodies and
// database rows left open, and log calls that break the house rules.
//
// A finding that is wrong is silenced on its line, or the line above, by
//
//	//nolint:NAME reason
//
// where NAME is the analyzer's. A silencer without a name or a reason is a
// finding itself.
package main

import (
	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/jingyugao/rowserrcheck/passes/rowserr"
	sqlclosecheck "github.com/ryanrolds/sqlclosecheck/pkg/analyzer"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"go-simpler.org/sloglint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
)

func main() {
	unitchecker.Main(append(silenceable(analyzers()), silencers)...)
}

func analyzers() []*analysis.Analyzer {
	all := []*analysis.Analyzer{
		allowBareEOF(errorlint.NewAnalyzer()),
		bodyclose.Analyzer,
		sqlclosecheck.NewAnalyzer(),
		rowserr.NewAnalyzer("database/sql"),
		sloglint.New(&sloglint.Options{
			NoGlobalLogger:   "all",
			StaticMessage:    true,
			MessageStyle:     "lowercased",
			NoMixedArguments: true,
		}),
	}
	for _, a := range staticcheck.Analyzers {
		all = append(all, a.Analyzer)
	}
	for _, a := range simple.Analyzers {
		all = append(all, a.Analyzer)
	}
	return all
}
