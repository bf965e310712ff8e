package security_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

const (
	// siege is how long all attacks go on at once, at least; and until so many of
	// the honest caller's calls were served, who shares a few processors with all
	// attackers.
	siege       = 5 * time.Second
	honestCalls = 10
	// mostMemory is what the process may have resident during them, in bytes: a
	// few times what was measured, and far below what a leak of any of the
	// attacks would take.
	mostMemory = 384 << 20
	// slack is how many goroutines and files may be left over.
	slack = 12
)

// TestEverythingAtOnce attacks one mesh in all ways at the same time. Meanwhile
// every call of an honest caller succeeds, memory stays bounded, and afterwards
// the process holds what it held before.
func TestEverythingAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	// Patient with connections: on a machine this busy an honest caller's may be
	// idle, or slow to write its header, for longer than quick allows.
	patient := strings.NewReplacer("header_timeout: 1s", "header_timeout: 10s", "idle_timeout: 2s", "idle_timeout: 15s").Replace(quick)
	p := startProgram(t, product(t), strings.Replace(patient, "limits: {", "auth: {failures_per_minute: 600, failure_burst: 100}\nlimits: {response_body: 1MiB, request_body: 1MiB, stream_event: 256KiB, unary_timeout: 5s, first_byte_timeout: 5s, call_deadline: 5s, ", 1))
	good, bad := parleytest.NewAgent(t), parleytest.NewAgent(t)
	for name, url := range map[string]string{"good": good.URL, "bad": bad.URL} {
		if _, err := p.admin.AddAgent(t.Context(), control.NewAgent{Name: parley.AgentName(name), URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	good.Answer(yes)
	mallory := p.key("mallory")
	honest := newHonest(p, p.key("alice"))
	honest.call(t.Context()) // the process has what a first call makes
	honest.close()
	before := p.holdings()

	ctx, cancel := context.WithTimeout(t.Context(), 2*parleytest.Patience)
	defer cancel()
	var attackers sync.WaitGroup
	rounds := map[string]*atomic.Int64{}
	for name, attack := range attacks(t, p, bad, mallory) {
		rounds[name] = new(atomic.Int64)
		attackers.Go(func() {
			for ctx.Err() == nil {
				attack(ctx)
				rounds[name].Add(1)
				select { // they share their processors with whom they attack
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	honest = newHonest(p, honest.key)
	attackers.Go(func() {
		defer cancel()
		for began := time.Now(); time.Since(began) < siege || honest.served < honestCalls && ctx.Err() == nil; {
			honest.call(t.Context())
		}
	})
	var peak float64
	for ctx.Err() == nil {
		peak = max(peak, p.metric("process_resident_memory_bytes"))
	}
	attackers.Wait()
	honest.close()
	if honest.failed > 0 || honest.served < honestCalls {
		t.Errorf("of the honest caller's calls %d failed and %d were served; the first failure: %v", honest.failed, honest.served, honest.first)
	}
	if peak > mostMemory {
		t.Errorf("%.0f MiB were resident, want %d at most", peak/(1<<20), mostMemory>>20)
	}
	var report strings.Builder
	for name, n := range rounds {
		fmt.Fprintf(&report, " %s %d;", name, n.Load())
		if n.Load() == 0 {
			t.Errorf("the attack %q never ended", name)
		}
	}
	t.Logf("%d honest calls, %.0f MiB at most; rounds:%s", honest.served, peak/(1<<20), report.String())

	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	var after holdings
	for deadline := time.Now().Add(parleytest.Patience); ; time.Sleep(50 * time.Millisecond) {
		if after = p.holdings(); after.within(before) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("before %+v, afterwards %+v", before, after)
		}
	}
}

// holdings are what a process holds.
type holdings struct{ goroutines, files, connections, streams, open float64 }

func (p *process) holdings() holdings {
	p.t.Helper()
	return holdings{p.metric("go_goroutines"), p.metric("process_open_fds"), p.metric(edgeConnections), p.metric("parley_streams_open"), p.metric("parley_calls_open")}
}

func (h holdings) within(before holdings) bool {
	return h.goroutines <= before.goroutines+slack && h.files <= before.files+slack && h.connections <= before.connections && h.streams == 0 && h.open <= before.open
}

// honest is a caller who does nothing wrong.
type honest struct {
	conn           *a2a.Conn
	transport      *http.Transport
	key            string
	served, failed int
	first          error
}

func newHonest(p *process, key string) *honest {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.pool}}
	return &honest{key: key, transport: tr, conn: &a2a.Conn{Client: &a2a.Client{Transport: tr}, Header: http.Header{"Authorization": {"Bearer " + key}},
		Endpoint: a2a.Endpoint{URL: p.ready.Listen + "/agents/good/", Binding: a2a.JSONRPC, Version: a2a.V10}}}
}

func (h *honest) close() { h.transport.CloseIdleConnections() }

func (h *honest) call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parleytest.Patience)
	defer cancel()
	if _, err := h.conn.SendMessage(ctx, parleytest.Message("", "x")); err != nil {
		h.failed++
		if h.first == nil {
			h.first = err
		}
		return
	}
	h.served++
}

// attacks are one round each of everything.
func attacks(t *testing.T, p *process, bad *parleytest.Agent, mallory string) map[string]func(context.Context) {
	header := edgeRequest(p.address(), mallory)
	all := map[string]func(context.Context){}
	for _, attack := range http2Attacks {
		all[attack.name] = func(context.Context) {
			// That each fails is TestHTTP2's; here some do not even get a connection.
			_ = attack.run(func() (net.Conn, error) { return p.dial("h2") }, header)
		}
	}
	head := func(lines ...string) string {
		return strings.Join(append([]string{"POST /agents/bad/message:send HTTP/1.1", "Host: x", "A2A-Version: 1.0", "Content-Type: application/json"}, lines...), "\r\n") + "\r\n\r\n"
	}
	authorized := "Authorization: Bearer " + mallory
	// at throws bytes over so many connections at once and reads what comes.
	at := func(connections int, parts ...string) func(context.Context) {
		return func(ctx context.Context) {
			var group sync.WaitGroup
			for range connections {
				group.Go(func() { p.throwAway(ctx, parts...) })
			}
			group.Wait()
		}
	}
	all["idle connections"] = at(200)
	all["headers that dribble"] = at(50, append([]string{"GET / HTTP/1.1\r\n"}, strings.Split(strings.Repeat("X-A: 1\r\n,", 100), ",")...)...)
	all["bodies that dribble"] = at(50, append([]string{head(authorized, "Content-Length: 10000"), "{"}, strings.Split(strings.Repeat(" ,", 100), ",")...)...)
	all["bodies too large"] = at(8, head(authorized, "Content-Length: 100000000"), strings.Repeat("x", 8<<20))
	all["bodies too large, in chunks"] = at(8, head(authorized, "Transfer-Encoding: chunked"), strings.Repeat("10000\r\n"+strings.Repeat("[", 1<<16)+"\r\n", 100))
	all["bodies that are compressed"] = at(8, head(authorized, "Content-Encoding: gzip", "Content-Length: 1000000"), string(zipped(t, 64<<20)))
	all["headers too large"] = at(8, "GET / HTTP/1.1\r\n", strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 1000))
	all["wrong keys"] = at(8, strings.Repeat(head("Authorization: Bearer pk_aaaaaaaaaaaa_"+strings.Repeat("b", 52), "Content-Length: 2")+"{}", 100))
	all["no keys"] = at(8, strings.Repeat(head("Content-Length: 2")+"{}", 100))
	all["answers that nobody reads"] = func(ctx context.Context) { p.unread(ctx, 8) }
	for what, answer := range hostileAnswers {
		if what == "tiny chunks" { // burns the test's own processor
			continue
		}
		all["an agent: "+what] = func(ctx context.Context) {
			p.askBad(ctx, bad, answerWith(answer.first, answer.again, 2<<20), mallory)
		}
	}
	return all
}

// throwAway opens a connection, sends parts with pauses between them, and reads
// until the mesh has had enough.
func (p *process) throwAway(ctx context.Context, parts ...string) {
	conn, err := p.dial("http/1.1")
	if err != nil {
		return // there may be too many already
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(parleytest.Patience)) != nil {
		return
	}
	read := make(chan struct{})
	go func() { // ends when the mesh hangs up, or with the connection
		defer close(read)
		_, _ = io.Copy(io.Discard, conn)
	}()
	for i, part := range parts {
		if i > 1 {
			select {
			case <-time.After(50 * time.Millisecond): // to dribble is the attack
			case <-read:
				return
			case <-ctx.Done():
				return
			}
		}
		if _, err := io.WriteString(conn, part); err != nil {
			return
		}
	}
	select {
	case <-read:
	case <-ctx.Done():
	}
}

// unread asks for documents over so many connections and reads nothing.
func (p *process) unread(ctx context.Context, connections int) {
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			conn, err := p.dial("http/1.1")
			if err != nil {
				return
			}
			defer conn.Close()
			if conn.SetWriteDeadline(time.Now().Add(parleytest.Patience)) != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			for range 100_000 { // fails once the mesh hangs up
				if _, err := io.WriteString(conn, "GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					return
				}
			}
		})
	}
	group.Wait()
}

// askBad calls the hostile agent, which says what the last one who asked has set
// up: any of it will do.
func (p *process) askBad(ctx context.Context, bad *parleytest.Agent, answer http.HandlerFunc, key string) {
	bad.Serve(answer)
	h := newHonest(p, key)
	defer h.close()
	h.conn.Endpoint.URL = p.ready.Listen + "/agents/bad/"
	h.call(ctx)
	if h.served > 0 {
		p.t.Error("an answer without end was served")
	}
}
