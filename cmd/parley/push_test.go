package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// startReceiver is the script command "receiver VARIABLE": it serves a receiver of
// webhooks that answers 500 until the script ends or says "receiver VARIABLE
// mend", and sets the variable to its address.
func startReceiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "mend" {
		ts.Fatalf("usage: receiver VARIABLE [mend]")
	}
	receivers := stateOf(ts).receivers
	if len(args) == 2 {
		receivers[args[0]].Store(true)
		return
	}
	mended := new(atomic.Bool)
	receivers[args[0]] = mended
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !mended.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	ts.Setenv(args[0], server.URL+"/")
	ts.Defer(server.Close)
}

// setFromText is the script command "match VARIABLE FILE REGEXP": it sets a
// variable to what the first group of the expression matches in a file, which may
// be stdout.
func setFromText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: match VARIABLE FILE REGEXP")
	}
	text := ts.ReadFile(args[1])
	found := regexp.MustCompile("(?m)" + args[2]).FindStringSubmatch(text)
	if len(found) < 2 {
		ts.Fatalf("%s does not match %s:\n%s", args[1], args[2], text)
	}
	ts.Setenv(args[0], found[1])
}
