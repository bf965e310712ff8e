package rules

import (
	"slices"
	"strings"
	"testing"
)

// Groups of packages that the table below names together.
var groups = map[string][]string{
	// What the mesh decides about. Domains know the vocabulary and nothing of
	// each other, of SQL or of HTTP.
	"domains": {"call", "identity", "registry", "contract", "trust", "policy", "grant", "limit", "guard", "audit", "vault", "flow", "push", "stream", "keyring"},
	"words":   {"parley", "nearest"},
}

// directions says what a package below internal/ may import from internal/. A
// package that is not here has to be added, with thought: the table is the
// architecture. Packages for tests, named <x>test, and what groups name as
// outside are free, but nothing else may import them.
var directions = map[string][]string{
	"parley":    {},
	"nearest":   {},
	"config":    {"words"},
	"manifest":  {"words", "config"}, // the one list of limits is the configuration's
	"telemetry": {"words"},

	"jsonwire":  {},
	"a2a/v03":   {"jsonwire"}, // knows nothing of what 1.0 allows: package a2a checks its results
	"a2a":       {"jsonwire", "a2a/v03"},
	"mcpbridge": {"jsonwire"},
	"netguard":  {},
	"certs":     {},
	"sandbox":   {},
	"oidc":      {"words", "domains", "jsonwire", "netguard", "signon"},
	"signon":    {"words"},
	"event":     {"words"},
	"store":     {"words", "domains", "event", "manifest"},
	"apply":     {"words", "domains", "manifest"}, // one plan over owners, principals and agents

	"backup": {"words", "vault", "store"}, // an archive is a copy that the store made

	// Tokens towards agents: between the registry's credentials and the network.
	"upstream": {"words", "registry", "jsonwire", "netguard"},

	"gateway": {"words", "domains", "a2a", "a2a/v03", "jsonwire", "event", "telemetry"},
	"control": {"words", "domains", "a2a", "jsonwire", "event", "telemetry", "manifest", "apply"},
	"probe":   {"words", "domains", "a2a", "jsonwire", "event", "telemetry", "netguard"},
	"web":     {"words"}, // the control API's client, like an operator's script

	"app": {"words", "domains", "config", "certs", "oidc", "signon", "telemetry", "jsonwire", "a2a", "a2a/v03", "mcpbridge", "netguard", "sandbox", "event", "store", "upstream", "gateway", "control", "probe", "web", "manifest", "apply", "backup"},
	"cli": {"words", "config", "app", "signon", "control", "a2a", "jsonwire", "manifest", "apply"}, // verbs are clients of the two APIs
}

// exceptions are single imports against the table, each with its reason.
var exceptions = map[[2]string]string{
	{"identity", "limit"}: "what counts as one remote host must be the same wherever hosts are counted",
	{"push", "call"}:      "a subscription is to a task, which package call names",
	{"stream", "call"}:    "a journal is that of a task, and tasks are named by package call",
	{"cli", "registry"}:   "the control API answers in the registry's words for interfaces, problems and credentials",
}

// outside lists packages that are no part of the product: they may import
// anything, and the product must not import them.
var outside = []string{"internal/bench", "internal/rules", "interop", "security", "examples", "cmd/parley-bench"}

func isOutside(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || slices.ContainsFunc(outside, func(o string) bool {
		return pkg == o || strings.HasPrefix(pkg, o+"/")
	})
}

func TestImportDirections(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test || isOutside(file.pkg) {
			continue
		}
		for _, imported := range imports(file) {
			target, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			if isOutside(target) {
				t.Errorf("%s imports %s, which is no part of the product", file.name, target)
				continue
			}
			checkDirection(t, file, target)
		}
	}
}

func checkDirection(t *testing.T, file goFile, target string) {
	t.Helper()
	to, internal := strings.CutPrefix(target, "internal/")
	from, product := strings.CutPrefix(file.pkg, "internal/")
	switch {
	case file.pkg == "cmd/parley":
		if to != "cli" {
			t.Errorf("%s imports %s: the command is only a door to internal/cli", file.name, target)
		}
	case file.pkg == "webhook":
		t.Errorf("%s imports %s: the public package stands alone", file.name, target)
	case file.pkg == "internal/cli" && target == "webhook": // push listen is a receiver like any other
	case !internal || !product:
		t.Errorf("%s imports %s, and internal/rules knows no direction between them: add them to its tables", file.name, target)
	case !mayImport(from, to) && exceptions[[2]string{from, to}] == "":
		t.Errorf("%s: %s must not import %s (allowed: %s; see directions in internal/rules)", file.name, from, to, strings.Join(allowed(from), ", "))
	}
}

// layer is the package that the tables know: flow/engine and the like follow
// their parent unless they have a line of their own.
func layer(pkg string) string {
	if _, own := directions[pkg]; own {
		return pkg
	}
	parent, _, _ := strings.Cut(pkg, "/")
	return parent
}

func mayImport(from, to string) bool {
	return layer(from) == layer(to) || slices.Contains(allowed(from), layer(to))
}

func allowed(from string) []string {
	list, known := directions[layer(from)]
	if !known && slices.Contains(groups["domains"], layer(from)) {
		list = []string{"words"}
	}
	var packages []string
	for _, name := range list {
		if members, group := groups[name]; group {
			packages = append(packages, members...)
		} else {
			packages = append(packages, name)
		}
	}
	return packages
}

// TestDomainsStayPure: a domain that knew its database or its transport could
// not be tested without them, and would decide differently behind another.
func TestDomainsStayPure(t *testing.T) {
	forbidden := []string{"database/sql", "net/http", "modernc.org/", "github.com/jackc/", "github.com/spf13/", "github.com/danielgtaylor/huma", "github.com/nats-io/"}
	for _, file := range goFiles(t) {
		pkg, internal := strings.CutPrefix(file.pkg, "internal/")
		if file.test || !internal || isOutside(file.pkg) || !slices.Contains(append(groups["domains"], "parley"), layer(pkg)) {
			continue
		}
		for _, imported := range imports(file) {
			for _, f := range forbidden {
				if strings.HasPrefix(imported, f) {
					t.Errorf("%s imports %s: domains know neither SQL nor HTTP", file.name, imported)
				}
			}
		}
	}
}

// TestExceptionsAreUsed keeps the list of exceptions from outliving its reasons.
func TestExceptionsAreUsed(t *testing.T) {
	used := map[[2]string]bool{}
	for _, file := range goFiles(t) {
		for _, imported := range imports(file) {
			if target, ours := strings.CutPrefix(imported, module+"/internal/"); ours && !file.test {
				used[[2]string{strings.TrimPrefix(file.pkg, "internal/"), target}] = true
			}
		}
	}
	for pair := range exceptions {
		if !used[pair] || mayImport(pair[0], pair[1]) {
			t.Errorf("the exception %s -> %s is needed no more: take it out", pair[0], pair[1])
		}
	}
}
