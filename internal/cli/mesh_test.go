package cli

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/control"
)

const adminText = "pk_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

// recorder answers an empty list and keeps the Authorization of every request.
func recorder(t *testing.T) (address string, seen *[]string) {
	t.Helper()
	seen = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = append(*seen, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write([]byte(`{"items":[]}`)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

func adminKeyFor(t *testing.T, origin string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	raw, err := json.Marshal(control.AdminKey{Origin: origin, Mesh: "m", Key: adminText})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, control.AdminKeyFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAdminKeyGoesToItsOriginOnly(t *testing.T) {
	server, seen := recorder(t)
	port := server[strings.LastIndexByte(server, ':'):]
	for _, tc := range []struct {
		name, origin string
		want         string
	}{
		{"its own", server, "Bearer " + adminText},
		{"its own, written otherwise", strings.ToUpper(server), "Bearer " + adminText},
		{"another port", "http://127.0.0.1:1", ""},
		{"another scheme", "https://127.0.0.1" + port, ""},
		{"another name of the same machine", "http://localhost" + port, ""},
		{"a longer name", "http://127.0.0.1.evil.example" + port, ""},
	} {
		*seen = nil
		code, _, errs := run(t, nil, "--data", adminKeyFor(t, tc.origin), "--server", server, "owner", "list")
		if code != 0 || len(*seen) != 1 || (*seen)[0] != tc.want {
			t.Errorf("%s: code %d, sent %q, want %q; %s", tc.name, code, *seen, tc.want, errs)
		}
	}
}

func TestWhichKeyIsSent(t *testing.T) {
	server, seen := recorder(t)
	dir := adminKeyFor(t, server)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("pk_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"a given key wins over the admin key", []string{"PARLEY_KEY=pk_env"}, nil, "Bearer pk_env"},
		{"the variable names a file", []string{"PARLEY_KEY_FILE=" + file}, nil, "Bearer pk_file"},
		{"the flag wins over the variables", []string{"PARLEY_KEY=pk_env"}, []string{"--key-file", file}, "Bearer pk_file"},
		{"empty variables are none", []string{"PARLEY_KEY=", "PARLEY_KEY_FILE="}, nil, "Bearer " + adminText},
		{"the last of two assignments counts", []string{"PARLEY_KEY=pk_one", "PARLEY_KEY=pk_two"}, nil, "Bearer pk_two"},
	} {
		*seen = nil
		args := append([]string{"--data", dir, "owner", "list"}, tc.args...)
		code, _, errs := run(t, append(tc.env, "PARLEY_SERVER="+server), args...)
		if code != 0 || len(*seen) != 1 || (*seen)[0] != tc.want {
			t.Errorf("%s: code %d, sent %q, want %q; %s", tc.name, code, *seen, tc.want, errs)
		}
	}
}

func TestNoKeyFollowsARedirect(t *testing.T) {
	elsewhere, seen := recorder(t)
	s := httptest.NewServer(http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect))
	defer s.Close()
	for _, args := range [][]string{{"owner", "list"}, {"send", "echo", "hello"}, {"task", "get", "echo", "1"}} {
		if code, _, _ := run(t, []string{"PARLEY_KEY=pk_x"}, append([]string{"--server", s.URL, "--data", t.TempDir()}, args...)...); code == 0 {
			t.Errorf("%v: a redirect counts as an answer", args)
		}
	}
	if len(*seen) != 0 {
		t.Errorf("the redirect was followed: %q", *seen)
	}
}

func TestUsageErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"--server", "mesh.example.com", "owner", "list"}, "write it as https://"},
		{nil, []string{"--server", "http://u:p@h", "owner", "list"}, "a key goes into"},
		{nil, []string{"--server", "http://h?x=y", "owner", "list"}, "scheme, host and port only"},
		{nil, []string{"--server", "ftp://h", "owner", "list"}, "write it as"},
		{nil, []string{"--server", "http://127.0.0.1:1", "--key-file", empty, "owner", "list"}, "is empty"},
		{nil, []string{"--server", "http://127.0.0.1:1", "--key-file", empty + "x", "owner", "list"}, "no such file"},
		{[]string{"PARLEY_KEY=a b"}, []string{"owner", "list"}, "no data directory"},
		{[]string{"PARLEY_KEY=a b", "HOME=/h"}, []string{"owner", "list"}, "is no API key"},
		{nil, []string{"owner", "list", "--output", "xml"}, "use table or json"},
		{nil, []string{"send", "echo", "x", "--stream", "--no-wait"}, "--no-wait and --stream exclude each other"},
	} {
		code, _, errs := run(t, tc.env, tc.args...)
		if code != exitUsage || !strings.Contains(errs, tc.want) {
			t.Errorf("%v %v: code %d, errors %q; want 2 and %q", tc.env, tc.args, code, errs, tc.want)
		}
	}
}

func TestNoMeshSaysHowToStartOne(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"--data", dir, "owner", "list"}, {"--data", dir, "send", "echo", "hello"}, {"--data", dir, "events", "tail", "--follow"},
		{"--server", "http://127.0.0.1:1", "--data", dir, "agent", "list"}, {"--server", "http://127.0.0.1:1", "--data", dir, "task", "list", "echo"},
	} {
		code, _, errs := run(t, nil, args...)
		if code != 7 || !strings.Contains(errs, "start one with 'parley serve'") {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
}

// TestTLSFailuresAreToldApart: a mesh that answers and is not trusted is not
// one that is not there.
func TestTLSFailuresAreToldApart(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write([]byte(`{"items":[]}`)); err != nil {
			t.Error(err)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	t.Cleanup(s.Close)
	plain, _ := recorder(t)
	dir := t.TempDir()
	ca, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := errors.Join(os.WriteFile(ca, certificate, 0o600), os.WriteFile(empty, []byte("none"), 0o600)); err != nil {
		t.Fatal(err)
	}
	otherName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	for _, tc := range []struct {
		server string
		env    string
		args   []string
		code   int
		says   string
	}{
		{s.URL, "", nil, 7, s.URL + " answers, but its certificate is signed by nobody known here: give the authority's certificate with --ca-file F"},
		{s.URL, "", []string{"--ca-file", ca}, 0, ""},
		{s.URL, "PARLEY_CA_FILE=" + ca, nil, 0, ""},
		{s.URL, "", []string{"--ca-file", empty}, 2, "holds no certificate"},
		{s.URL, "", []string{"--ca-file", ca + "x"}, 2, "no such file"},
		{otherName, "", []string{"--ca-file", ca}, 7, "its certificate is not for this name"},
		{strings.Replace(plain, "http:", "https:", 1), "", nil, 7, "answers, but not with TLS: use http://"},
		{"https://127.0.0.1:1", "", nil, 7, "no mesh answers"},
	} {
		for _, verb := range [][]string{{"owner", "list"}, {"task", "list", "echo"}} {
			args := append(append([]string{"--server", tc.server}, verb...), tc.args...)
			code, _, errs := run(t, []string{"PARLEY_DATA=" + dir, tc.env}, args...)
			if verb[0] == "task" && tc.code == 0 {
				if strings.Contains(errs, "certificate") {
					t.Errorf("%v: %s", args, errs)
				}
				continue
			}
			if code != tc.code || !strings.Contains(errs, tc.says) || tc.code == 7 && tc.server != "https://127.0.0.1:1" && strings.Contains(errs, "parley serve") {
				t.Errorf("%v (%s): code %d, %q; want %d and %q", args, tc.env, code, errs, tc.code, tc.says)
			}
		}
	}
}
