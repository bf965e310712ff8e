package security_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is a client of HTTP/2 that may do anything.
type frames struct {
	*http2.Framer
	conn   net.Conn
	block  bytes.Buffer
	hpack  *hpack.Encoder
	header []hpack.HeaderField // of each request
	next   uint32

	mu     sync.Mutex
	resets map[uint32]http2.ErrCode // streams that the server reset
	ended  map[uint32]bool          // streams that the server ended
	goAway *http2.ErrCode
	over   chan struct{} // closed when the server has ended the connection
}

// errHeld says that the server keeps a connection that it should have ended.
var errHeld = errors.New("the connection is still open")

// patience2 bounds the wait for the end of an attack, and every write of it.
const patience2 = time.Minute

// openFrames greets a server. With reads the client reads what comes, as a well
// behaved one does.
func openFrames(conn net.Conn, header []hpack.HeaderField, reads bool, settings ...http2.Setting) (*frames, error) {
	f := &frames{conn: conn, Framer: http2.NewFramer(conn, conn), header: header, next: 1,
		resets: map[uint32]http2.ErrCode{}, ended: map[uint32]bool{}, over: make(chan struct{})}
	f.hpack = hpack.NewEncoder(&f.block)
	f.AllowIllegalWrites = true
	if err := conn.SetWriteDeadline(time.Now().Add(patience2)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	if err := f.WriteSettings(settings...); err != nil {
		return nil, err
	}
	if reads {
		go f.read()
	}
	return f, nil
}

// read notes what the server says until it ends the connection.
func (f *frames) read() {
	defer close(f.over)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		f.mu.Lock()
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			f.resets[frame.StreamID] = frame.ErrCode
		case *http2.GoAwayFrame:
			code := frame.ErrCode
			f.goAway = &code
		}
		if frame.Header().Flags.Has(http2.FlagDataEndStream) && frame.Header().Type != http2.FrameSettings && frame.Header().Type != http2.FramePing {
			f.ended[frame.Header().StreamID] = true
		}
		f.mu.Unlock()
	}
}

// request begins a stream.
func (f *frames) request(end bool) (uint32, error) {
	f.block.Reset()
	for _, h := range f.header {
		if err := f.hpack.WriteField(h); err != nil {
			return 0, err
		}
	}
	id := f.next
	f.next += 2
	return id, f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.block.Bytes(), EndHeaders: true, EndStream: end})
}

// closed waits for the server to end the connection.
func (f *frames) closed(limit time.Duration) error {
	select {
	case <-f.over:
		return nil
	case <-time.After(limit):
		return errHeld
	}
}

// counts tells how many streams the server reset, and ended.
func (f *frames) counts() (reset, ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.resets), len(f.ended)
}

// http2Attack is an attack on any port that speaks HTTP/2. It returns an error
// if the server let it go on.
type http2Attack struct {
	name string
	run  func(dial func() (net.Conn, error), header []hpack.HeaderField) error
}

// http2Attacks are run against every such port. header is a request the server
// answers; its body may be left out.
var http2Attacks = []http2Attack{
	{"rapid reset", rapidReset},
	{"a header block without end", endlessContinuation(16 << 10)},
	{"a header block of empty pieces", endlessContinuation(0)},
	{"settings whose answers nobody reads", flood((*frames).settings)},
	{"pings whose answers nobody reads", flood((*frames).ping)},
	{"more streams than allowed", tooManyStreams},
	{"answers that nobody takes", zeroWindow},
	{"half a greeting", halfGreeting},
	{"half a frame", halfFrame},
}

// rapidReset begins requests and takes them back at once (CVE-2023-44487). The
// server may serve or refuse them, as long as it ends what it began.
func rapidReset(dial func() (net.Conn, error), header []hpack.HeaderField) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	f, err := openFrames(conn, header, true)
	if err != nil {
		return err
	}
	for range 20_000 {
		id, err := f.request(false)
		if err == nil {
			err = f.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			return f.closed(patience2) // the server has had enough
		}
	}
	return nil
}

// endlessContinuation begins a header block that never ends.
func endlessContinuation(piece int) func(func() (net.Conn, error), []hpack.HeaderField) error {
	return func(dial func() (net.Conn, error), header []hpack.HeaderField) error {
		conn, err := dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		f, err := openFrames(conn, header, true)
		if err != nil {
			return err
		}
		var block bytes.Buffer
		if piece > 0 {
			field := hpack.HeaderField{Name: "x-filler", Value: strings.Repeat("~", piece-100), Sensitive: true}
			if err := hpack.NewEncoder(&block).WriteField(field); err != nil {
				return err
			}
		}
		err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()})
		// 64 MiB, or a quarter of a million of empty ones.
		most := 250_000
		if piece > 0 {
			most = 64 << 20 / piece
		}
		for i := 0; err == nil && i < most; i++ {
			err = f.WriteContinuation(1, false, block.Bytes())
		}
		return f.closed(patience2)
	}
}

func (f *frames) settings() error { return f.WriteSettings() }
func (f *frames) ping() error     { return f.WritePing(false, [8]byte{1}) }

// flood sends what the server has to answer and reads nothing meanwhile. The
// server ends the connection when too much waits to be sent, or nothing can be.
func flood(send func(*frames) error) func(func() (net.Conn, error), []hpack.HeaderField) error {
	return func(dial func() (net.Conn, error), header []hpack.HeaderField) error {
		conn, err := dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		f, err := openFrames(conn, header, false)
		if err != nil {
			return err
		}
		// In large writes, or the flood is only as fast as this side can write. Once
		// nothing can be written the server has stopped reading, or is gone.
		f.Framer = http2.NewFramer(bufio.NewWriterSize(conn, 64<<10), nil)
		if err := conn.SetWriteDeadline(time.Now().Add(patience2 / 4)); err != nil {
			return err
		}
		for range 2_000_000 {
			if send(f) != nil {
				break
			}
		}
		_, err = drained(conn, patience2/2)
		return err
	}
}

// tooManyStreams begins more requests than a connection may carry and sends none
// of their bodies. Those above the limit are refused, the others end in time.
func tooManyStreams(dial func() (net.Conn, error), header []hpack.HeaderField) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	f, err := openFrames(conn, header, true)
	if err != nil {
		return err
	}
	const streams = 600
	for range streams {
		if _, err := f.request(false); err != nil {
			return f.closed(patience2) // the server has had enough
		}
	}
	for deadline := time.Now().Add(patience2); ; time.Sleep(10 * time.Millisecond) {
		reset, ended := f.counts()
		over := f.closed(0) == nil
		switch {
		case over || reset+ended >= streams:
			if reset == 0 && !over {
				return fmt.Errorf("all of %d streams at once are served", streams)
			}
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d streams reset and %d ended of %d: %w", reset, ended, streams, errHeld)
		}
	}
}

// zeroWindow asks for answers and opens no window for them.
func zeroWindow(dial func() (net.Conn, error), header []hpack.HeaderField) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	f, err := openFrames(conn, header, true, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	if err != nil {
		return err
	}
	const streams = 50
	for range streams {
		if _, err := f.request(true); err != nil {
			return f.closed(patience2)
		}
	}
	for deadline := time.Now().Add(patience2); ; time.Sleep(10 * time.Millisecond) {
		reset, ended := f.counts()
		switch {
		case f.closed(0) == nil || reset+ended >= streams:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d answers that nobody takes are held: %w", streams-reset-ended, errHeld)
		}
	}
}

// halfGreeting says half of what opens a connection.
func halfGreeting(dial func() (net.Conn, error), _ []hpack.HeaderField) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(http2.ClientPreface[:12])); err != nil {
		return err
	}
	_, err = drained(conn, patience2)
	return err
}

// halfFrame greets and then sends half a frame.
func halfFrame(dial func() (net.Conn, error), header []hpack.HeaderField) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	f, err := openFrames(conn, header, true)
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte{0, 0x10, 0, byte(http2.FrameHeaders), 0, 0, 0, 0, 1, 0x82}); err != nil {
		return err
	}
	return f.closed(patience2)
}

// TestHTTP2 attacks the edge over HTTP/2, on each port that speaks it.
func TestHTTP2(t *testing.T) {
	p := startProcess(t, quick)
	key := p.key("mallory")
	ports := map[string]struct {
		address string
		header  []hpack.HeaderField
	}{
		"edge": {p.address(), edgeRequest(p.address(), key)},
		"grpc": {p.ready.GRPC, grpcRequest(p.ready.GRPC, key)},
	}
	t.Run("attack", func(t *testing.T) {
		for name, port := range ports {
			dial := func() (net.Conn, error) { return p.dialTo(port.address, "h2") }
			for _, attack := range http2Attacks {
				t.Run(name+"/"+attack.name, func(t *testing.T) {
					t.Parallel()
					if err := attack.run(dial, port.header); err != nil {
						t.Error(err)
					}
					wantServed(t, dial, port.header)
				})
			}
		}
	})
	for _, listener := range []string{"listen", "grpc_listen"} {
		await(t, "no connection is left at "+listener, func() bool {
			return p.metric(fmt.Sprintf(`parley_connections_open{parley_listener="%s"}`, listener)) == 0
		})
	}
}

// quick is a configuration that waits for nobody.
const quick = `
limits: {header_timeout: 1s, body_timeout: 1s, idle_timeout: 2s, stream_write_timeout: 1s, rate_per_address: 1000000, burst_per_address: 1000000, rate_per_principal: 1000000, burst_per_principal: 1000000}
`

const edgeConnections = `parley_connections_open{parley_listener="listen"}`

// edgeRequest is a call to an agent that does not exist, which the mesh refuses
// after it has read the body.
func edgeRequest(authority, key string) []hpack.HeaderField {
	return []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: authority}, {Name: ":path", Value: "/agents/nobody/"},
		{Name: "authorization", Value: "Bearer " + key}, {Name: "content-type", Value: "application/json"}, {Name: "a2a-version", Value: "1.0"}}
}

// grpcRequest is a call over gRPC, which waits for its message.
func grpcRequest(authority, key string) []hpack.HeaderField {
	return []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: authority}, {Name: ":path", Value: "/lf.a2a.v1.A2AService/ListTasks"},
		{Name: "te", Value: "trailers"}, {Name: "content-type", Value: "application/grpc"}, {Name: "authorization", Value: "Bearer " + key}, {Name: "a2a-version", Value: "1.0"}}
}

// wantServed checks that the next caller is served.
func wantServed(t *testing.T, dial func() (net.Conn, error), header []hpack.HeaderField) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f, err := openFrames(conn, header, true)
	if err == nil {
		_, err = f.request(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the next caller is answered", func() bool { _, ended := f.counts(); return ended == 1 })
}
