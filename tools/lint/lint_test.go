package main

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
)

// TestFindings runs the wrapped analyzers over testdata, where comments say
// which findings must come and which must not.
func TestFindings(t *testing.T) {
	wrapped := silenceable([]*analysis.Analyzer{allowBareEOF(errorlint.NewAnalyzer())})[0]
	analysistest.Run(t, analysistest.TestData(), wrapped, "a")
	analysistest.Run(t, analysistest.TestData(), silencers, "silencers")
}
