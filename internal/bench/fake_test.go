package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The test binary plays two programs besides itself: the benchmark's own
// program in its roles, and a stand-in for the parley binary that knows only
// the surface the benchmark uses.
const (
	roleVariable = "BENCH_TEST_ROLE"
	fakeKey      = "pk_test"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" || len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	if err := playRole(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cancel()
}

// playRole acts as the program that args call for.
func playRole(ctx context.Context, args []string) error {
	option := func(name string) string {
		if at := slices.Index(args, name); at >= 0 && at+1 < len(args) {
			return args[at+1]
		}
		return ""
	}
	switch verb := strings.Join(args[:min(len(args), 2)], " "); {
	case verb == "agent":
		return Serve(untilInputEnds(ctx), os.Stdout, newAgent(RepliesMessage), newAgent(RepliesTask), newAgent(HoldsStreams),
			newAgent(RepliesOldMessage), newAgent(RepliesOldTask), newAgent(Ticks))
	case args[0] == "proxy":
		var handlers []func(string) (http.Handler, error)
		for _, upstream := range args[1:] {
			handlers = append(handlers, newProxy(upstream))
		}
		return Serve(untilInputEnds(ctx), os.Stdout, handlers...)
	case verb == "load":
		return ServeLoad(ctx, os.Stdin, os.Stdout)
	case verb == "grpc-agent":
		return ServeGRPCAgent(untilInputEnds(ctx), os.Stdout)
	case args[0] == "grpc-proxy":
		return ServeGRPCProxy(untilInputEnds(ctx), os.Stdout, args[1])
	case verb == "hold":
		return HoldStreams(ctx, os.Stdin, os.Stdout)
	case verb == "follow":
		return FollowTask(ctx, os.Stdin, os.Stdout)
	case args[0] == "serve":
		return fakeServe(ctx, fakeStore(option("--data"), option("--config")), option("--ready-file"))
	case os.Getenv("PARLEY_SERVER") != "":
		return errors.New("this would go to another mesh")
	case verb == "owner create", verb == "principal create":
		return nil
	case verb == "agent add":
		return os.WriteFile(filepath.Join(option("--data"), args[2]), []byte(args[3]), 0o600)
	case verb == "key create":
		fmt.Printf(`{"id":"1","key":%q}`, fakeKey)
		return nil
	}
	return fmt.Errorf("unknown command %q", args)
}

func newAgent(kind Kind) func(string) (http.Handler, error) {
	return func(base string) (http.Handler, error) { return NewAgent(kind, base) }
}

func newProxy(upstream string) func(string) (http.Handler, error) {
	return func(string) (http.Handler, error) { return NewProxy(upstream) }
}

// untilInputEnds is how a role ends with the process that started it.
func untilInputEnds(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// fakeStore is the directory in which a stand-in finds its agents: its own, or
// for a replica that of the mesh whose key it has.
func fakeStore(data, config string) string {
	text, err := os.ReadFile(config)
	if err != nil {
		return data
	}
	_, key, found := strings.Cut(string(text), `master_key: "file:`)
	if !found {
		return data
	}
	file, _, _ := strings.Cut(key, `"`)
	return filepath.Dir(file)
}

// fakeServe forwards /agents/NAME/ to the address that `agent add` left in the
// data directory, for callers with the key.
func fakeServe(ctx context.Context, data, ready string) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	var proxies sync.Map // agent name to its http.Handler, so that connections are reused
	edge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/agents/"), "/")
		to, err := os.ReadFile(filepath.Join(data, filepath.Base(name)))
		if err != nil || r.Header.Get("Authorization") != "Bearer "+fakeKey {
			http.Error(w, "who or what?", http.StatusForbidden)
			return
		}
		proxy, known := proxies.Load(name)
		if !known {
			made, err := NewProxy(string(to))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			proxy, _ = proxies.LoadOrStore(name, made)
		}
		r.URL.Path = "/"
		proxy.(http.Handler).ServeHTTP(w, r)
	})
	ops := http.NewServeMux()
	ops.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.Atoi(r.FormValue("seconds"))
		if err != nil {
			http.Error(w, "no seconds", http.StatusBadRequest)
			return
		}
		sample := &profile.Profile{
			SampleType:    []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
			DurationNanos: int64(seconds) * int64(time.Second),
			Mapping:       []*profile.Mapping{{ID: 1, File: "/opt/bin/parley"}},
		}
		if err := sample.Write(w); err != nil {
			panic(err)
		}
	})
	var addresses started
	reader, writer := io.Pipe()
	go func() { // ends with the line that Serve prints
		if json.NewDecoder(reader).Decode(&addresses) == nil {
			text := fmt.Sprintf(`{"listen":%q,"ops":%q}`, addresses.Bases[0], addresses.Bases[1])
			if os.WriteFile(ready+".new", []byte(text), 0o600) == nil {
				os.Rename(ready+".new", ready)
			}
		}
	}()
	return Serve(ctx, writer, func(string) (http.Handler, error) { return edge, nil }, func(string) (http.Handler, error) { return ops, nil })
}

func options(t *testing.T) Options {
	t.Helper()
	t.Setenv(roleVariable, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector lets each process linger for a second
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Program: program, Dir: t.TempDir(), Pairs: 1, Warmup: ms, Duration: 400 * ms, Streams: 20, Settle: 30 * ms}
}

// withoutParley are the rows that compare anything when Parley is missing.
var withoutParley = []string{"unary-1", unary64, "task-64", "sse", halfLoad, "grpc-1", "grpc-64", "grpc-stream", idleSSE, fanOut}

// A whole run without a parley binary measures the other two paths and says
// so.
func TestRunWithoutParley(t *testing.T) {
	opts := options(t)
	opts.Binary = filepath.Join(opts.Dir, "no-such-file")
	report, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(report.LeftOut, []string{noBinary}) || len(report.Rows) != len(withoutParley) || len(report.Commits) != 1 {
		t.Fatalf("report is %+v", report)
	}
	for _, row := range report.Rows {
		for _, pair := range row.Pairs {
			if len(pair) != 2 || pair[0].Result.Requests == 0 || pair[1].Result.CPU <= 0 && pair[1].Result.RSS <= 0 {
				t.Errorf("%s: %+v", row.ID, pair)
			}
		}
	}
	if left, err := os.ReadDir(opts.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On PostgreSQL the same rows have one path more, and the server's own CPU
// time; two replicas share the load of one.
func TestRunOnPostgres(t *testing.T) {
	if _, err := postgresPrograms(); err != nil {
		t.Skip(err)
	}
	opts := options(t)
	opts.Binary, opts.Rows = opts.Program, []string{"pg-task-64", "replicas-64"}
	// Where this is root, another user has to pass to the server's directory.
	for dir := opts.Dir; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	report, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	paths := func(id string) (all []Path) {
		for _, m := range report.row(id).Pairs[0] {
			all = append(all, m.Path)
		}
		return all
	}
	if got, want := paths("pg-task-64"), []Path{Direct, ReverseProxy, Parley, ParleyPostgres}; !slices.Equal(got, want) {
		t.Errorf("paths beside PostgreSQL: %q, want %q", got, want)
	}
	if got, want := paths("replicas-64"), []Path{ParleyPostgres, TwoReplicas}; !slices.Equal(got, want) {
		t.Errorf("paths of replicas: %q, want %q", got, want)
	}
	if left, err := os.ReadDir(opts.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// With a binary all paths are measured, in turns, and every goal is judged.
func TestRunWithParley(t *testing.T) {
	opts := options(t)
	t.Setenv("PARLEY_SERVER", "https://mesh.invalid")
	opts.Binary, opts.Pairs, opts.Rows = opts.Program, 2, []string{unary64, halfLoad, idleSSE, fanOut}
	report, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, goal := range report.Goals() {
		if goal.Verdict == "" {
			t.Errorf("%s: not judged", goal.Text)
		}
	}
	pairs := report.row(unary64).Pairs
	if pairs[0][0].Path != Direct || pairs[1][0].Path != Parley {
		t.Errorf("order is %s first, then %s first; want it reversed", pairs[0][0].Path, pairs[1][0].Path)
	}
}

func TestProfile(t *testing.T) {
	opts := options(t)
	opts.Binary = opts.Program
	var out bytes.Buffer
	if err := Profile(t.Context(), opts, &out); err != nil {
		t.Fatal(err)
	}
	got, err := profile.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	if got.DurationNanos != int64(time.Second) || got.Mapping[0].File != "parley" {
		t.Errorf("a profile of %d ns of %q, want one second and no path", got.DurationNanos, got.Mapping[0].File)
	}
}

// A path that answers with errors ends the run: there is nothing to compare.
func TestRunEndsAtAnError(t *testing.T) {
	opts := options(t)
	opts.Third = &Target{Message: []string{serveAgent(t, RepliesMessage) + "nowhere"}}
	if _, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "third: load generator") {
		t.Errorf("err = %v, want one that names the path", err)
	}
}

func TestRowsAreChecked(t *testing.T) {
	for _, ids := range [][]string{nil, {"unary-1"}, {halfLoad, unary64}} {
		if err := checkRows(ids); err != nil {
			t.Errorf("checkRows(%q) = %v", ids, err)
		}
	}
	for _, ids := range [][]string{{"unary-2"}, {""}, {halfLoad}} {
		if err := checkRows(ids); err == nil {
			t.Errorf("checkRows(%q) accepted", ids)
		}
	}
}

func TestReadyFile(t *testing.T) {
	tests := []struct{ text, listen, ops string }{
		{`{"listen":"http://127.0.0.1:1/","ops":"http://127.0.0.1:2"}`, "http://127.0.0.1:1", "http://127.0.0.1:2"},
		{`{"listen":"127.0.0.1:1","ops":"127.0.0.1:2","socket":"x"}`, "http://127.0.0.1:1", "http://127.0.0.1:2"},
		{`{"listen":"127.0.0.1:1"}`, "", ""},
		{`nonsense`, "", ""},
	}
	for _, tt := range tests {
		var got readyFile
		err := got.decode([]byte(tt.text))
		if (err != nil) != (tt.listen == "") {
			t.Errorf("decode(%s) = %v", tt.text, err)
		}
		if err == nil && (got.Listen != tt.listen || got.Ops != tt.ops) {
			t.Errorf("decode(%s) = %+v", tt.text, got)
		}
	}
}
