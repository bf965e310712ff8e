package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// socketBase is the address under which a mesh is asked through its socket:
// what is dialled is the socket, whatever the name.
const socketBase = "http://parley.localhost"

const (
	dialTimeout = 10 * time.Second
	maxKeyFile  = 32 << 10 // bytes; a token is larger than a key
	maxCAFile   = 1 << 20  // bytes
)

// mesh is where a command line's requests go, and who they come from.
type mesh struct {
	base   string // address without a trailing slash
	socket string // path of the socket; empty where the mesh is asked over TCP
	key    string // API key; empty for none
	given  string // where key was given, such as PARLEY_KEY; empty where nobody did
	http   http.RoundTripper
	plain  http.RoundTripper // the same without a login
}

// name is what a person calls the mesh.
func (m *mesh) name() string { return cmp.Or(m.socket, m.base) }

// client speaks to the mesh's control API.
func (p *program) client() (*control.Client, error) {
	m, err := p.mesh()
	if err != nil {
		return nil, err
	}
	p.asked = m.slip()
	return control.NewClient(&http.Client{Transport: patient{p, m.http, "the mesh"}}, m.base, m.key)
}

// slip is what to do where a given key is not allowed what was asked: it is
// most often a caller's, which should not have been in the environment.
func (m *mesh) slip() string {
	switch {
	case m.given == "":
		return ""
	case m.socket == "" && !loopback(m.base):
		return fmt.Sprintf("this was asked with the key in %s: give one of an admin or operator", m.given)
	case strings.HasPrefix(m.given, "PARLEY_"):
		return fmt.Sprintf("this was asked with the key in %s: unset %s to be the local admin on this machine", m.given, m.given)
	}
	return fmt.Sprintf("this was asked with the key in %s: leave --key-file out to be the local admin on this machine", m.given)
}

// mesh finds the mesh that the global flags and the environment name.
func (p *program) mesh() (*mesh, error) {
	server := cmp.Or(p.flags.server, p.variable("PARLEY_SERVER"))
	if server == "" {
		return p.localMesh()
	}
	base, err := serverAddress(server)
	if err != nil {
		return nil, err
	}
	m := &mesh{base: base}
	if m.key, m.given, err = p.key(base); err != nil {
		return nil, err
	}
	certificate, err := p.certificate(base)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = p.trust(); err != nil {
		return nil, err
	}
	shown := new(atomic.Bool)
	if certificate != nil {
		if transport.TLSClientConfig == nil {
			transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		// Also where the mesh asks for one of another authority: it says better
		// than silence what is wrong.
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			shown.Store(true)
			return certificate, nil
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport.DialContext = m.dial(dialer.DialContext)
	m.plain = exact{m.name(), transport, shown}
	m.http = m.plain
	if m.key == "" && certificate == nil { // two credentials must be of one principal
		if err := p.withoutKey(m); err != nil {
			return nil, err
		}
	}
	if m.key != "" && strings.HasPrefix(base, "http://") && !loopback(base) {
		p.remark("the key travels unencrypted to %s: use https", base)
	}
	return m, nil
}

// withoutKey finds what else may prove somebody to the mesh: a login there, or
// the admin key of this machine.
func (p *program) withoutKey(m *mesh) (err error) {
	var loggedIn bool
	if m.http, loggedIn, err = p.kept(m.base, m.plain); err != nil || loggedIn {
		return err
	}
	m.key, p.hint, err = p.adminKey(m.base)
	return err
}

// localMesh is the mesh behind the socket of the data directory.
func (p *program) localMesh() (*mesh, error) {
	dir, err := p.dataDir()
	if err != nil {
		return nil, err
	}
	m := &mesh{base: socketBase, socket: filepath.Join(dir, control.SocketFile)}
	if m.key, m.given, err = p.key(""); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	m.http = exact{m.name(), &http.Transport{DialContext: m.dial(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", m.socket)
	})}, new(atomic.Bool)}
	return m, nil
}

// dial makes a failed connection say what to do.
func (m *mesh) dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, fs.ErrPermission):
			return nil, connectError{parley.E("cli.connect", parley.Denied, parley.Subject(m.name()),
				fmt.Sprintf("%s belongs to another user: run as that user, or use --server with a key", m.name()), err)}
		case m.socket != "":
			return nil, connectError{parley.E("cli.connect", parley.Unavailable, parley.Subject(m.socket),
				fmt.Sprintf("no mesh answers at %s: start one with 'parley serve', or name another with --data or --server", m.socket), err)}
		}
		return nil, connectError{parley.E("cli.connect", parley.Unavailable, parley.Subject(m.base),
			fmt.Sprintf("no mesh answers at %s (%v): start one with 'parley serve', or name another with --server", m.base, innermost(err)), err)}
	}
}

// trust is how a mesh's certificate is judged: by the system's authorities,
// and those that --ca-file names.
func (p *program) trust() (*tls.Config, error) {
	path := cmp.Or(p.flags.caFile, p.variable("PARLEY_CA_FILE"))
	if path == "" {
		return nil, nil
	}
	raw, err := readFile(path, maxCAFile)
	if err != nil {
		return nil, usagef("read the CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // a system without any
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(raw) {
		return nil, usagef("the CA file %s holds no certificate in PEM form", path)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// certificate is the client certificate that flags or environment give; nil for
// none. base is the mesh to which it will be shown.
func (p *program) certificate(base string) (*tls.Certificate, error) {
	cert, key := cmp.Or(p.flags.cert, p.variable("PARLEY_CERT")), cmp.Or(p.flags.certKey, p.variable("PARLEY_CERT_KEY"))
	switch {
	case cert == "" && key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, usagef("--cert and --cert-key (or PARLEY_CERT and PARLEY_CERT_KEY) belong together: give both")
	case !strings.HasPrefix(base, "https://"):
		return nil, usagef("a client certificate can be shown to an https --server only, and %s is none", base)
	}
	chain, err := readFile(cert, maxCAFile)
	if err != nil {
		return nil, usagef("read the client certificate: %w", err)
	}
	secret, err := readFile(key, maxCAFile)
	if err != nil {
		return nil, usagef("read the key of the client certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		return nil, usagef("the client certificate %s with the key %s: %w", cert, key, err)
	}
	return &pair, nil
}

// exact is a transport that tells a mesh that is not there from one that answers
// and cannot be understood, cannot prove who it is, or breaks off.
type exact struct {
	name string // of the mesh
	next http.RoundTripper
	// shown tells that a client certificate was asked for and shown, and nothing
	// was answered since.
	shown *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (e exact) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.next.RoundTrip(r)
	problem := ""
	switch {
	case err == nil:
		e.shown.Store(false)
		if !wantsTLS(r, resp) {
			return resp, nil
		}
		problem = "it wants TLS: use https://"
		err = resp.Body.Close()
	case r.Context().Err() != nil:
	default:
		problem = connectionProblem(err)
		if _, dialed := errors.AsType[connectError](err); !dialed && e.shown.Load() && tlsProblem(err) == "" {
			// TLS 1.3 refuses a certificate after the handshake, and the alert that says
			// so may be lost to the end of the connection.
			problem = refusedCertificate(err)
		}
	}
	if problem == "" {
		return nil, err
	}
	return nil, connectError{parley.E("cli.connect", parley.Unavailable, parley.Subject(e.name), e.name+" answers, but "+problem, err)}
}

// wantsTLS reports whether an answer says that the port speaks TLS only, which
// Go's servers and common proxies tell in plain text.
func wantsTLS(r *http.Request, resp *http.Response) bool {
	if r.URL.Scheme != "http" || resp.StatusCode != http.StatusBadRequest || resp.Header.Get(headerCallID) != "" {
		return false
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(resp.Body, head)
	head = head[:n]
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = http.NoBody // all of it is in head, or it broke off there
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), resp.Body}
	return bytes.Contains(head, []byte("HTTP request")) && bytes.Contains(head, []byte("HTTPS"))
}

// connectionProblem says what went wrong on a connection that stood; empty where
// none did, or err has been worded already.
func connectionProblem(err error) string {
	if _, ok := errors.AsType[connectError](err); ok {
		return ""
	}
	if problem := tlsProblem(err); problem != "" {
		return problem
	}
	switch {
	case strings.Contains(err.Error(), "malformed HTTP"), // net/http has no value for it,
		strings.Contains(err.Error(), "readLoopPeekFailLocked: %!w(<nil>)"): // nor for a server that speaks before it was asked
		return "not with HTTP/1.1: give the address of listen (port 7400 by default), not that of grpc_listen"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection broke before the answer came: what was asked may have been done; look before you ask again"
	}
	return ""
}

// tlsProblem says what is wrong with the certificate or the handshake; empty
// where err is about something else.
func tlsProblem(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by nobody known here: give the authority's certificate with --ca-file F or PARLEY_CA_FILE"
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("its certificate is not for this name (%v): use the name it is made for", e)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return fmt.Sprintf("its certificate is not valid (%v): let whoever runs the mesh renew it, and check this machine's clock", e)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Sprintf("its certificate cannot be verified (%v)", e.Err)
	}
	_, record := errors.AsType[tls.RecordHeaderError](err)
	if record || errors.Is(err, http.ErrSchemeMismatch) {
		return "not with TLS: use http://, or the port that speaks TLS"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // a TLS alert of the other side
		return refusedCertificate(e.Err)
	}
	return ""
}

func refusedCertificate(err error) string {
	return fmt.Sprintf("it ends the TLS handshake (%v): it wants a client certificate (--cert and --cert-key), or does not take the one it was shown; its log says more", innermost(err))
}

// connectError says why no connection was made. It is more exact than what
// the layers above it make of it.
type connectError struct{ cause *parley.Error }

func (e connectError) Error() string { return e.cause.Error() }
func (e connectError) Unwrap() error { return e.cause }

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// serverAddress checks what --server says.
func serverAddress(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usagef("--server %q is not an address: write it as https://mesh.example.com or http://127.0.0.1:7400", server)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("--server takes scheme, host and port only; a key goes into PARLEY_KEY or --key-file")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// key is the API key that flag or environment give and which of them did;
// empty for none. base is where it will be sent; empty for the socket.
func (p *program) key(base string) (key, given string, err error) {
	path, text := cmp.Or(p.flags.keyFile, p.variable("PARLEY_KEY_FILE")), p.variable("PARLEY_KEY")
	switch {
	case p.flags.keyFile == "" && path != "" && text != "":
		return "", "", usagef("PARLEY_KEY and PARLEY_KEY_FILE are both set: keep one")
	case path == "":
		if key, err = checkKey("PARLEY_KEY", strings.TrimSpace(text)); key == "" {
			return "", "", err
		}
		return key, "PARLEY_KEY", nil
	case p.flags.keyFile == "":
		given = "PARLEY_KEY_FILE"
	default:
		given = path
	}
	key, err = keyFrom(path, base)
	return key, given, err
}

// keyFrom reads a key file: the key itself, or an admin key, which belongs to
// one origin.
func keyFrom(path, base string) (string, error) {
	raw, err := readFile(path, maxKeyFile)
	if err != nil {
		return "", usagef("read the key file: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		text := string(bytes.TrimSpace(raw))
		if text == "" {
			return "", usagef("the key file %s is empty", path)
		}
		return checkKey(path, text)
	}
	k, err := control.ReadAdminKey(path)
	if err != nil {
		return "", usagef("the key file %s holds JSON that is no admin key: give a file that holds the API key or the token alone", path)
	}
	if !sameOrigin(k.Origin, base) {
		return "", usagef("the key in %s is for %s and goes nowhere else: use --server %s", path, k.Origin, k.Origin)
	}
	return k.Key, nil
}

// checkKey refuses text that no header may carry.
func checkKey(from, key string) (string, error) {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", usagef("what %s holds is no API key: it has blanks or control characters in it", from)
	}
	return key, nil
}

// adminKey is the admin key of the data directory where it belongs to base;
// else a hint may say where it belongs. That there is none is no error: cards
// and open agents need no key.
func (p *program) adminKey(base string) (key, hint string, err error) {
	dir, err := p.dataDir()
	if err != nil {
		return "", "", nil // no data directory, so no admin key
	}
	k, err := control.ReadAdminKey(filepath.Join(dir, control.AdminKeyFile))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", "", nil
	case err != nil:
		return "", "", usageError{err}
	case !sameOrigin(k.Origin, base):
		return "", fmt.Sprintf("the admin key in %s is for %s", dir, k.Origin), nil
	}
	return k.Key, "", nil
}

func sameOrigin(a, b string) bool {
	left, err := registry.OriginOf(a)
	if err != nil {
		return false
	}
	right, err := registry.OriginOf(b)
	return err == nil && left == right
}

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path, limit)
}

func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return raw, nil
}
