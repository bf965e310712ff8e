package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
	"github.com/parley-mesh/parley/internal/tokentest"
	"github.com/parley-mesh/parley/interop"
)

const (
	startTime = 20 * time.Second      // for a mesh to serve
	stopTime  = 20 * time.Second      // for a mesh to end
	readyPoll = 10 * time.Millisecond // between two looks for a file
)

// startMesh is the script command "mesh [serve flags]": it serves the mesh of
// $PARLEY_DATA on free ports until the script ends or says "mesh stop", and
// sets $MESH to the edge's address.
func startMesh(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("mesh cannot be negated")
	}
	if len(args) == 1 && args[0] == "stop" {
		stopMesh(ts)
		return
	}
	ready, log := ts.MkAbs("ready.json"), new(bytes.Buffer)
	binary := lookPath(ts, "parley")
	cmd := exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--ready-file", ready}, args...)...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), log
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "PARLEY_DATA=" + ts.Getenv("PARLEY_DATA"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	ts.Check(cmd.Start())
	m := &runningMesh{cmd: cmd, log: log, ended: make(chan error, 1)}
	go func() { m.ended <- cmd.Wait() }() // ends with the process, which stop waits for
	stateOf(ts).mesh = m
	ts.Defer(func() {
		if err := m.stop(); err != nil {
			ts.Logf("the mesh: %v\n%s", err, log)
		}
	})
	for end := time.Now().Add(startTime); ; {
		text, err := os.ReadFile(ready)
		if err == nil {
			var r struct{ Listen, Control, Ops, Public string }
			ts.Check(json.Unmarshal(text, &r))
			ts.Setenv("MESH", r.Listen)
			ts.Setenv("CONTROL", r.Control)
			return
		}
		select {
		case err := <-m.ended:
			m.ended <- err
			ts.Fatalf("the mesh ended: %v\n%s", err, log)
		case <-time.After(readyPoll):
		}
		if time.Now().After(end) {
			ts.Fatalf("no mesh after %s\n%s", startTime, log)
		}
	}
}

// makeDatabase is the script command "postgres VARIABLE": it makes an empty
// PostgreSQL database and sets the variable to its address. Where there is no
// PostgreSQL the script is skipped.
func makeDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: postgres VARIABLE")
	}
	url, missing, err := pgtest.Shared()
	ts.Check(err)
	if missing != nil {
		stateOf(ts).skip(missing)
	}
	ts.Setenv(args[0], url)
}

// awaitFile is the script command "await FILE [REGEXP]": it waits until a file
// is there and holds something.
func awaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [REGEXP]")
	}
	holds := regexp.MustCompile("")
	if len(args) == 2 {
		holds = regexp.MustCompile("(?m)" + args[1])
	}
	for end := time.Now().Add(startTime); ; time.Sleep(readyPoll) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && holds.Match(text) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s is not there, or does not hold %s, after %s:\n%s", args[0], holds, startTime, text)
		}
	}
}

// runningMesh is a serving process.
type runningMesh struct {
	cmd   *exec.Cmd
	log   *bytes.Buffer
	ended chan error
}

// stop asks the process to end and waits for it; again does nothing.
func (m *runningMesh) stop() error {
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-m.ended:
		m.ended <- err
		return err
	case <-time.After(stopTime):
		return errors.Join(fmt.Errorf("did not end within %s", stopTime), m.cmd.Process.Kill())
	}
}

func stopMesh(ts *testscript.TestScript) {
	m := stateOf(ts).mesh
	if m == nil {
		ts.Fatalf("no mesh is running")
	}
	if err := m.stop(); err != nil {
		ts.Fatalf("stop the mesh: %v\n%s", err, m.log)
	}
}

// scriptState is what a script has running.
type scriptState struct {
	mesh   *runningMesh
	agents map[string]*a2atest.Agent // by the variable that holds the address
	skip   func(why error)           // skips the script

	receivers map[string]*atomic.Bool // that were mended, by the variable that holds the address

	provider *interop.Provider
}

type stateKey struct{}

func stateOf(ts *testscript.TestScript) *scriptState { return ts.Value(stateKey{}).(*scriptState) }

// lookPath finds a program of the script's PATH.
func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	ts.Fatalf("%s is not in the PATH", name)
	return ""
}

// startSample is the script command "sample [VARIABLE] [option...]": it serves
// the reference agent until the script ends, and sets the variable (AGENT) to
// its address. What it does is said by the first word of a message (see
// steered). "sample moved [VARIABLE]" gives a started one an address at another
// port, which its card names from then on.
func startSample(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("sample cannot be negated")
	}
	name, moved, opt := "AGENT", false, a2atest.Options{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "moved":
			moved = true
		case "bearer":
			i++
			opt.Credentials = map[string]string{"Bearer " + args[i]: "mesh"}
		case "nostream":
			opt.NoStreaming = true
		case "extended":
			opt.Extended = a2atest.ExtendedServed
		case "rest":
			opt.Bindings = []a2a.Binding{a2a.HTTPJSON}
		default:
			name = args[i]
		}
	}
	agents := stateOf(ts).agents
	if !moved {
		agents[name] = a2atest.New(opt)
	}
	server := httptest.NewServer(steered(agents[name]))
	agents[name].SetURL(server.URL)
	if !moved {
		ts.Setenv(name, server.URL)
	}
	ts.Defer(func() {
		server.CloseClientConnections()
		server.Close()
	})
}

// startTokens is the script command "tokens VARIABLE CLIENT SECRET": it serves a
// token endpoint for that client until the script ends, and sets the variable
// to its address. Its tokens are token-1, token-2 and so on.
func startTokens(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: tokens VARIABLE CLIENT SECRET")
	}
	endpoint, stop := tokentest.Serve(args[1], args[2])
	ts.Setenv(args[0], endpoint.URL)
	ts.Defer(stop)
}

// steered lets the text of a message choose what the agent does: a first word
// that begins with tck- or ref- becomes the beginning of the message's id.
func steered(agent http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = steer(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		agent.ServeHTTP(w, r)
	})
}

func steer(body []byte) []byte {
	for _, at := range []string{"/params/message", "/message"} { // JSON-RPC, REST
		raw, ok := jsonwire.Get(body, at)
		if !ok {
			continue
		}
		var m a2a.Message
		if err := jsonwire.Unmarshal(raw, &m, jsonwire.Limits{}); err != nil || len(m.Parts) == 0 || m.Parts[0].Text == nil {
			continue
		}
		word, _, _ := strings.Cut(*m.Parts[0].Text, " ")
		if !strings.HasPrefix(word, "tck-") && !strings.HasPrefix(word, "ref-") {
			continue
		}
		steered, err := jsonwire.Set(body, at+"/messageId", jsonwire.Quote(word+"-"+m.MessageID))
		if err == nil {
			return steered
		}
	}
	return body
}

// exitsWith is the script command "code N program [args]": the program must
// end with that exit code. Its output is there for stdout and stderr.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// setFromJSON is the script command "json VARIABLE FILE pointer": it sets a
// variable from a member of the first JSON value of a file, which may be
// stdout.
func setFromJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: json VARIABLE FILE pointer")
	}
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile(args[1])))
	var first json.RawMessage
	ts.Check(decoder.Decode(&first))
	raw, ok := jsonwire.Get(first, args[2])
	if !ok {
		ts.Fatalf("no %s in %s", args[2], first)
	}
	text := string(raw)
	if raw[0] == '"' {
		text = jsonwire.String(raw)
	}
	ts.Setenv(args[0], text)
}

// makeCerts is the script command "certs NAME...": it makes an authority (ca.pem),
// a certificate of it for a server on loopback (server.pem, server.key) and one
// for each client (NAME.pem, NAME.key) that has NAME as its DNS name, or as its
// URI name where it is a URI; then the files are called by what follows the last
// slash.
func makeCerts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: certs NAME...")
	}
	ca := certtest.NewAuthority(ts, "ca")
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), certtest.PEM(ca.Cert), 0o600))
	certtest.WritePair(ts, ts.MkAbs("."), "server", ca.Client(ts, func(c *x509.Certificate) {
		c.IPAddresses, c.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}))
	for _, name := range args {
		names := certtest.DNS(name)
		if strings.Contains(name, "://") {
			names = certtest.SPIFFE(name)
		}
		certtest.WritePair(ts, ts.MkAbs("."), path.Base(name), ca.Client(ts, names))
	}
}

// expandFile is the script command "expand FILE": it puts the values of $NAMEs
// into a file.
func expandFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	name := ts.MkAbs(args[0])
	text, err := os.ReadFile(name)
	ts.Check(err)
	ts.Check(os.WriteFile(name, []byte(os.Expand(string(text), ts.Getenv)), 0o600))
}
