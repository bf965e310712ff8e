package main

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parley": main})
}

// scriptsTime bounds all scripts together; each takes seconds.
const scriptsTime = 8 * time.Minute

// TestScripts runs what a user could type: one script a topic.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(scriptsTime),
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			// The proxy of whoever runs the tests has no part in them.
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
				e.Setenv(name, "")
			}
			e.Setenv("PARLEY_DATA", e.WorkDir+"/data")
			e.Setenv("TZ", "UTC")
			e.Values[stateKey{}] = &scriptState{agents: map[string]*a2atest.Agent{}, receivers: map[string]*atomic.Bool{}, skip: func(why error) { e.T().Skip(why) }}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mesh":     startMesh,
			"postgres": makeDatabase,
			"sample":   startSample,
			"certs":    makeCerts,
			"tokens":   startTokens,
			"code":     exitsWith,

			"provider": startProvider,
			"approve":  approveLogin,
			"jobtoken": jobToken,
			"await":    awaitFile,
			"json":     setFromJSON,
			"expand":   expandFile,
			"match":    setFromText,
			"receiver": startReceiver,
		},
	})
}
