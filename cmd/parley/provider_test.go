package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mesh/parley/interop"
)

// startProvider is the script command "provider FILE": it serves a real OpenID
// provider until the script ends, sets $ISSUER, and writes its address in the
// place of that name in a file, which is a mesh's configuration.
func startProvider(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: provider FILE")
	}
	p, err := interop.StartProvider(context.Background())
	ts.Check(err)
	stateOf(ts).provider = p
	ts.Defer(func() {
		if err := p.Stop(); err != nil {
			ts.Logf("the provider: %v", err)
		}
	})
	ts.Setenv("ISSUER", p.Issuer)
	file := ts.MkAbs(args[0])
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "$ISSUER", p.Issuer)
	ts.Check(os.WriteFile(file, []byte(text), 0o600))
}

var userCode = regexp.MustCompile(`enter the code  (\S+)\n`)

// approveLogin is the script command "approve FILE ACCOUNT": it waits until FILE
// asks for a code, and confirms that as a person with that account would.
func approveLogin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: approve FILE ACCOUNT")
	}
	awaitFile(ts, false, []string{args[0], userCode.String()})
	code := userCode.FindStringSubmatch(ts.ReadFile(args[0]))[1]
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	ts.Check(stateOf(ts).provider.Approve(ctx, code, args[1]))
}

// jobToken is the script command "jobtoken FILE": it writes an access token that
// a client of the provider gets for itself.
func jobToken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: jobtoken FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	token, err := stateOf(ts).provider.JobToken(ctx)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(token), 0o600))
}
