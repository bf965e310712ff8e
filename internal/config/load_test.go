package config

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/parley-mesh/parley/internal/parley"
)

// testEnv is what a process always has; tests add to it.
var testEnv = []string{"HOME=/nonexistent/home"}

func load(t *testing.T, yaml string, env []string, args ...string) (*Config, error) {
	t.Helper()
	opts := Options{Env: append(testEnv[:1:1], env...)}
	if yaml != "" {
		opts.File = filepath.Join(t.TempDir(), "parley.yaml")
		if err := os.WriteFile(opts.File, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts.Flags = pflag.NewFlagSet("parley", pflag.ContinueOnError)
	AddFlags(opts.Flags)
	if err := opts.Flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(opts)
}

func mustLoad(t *testing.T, yaml string, env []string, args ...string) *Config {
	t.Helper()
	c, err := load(t, yaml, env, args...)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

// TestBadFiles loads every testdata/*.bad.yaml; its first line says which
// message must come out, and no other may.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(raw), "\n")
			want := strings.TrimPrefix(first, "# want: ")
			c, err := Load(Options{File: file, Env: testEnv})
			if err == nil {
				t.Fatalf("loaded without an error; want %q", want)
			}
			if c != nil {
				t.Error("a config was returned beside the error")
			}
			if !strings.HasPrefix(err.Error(), file) || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %q\nwant %q after the file's name", err, want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one mistake reported: %q", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the message repeats a secret: %q", err)
			}
			var mistake *Error
			if !errors.As(err, &mistake) {
				t.Errorf("the error is a %T, want it to hold an *Error", err)
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := load(t, "lisen: x\ndurability: lax\n", []string{"PARLEY_LIMITS_CARD=1"}, "--environment", "qa")
	got := strings.Split(err.Error(), "\n")
	want := []string{":1: lisen: ", ":2: durability: ", "PARLEY_LIMITS_CARD: limits.card: ", "--environment: environment: "}
	if len(got) != len(want) {
		t.Fatalf("got %d mistakes, want %d: %q", len(got), len(want), got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("mistake %d: got %q, want %q in it", i, got[i], want[i])
		}
	}
}

func TestSourcesInOrder(t *testing.T) {
	yaml := "listen: 127.0.0.1:1\nops_listen: 127.0.0.1:2\ndurability: relaxed\nlog:\n  level: warn\n"
	env := []string{"PARLEY_LISTEN=127.0.0.1:3", "PARLEY_OPS_LISTEN=127.0.0.1:4", "PARLEY_LOG_LEVEL="}
	c := mustLoad(t, yaml, env, "--listen", "127.0.0.1:5")

	if c.Listen != "127.0.0.1:5" || c.OpsListen != "127.0.0.1:4" || c.Durability != DurabilityRelaxed || c.Log.Level != LogWarn || c.Cards != CardsPublic {
		t.Errorf("wrong winner: listen %s (want flag), ops_listen %s (want environment), durability %s and log.level %s (want file), cards %s (want default)",
			c.Listen, c.OpsListen, c.Durability, c.Log.Level, c.Cards)
	}
	for key, want := range map[string]string{
		"listen": "--listen", "ops_listen": "PARLEY_OPS_LISTEN", "durability": "parley.yaml:3", "log.level": "parley.yaml:5", "cards": "default",
	} {
		if got := c.Origin(key).String(); !strings.HasSuffix(got, want) {
			t.Errorf("origin of %s: got %q, want %q", key, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	c := mustLoad(t, `
public_url: https://mesh.example.org/parley/
network: {allow: [10.20.0.0/16, "fd00::/8", 192.168.1.7]}
cors:
  origins:
    - https://Console.Example.org
auth: {anonymous: greeter}
limits: {request_body: 64KiB, call_deadline: 90m, json_depth: "32"}
retention:
  calls: 90d
telemetry: {traces_sample: 0.25}
a2a: {strict_version: true}
watch:
`, nil)
	if got, want := c.PublicURL, "https://mesh.example.org/parley"; got != want {
		t.Errorf("public_url: got %q, want %q", got, want)
	}
	wantAllow := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.168.1.7/32")}
	if diff := cmp.Diff(wantAllow, c.Network.Allow, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("network.allow (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"https://console.example.org"}, c.CORS.Origins); diff != "" {
		t.Errorf("cors.origins (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]parley.AgentName{"greeter"}, c.Auth.Anonymous); diff != "" {
		t.Errorf("auth.anonymous (-want +got):\n%s", diff)
	}
	if c.Limits.RequestBody != 64*KiB || c.Limits.CallDeadline != 90*time.Minute || c.Limits.JSONDepth != 32 {
		t.Errorf("limits: got %+v", c.Limits)
	}
	if c.Retention.Calls != 90*day || c.Telemetry.TracesSample != 0.25 || !c.A2A.StrictVersion {
		t.Errorf("got retention.calls %s, traces_sample %g, strict_version %t", c.Retention.Calls, c.Telemetry.TracesSample, c.A2A.StrictVersion)
	}
}

func TestListFlagRepeatsAndReplaces(t *testing.T) {
	c := mustLoad(t, "network: {allow: [192.168.0.0/16]}", nil, "--allow-network", "10.1.0.0/16", "--allow-network", "10.2.0.0/16")
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16")}
	if diff := cmp.Diff(want, c.Network.Allow, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("network.allow (-want +got):\n%s", diff)
	}
}

func TestDataFolder(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		want string
	}{
		{"xdg", []string{"HOME=/nonexistent/home", "XDG_DATA_HOME=/nonexistent/xdg"}, "/nonexistent/xdg/parley"},
		{"relative xdg is ignored", []string{"HOME=/nonexistent/home", "XDG_DATA_HOME=xdg"}, "/nonexistent/home/.local/share/parley"},
		{"home", []string{"HOME=/nonexistent/home"}, "/nonexistent/home/.local/share/parley"},
		{"set", []string{"PARLEY_DATA=/nonexistent/data"}, "/nonexistent/data"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Load(Options{Env: test.env})
			if err != nil {
				t.Fatal(err)
			}
			if c.Data != test.want {
				t.Errorf("got %q, want %q", c.Data, test.want)
			}
		})
	}
	if _, err := Load(Options{}); err == nil || !strings.Contains(err.Error(), "set data or --data to a folder") {
		t.Errorf("without a home: got %v, want an error that names data", err)
	}
}

// TestRelativePathsStartFromTheFile checks that a configuration folder can be
// moved as a whole.
func TestRelativePathsStartFromTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "parley.yaml")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "data: state\ntls: {cert: tls/cert.pem, key: /nonexistent/key.pem}\nmaster_key: file:master.key\n")
	write(filepath.Join(dir, "master.key"), "hunter2\n")
	c, err := Load(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Data, c.TLS.Cert, c.TLS.Key, c.MasterKey.Reveal(), c.MasterKey.Reference()}
	want := []string{filepath.Join(dir, "state"), filepath.Join(dir, "tls/cert.pem"), "/nonexistent/key.pem", "hunter2", "file:" + filepath.Join(dir, "master.key")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(Options{File: "testdata/absent.yaml", Env: testEnv})
	if err == nil || err.Error() != "testdata/absent.yaml: the file does not exist" {
		t.Errorf("got %v", err)
	}
}

func TestUnknownVariables(t *testing.T) {
	c := mustLoad(t, "", []string{"PARLEY_LISEN=127.0.0.1:9", "PARLEY_PORT_7400_TCP=tcp://10.0.0.1:7400", "PARLEY_SERVER=x", "PARLEY_KEY_FILE=x"})
	var slips []string
	for _, notice := range c.Notices() {
		if strings.Contains(notice, "sets nothing") {
			slips = append(slips, notice)
		}
	}
	want := []string{"the environment variable PARLEY_LISEN sets nothing; did you mean PARLEY_LISTEN?"}
	if diff := cmp.Diff(want, slips); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

// TestEffectiveReadsBack checks that what is printed is the same configuration
// again, for the default and for one with every list filled.
func TestEffectiveReadsBack(t *testing.T) {
	for name, c := range map[string]*Config{
		"default": mustLoad(t, "", nil),
		"filled": mustLoad(t, `
listen: "[::1]:0"
public_url: https://mesh.example.org/a'b
data: "/nonexistent/with space: #and marks"
network: {allow: [10.0.0.0/8, "fd00::/8"], deny: []}
cors: {origins: [https://a.example, "http://localhost:3000"]}
auth: {anonymous: [a, b-2]}
store: postgres://mesh@db-1:5432,db-2:5432/mesh
`, nil),
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := c.WriteEffective(&out); err != nil {
				t.Fatal(err)
			}
			again := mustLoad(t, out.String(), nil)
			if diff := cmp.Diff(c, again, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(func(a, b Secret) bool { return a.Reveal() == b.Reveal() }), cmp.Comparer(func(a, b Store) bool { return a.String() == b.String() }), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("read back differs (-printed +read):\n%s\nprinted:\n%s", diff, out.String())
			}
		})
	}
}

func TestEffectiveShowsSourcesAndHidesSecrets(t *testing.T) {
	c := mustLoad(t, "master_key: env:MK\n", []string{"MK=hunter2"}, "--durability", "relaxed")
	var out bytes.Buffer
	if err := c.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("the secret is printed:\n%s", out.String())
	}
	for _, want := range []string{"durability: relaxed # --durability\n", "cards: public # default\n", "parley.yaml:1\n", "master_key: \"[redacted]\" #", "limits:\n  request_body: 10MiB # default\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing from:\n%s", want, out.String())
		}
	}
}

// TestKeyTable checks what the table must keep: unique paths, flags and
// variables, defaults inside their own ranges, and sections in one piece, which
// printing relies on.
func TestKeyTable(t *testing.T) {
	c := mustLoad(t, "", nil)
	seen, finished, section := map[string]bool{}, map[string]bool{}, ""
	for _, k := range c.keys() {
		for _, name := range []string{k.path, k.env(), "--" + k.flag} {
			if seen[name] && name != "--" {
				t.Errorf("%s: %s is used twice", k.path, name)
			}
			seen[name] = true
		}
		if _, secret := k.value.(sourced); !secret {
			if err := k.value.set(k.value.text(), ""); err != nil {
				t.Errorf("%s: the default is refused: %v", k.path, err)
			}
		}
		if !strings.HasSuffix(k.doc, ".") {
			t.Errorf("%s: the explanation is no sentence: %q", k.path, k.doc)
		}
		s, _, nested := strings.Cut(k.path, ".")
		if !nested {
			s = ""
		}
		if s != section {
			finished[section] = true
			section = s
		}
		if finished[s] {
			t.Errorf("%s stands apart from its section", k.path)
		}
	}
}

func FuzzFile(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Options{File: file, Env: testEnv})
		if (c == nil) != (err != nil) {
			t.Fatalf("config %v beside error %v", c, err)
		}
	})
}
