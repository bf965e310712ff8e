package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// serverOf starts what may stand at an address by mistake.
func serverOf(t *testing.T, serve func(net.Listener)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go serve(l)
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// TestWrongAddressesSayWhatStandsThere asks each way to a mesh (the control API,
// an agent's address, the metadata of sign-on) at each address that is easily
// taken for it.
func TestWrongAddressesSayWhatStandsThere(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	grpcAt := serverOf(t, func(l net.Listener) { _ = grpc.NewServer().Serve(l) }) // ends with the listener
	deaf := serverOf(t, func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024)) // enough to see that something is asked
			_ = conn.Close()
		}
	})
	verbs := map[string][]string{
		"control": {"owner", "list"},
		"edge":    {"send", "echo", "hello"},
		"login":   {"login"},
	}
	for name, tc := range map[string]struct {
		server string
		want   string
		but    string // a verb that says something else
	}{
		"TLS asked in plain": {"http://" + secure.Listener.Addr().String(), "answers, but it wants TLS: use https://", ""},
		"plain asked in TLS": {"https://" + plain.Listener.Addr().String(), "answers, but not with TLS: use http://", ""},
		"gRPC":               {grpcAt, "answers, but not with HTTP/1.1: give the address of listen", ""},
		"breaks off":         {deaf, "answers, but the connection broke before the answer came", ""},
		"another program":    {plain.URL, "is not a Parley mesh: it said 404 Not Found", "login"},
	} {
		for verb, args := range verbs {
			if verb == tc.but {
				continue
			}
			code, _, errs := run(t, []string{"HOME=" + t.TempDir()}, append([]string{"--server", tc.server}, args...)...)
			if code != 7 || !strings.Contains(errs, tc.want) || strings.Contains(errs, "start one with") || strings.Contains(errs, "net/http") {
				t.Errorf("%s, %s: code %d, want 7 and %q; got %s", name, verb, code, tc.want, errs)
			}
		}
	}
}

// TestAnswersThatSpeakOfTLSStayWhole: an answer 400 that is no refusal of plain
// HTTP is read as it came, whatever its length.
func TestAnswersThatSpeakOfTLSStayWhole(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 70_000} {
		body := strings.Repeat("x", size)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, http.StatusBadRequest) }))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := exact{"here", http.DefaultTransport, new(atomic.Bool)}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != body+"\n" {
			t.Errorf("of %d bytes %d were read: %v", size+1, len(got), err)
		}
		_ = resp.Body.Close()
		s.Close()
	}
}

func TestFlagsThatDoNotGoTogetherAreNamedAsWritten(t *testing.T) {
	for want, args := range map[string][]string{
		"--dns and --spiffe exclude each other: give one; see parley principal link --help":              {"principal", "link", "a", "--dns", "b", "--spiffe", "c"},
		"one of these is missing: --spiffe, --dns, --issuer; see parley principal link --help":           {"principal", "link", "a"},
		"--issuer and --subject belong together: --subject is missing; see parley principal link --help": {"principal", "link", "a", "--issuer", "b"},
		"--api-key and --bearer exclude each other: give one; see parley agent auth --help":              {"agent", "auth", "a", "--bearer", "--api-key"},
		"--bearer and --remove exclude each other: give one; see parley agent auth --help":               {"agent", "auth", "a", "--bearer", "--remove"},
	} {
		code, _, errs := run(t, nil, args...)
		if code != 2 || errs != "parley: "+want+"\n" {
			t.Errorf("%v: code %d, got %swant %s", args, code, errs, want)
		}
	}
}

func TestAKeyFileOfOtherJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token.json")
	if err := os.WriteFile(file, []byte(`{"access_token":"hidden"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := run(t, nil, "--server", "http://127.0.0.1:1", "--key-file", file, "owner", "list")
	if code != 2 || !strings.Contains(errs, "give a file that holds the API key or the token alone") || strings.Contains(errs, "hidden") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestADocumentEndsWithOneLineEnd(t *testing.T) {
	p, out, _ := testProgram()
	if err := p.document(map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"b\"\n}\n"; out.String() != want || !json.Valid(bytes.TrimSpace(out.Bytes())) {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestMomentsBeforeAndAfterNow(t *testing.T) {
	p, _, _ := testProgram()
	for offset, want := range map[time.Duration]string{
		-3 * time.Hour:      "(3h ago)",
		-10 * time.Second:   "(10s ago)",
		time.Second:         "(0s ago)", // another machine's clock
		90 * time.Second:    "(in 90s)",
		9 * 24 * time.Hour:  "(in 9d)",
		-9 * 24 * time.Hour: "(9d ago)",
	} {
		if got := p.moment(p.now().Add(offset)); !strings.HasSuffix(got, want) {
			t.Errorf("%v: %q, want %q", offset, got, want)
		}
	}
}
