package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// drainTime is how long after its planned end a measurement may still wait for
// answers before it fails.
const drainTime = 10 * time.Second

// dialTime bounds the opening of one connection.
const dialTime = 5 * time.Second

// Spec says which load to make. It travels as JSON to the load generator's
// process; durations are in nanoseconds there.
type Spec struct {
	// URLs are where requests are posted, dealt out to the connections in turn;
	// only http is spoken.
	URLs []string `json:"urls"`
	// Header holds further lines "Name: value" of every request.
	Header []string `json:"header,omitempty"`
	// GRPC makes gRPC calls; URLs are then of the form host:port.
	GRPC bool `json:"grpc,omitempty"`
	// Tenant is the tenant of gRPC requests, which names the agent in a mesh.
	Tenant string `json:"tenant,omitempty"`
	// Old makes requests of A2A 0.3, over JSON-RPC without Stream.
	Old bool `json:"old,omitempty"`
	// Stream asks for an event stream. The latency is then the time to the
	// first event, and every stream must have StreamEvents events.
	Stream bool `json:"stream,omitempty"`
	// Task is a task whose events are asked for by every stream, none where
	// each sends a message.
	Task string `json:"task,omitempty"`
	// Conns is the number of keep-alive connections, one request in flight on
	// each at most.
	Conns int `json:"conns"`
	// Rate is the number of requests started per second, evenly spaced and
	// whether or not earlier ones have been answered. Zero means that each
	// connection sends its next request as soon as the last one is answered.
	Rate float64 `json:"rate,omitempty"`
	// Warmup passes before anything is counted; Duration is what is counted.
	Warmup   time.Duration `json:"warmup"`
	Duration time.Duration `json:"duration"`
	// Watch are the processes whose CPU time is read.
	Watch []int `json:"watch,omitempty"`
	// Database is a server whose CPU time is read with that of its children, 0
	// for none.
	Database int `json:"database,omitempty"`
}

// Result is what one measurement found.
type Result struct {
	Requests  int           `json:"requests"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	// CPU is user and system time of the watched processes for each request, 0
	// when none was watched.
	CPU time.Duration `json:"cpu_per_request_ns"`
	// DatabaseCPU is that of the database server.
	DatabaseCPU time.Duration `json:"database_cpu_per_request_ns,omitempty"`
	// LagP50 and LagP99 say how late a paced request left, whatever the reason;
	// they are contained in the latencies.
	LagP50 time.Duration `json:"lag_p50_ns,omitempty"`
	LagP99 time.Duration `json:"lag_p99_ns,omitempty"`
	// RSS, PSS and Anonymous are by how many bytes the watched process grew for
	// each stream that stays open; 0 for other loads.
	RSS       float64 `json:"rss_per_stream_bytes,omitempty"`
	PSS       float64 `json:"pss_per_stream_bytes,omitempty"`
	Anonymous float64 `json:"anonymous_per_stream_bytes,omitempty"`
	// AgentStreams is how many streams of one task the agent had open, at most.
	AgentStreams int `json:"agent_streams,omitempty"`
}

func (s Spec) check() error {
	switch {
	case len(s.URLs) == 0:
		return errors.New("load: there is no url")
	case s.Old && (s.GRPC || s.Stream):
		return errors.New("load: requests of 0.3 are made over JSON-RPC, without streams")
	case s.Conns < 1:
		return fmt.Errorf("load: conns is %d, want 1 or more", s.Conns)
	case s.Duration <= 0:
		return fmt.Errorf("load: duration is %s, want more than 0", s.Duration)
	case s.Warmup < 0:
		return fmt.Errorf("load: warmup is %s, want 0 or more", s.Warmup)
	case s.Rate < 0:
		return fmt.Errorf("load: rate is %g, want 0 or more", s.Rate)
	}
	return nil
}

// Load makes the load and returns what it measured. The first request that is
// not answered by a JSON-RPC result ends it with that error: figures with
// failures among them are not comparable.
func Load(ctx context.Context, spec Spec) (Result, error) {
	if err := spec.check(); err != nil {
		return Result{}, err
	}
	end := time.Now().Add(spec.Warmup + spec.Duration + drainTime)
	connect := httpExchanges
	if spec.GRPC {
		connect = grpcExchanges
	}
	until, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	exchanges, closeAll, err := connect(until, spec)
	defer closeAll() // nothing is left to be read
	if err != nil {
		return Result{}, err
	}
	cpu := func() (usage, error) { return usageOf(spec) }
	if spec.Rate > 0 {
		return paced(ctx, spec, exchanges, cpu, sleepUntil)
	}
	return saturated(ctx, spec, exchanges, cpu)
}

// httpExchanges opens the connections of spec, which are of no use after ctx.
// close ends them, also after an error.
func httpExchanges(ctx context.Context, spec Spec) (exchanges []exchange, closeAll func() error, err error) {
	var conns []*conn
	closeAll = func() error {
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.net.Close())
		}
		return errors.Join(errs...)
	}
	end, _ := ctx.Deadline()
	for i := range spec.Conns {
		c, err := dial(ctx, spec, spec.URLs[i%len(spec.URLs)], end)
		if err != nil {
			return nil, closeAll, err
		}
		conns = append(conns, c)
		exchanges = append(exchanges, c.exchange)
	}
	return exchanges, closeAll, nil
}

// usage is the CPU time used by processes so far, or between two readings.
type usage struct {
	watched, database time.Duration
}

// usageOf reads the CPU times that spec asks for.
func usageOf(spec Spec) (usage, error) {
	var u usage
	for _, pid := range spec.Watch {
		used, err := processCPU(pid)
		if err != nil {
			return usage{}, err
		}
		u.watched += used
	}
	if spec.Database == 0 {
		return u, nil
	}
	var err error
	u.database, err = serverCPU(spec.Database)
	return u, err
}

// conn is one keep-alive connection with its prepared request.
type conn struct {
	net     net.Conn
	r       *bufio.Reader
	events  *bufio.Reader // over the content of a streamed response
	request *request
	stream  bool
	sent    uint64
	content []byte
}

// dial opens a connection to address that is of no use after end.
func dial(ctx context.Context, spec Spec, address string, end time.Time) (*conn, error) {
	to, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("load: url: %w", err)
	}
	if to.Scheme != "http" || to.Host == "" {
		return nil, fmt.Errorf("load: url %q: want http://HOST:PORT/PATH", address)
	}
	request, err := newRequest(to.Host, to.RequestURI(), spec)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	dialer := net.Dialer{Timeout: dialTime}
	c, err := dialer.DialContext(ctx, "tcp", to.Host)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	// One deadline for all requests: setting it for each would cost more than
	// the request does.
	if err := c.SetDeadline(end); err != nil {
		c.Close()
		return nil, fmt.Errorf("load: %w", err)
	}
	return &conn{net: c, r: bufio.NewReaderSize(c, readBufferBytes), request: request, stream: spec.Stream}, nil
}

// exchange sends the next request, reads and verifies the answer, and returns
// when the answer, or its first event, was there.
func (c *conn) exchange() (time.Time, error) {
	content, err := c.ask()
	if err != nil {
		return time.Time{}, err
	}
	if c.stream {
		return c.readStream(&content)
	}
	if c.content, err = appendAll(c.content[:0], &content); err != nil {
		return time.Time{}, fmt.Errorf("read response: %w", err)
	}
	at := time.Now()
	return at, checkReply(c.content, c.request.id)
}

// ask sends the next request and reads the head of its answer, which must be
// a good one of the kind that was asked for.
func (c *conn) ask() (body, error) {
	c.sent++
	c.request.number(c.sent)
	if _, err := c.net.Write(c.request.wire); err != nil {
		return body{}, fmt.Errorf("send request: %w", err)
	}
	h, err := readHead(c.r)
	if err != nil {
		return body{}, fmt.Errorf("read response: %w", err)
	}
	content := newBody(c.r, h)
	if h.status != http.StatusOK || h.closing || h.eventFlow != c.stream {
		return body{}, c.unexpected(h, &content)
	}
	return content, nil
}

// readStream reads a whole stream and returns when its first event was there.
func (c *conn) readStream(content *body) (first time.Time, err error) {
	if c.events == nil {
		c.events = bufio.NewReaderSize(content, readBufferBytes)
	} else {
		c.events.Reset(content)
	}
	count := 0
	err = eachEvent(c.events, func(event []byte) error {
		if count == 0 {
			first = time.Now()
		}
		count++
		return checkReply(event, c.request.id)
	})
	if err != nil {
		return first, err
	}
	if count != StreamEvents {
		return first, fmt.Errorf("stream had %d events, want %d", count, StreamEvents)
	}
	return first, nil
}

// unexpected describes a response that cannot be the answer.
func (c *conn) unexpected(h head, content *body) error {
	text := make([]byte, 400)
	n, err := io.ReadFull(content, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("response with status %d: %w", h.status, err)
	}
	return fmt.Errorf("response with status %d (closes the connection: %t, event stream: %t): %s", h.status, h.closing, h.eventFlow, text[:n])
}
