package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readResponse reads one response as the load generator does.
func readResponse(r *bufio.Reader) (head, []byte, error) {
	h, err := readHead(r)
	if err != nil {
		return h, nil, err
	}
	content := newBody(r, h)
	all, err := appendAll(nil, &content)
	return h, all, err
}

func TestReadResponse(t *testing.T) {
	tests := []struct {
		name, wire string
		want       head
		body       string
	}{
		{"content length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
			head{status: 200, length: 5}, "hello"},
		{"empty", "HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n",
			head{status: 200}, ""},
		{"no reason", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n",
			head{status: 503}, ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
			head{status: 200, length: -1, chunked: true}, "hello world"},
		{"chunked with trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
			head{status: 200, length: -1, chunked: true}, "0123456789"},
		{"event stream", "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			head{status: 200, length: -1, chunked: true, eventFlow: true}, ""},
		{"closing", "HTTP/1.1 401 Unauthorized\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nno",
			head{status: 401, length: 2, closing: true}, "no"},
		{"after an interim response", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			head{status: 200, length: 2}, "ok"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const next = "HTTP/1.1 204 next"
			r := bufio.NewReader(strings.NewReader(tt.wire + next))
			h, content, err := readResponse(r)
			if err != nil {
				t.Fatalf("read %q: %v", tt.wire, err)
			}
			if diff := cmp.Diff(tt.want, h, cmp.AllowUnexported(head{})); diff != "" {
				t.Errorf("head of %q: want - got +\n%s", tt.wire, diff)
			}
			if string(content) != tt.body {
				t.Errorf("body of %q = %q, want %q", tt.wire, content, tt.body)
			}
			if rest, _ := io.ReadAll(r); string(rest) != next {
				t.Errorf("after %q there is %q left, want %q", tt.wire, rest, next)
			}
		})
	}
}

func TestReadResponseRefuses(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name, wire string
		want       error
	}{
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", errMalformed},
		{"status with letters", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", errMalformed},
		{"status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", errMalformed},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", errMalformed},
		{"both lengths", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errMalformed},
		{"length twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", errMalformed},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errMalformed},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", errMalformed},
		{"more than the limit", "HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2000000), errMalformed},
		{"field without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", errMalformed},
		{"gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", errMalformed},
		{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1000), errMalformed},
		{"endless line", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 2*readBufferBytes), errMalformed},
		{"endless interim responses", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), errMalformed},
		{"chunk size without digits", chunked + "\r\nhello\r\n0\r\n\r\n", errMalformed},
		{"chunk longer than its size", chunked + "3\r\nhello\r\n0\r\n\r\n", errMalformed},
		{"cut off in the head", "HTTP/1.1 200 OK\r\nContent-Le", io.ErrUnexpectedEOF},
		{"cut off in the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", io.ErrUnexpectedEOF},
		{"cut off in a chunk", chunked + "5\r\nhel", io.ErrUnexpectedEOF},
		{"no last chunk", chunked + "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"cut off in the trailers", chunked + "0\r\n", io.ErrUnexpectedEOF},
		{"nothing", "", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, content, err := readResponse(bufio.NewReaderSize(strings.NewReader(tt.wire), readBufferBytes))
			if !errors.Is(err, tt.want) {
				t.Errorf("read %.80q = %.80q, %v, want %v", tt.wire, content, err, tt.want)
			}
		})
	}
}

// Whatever both this reader and net/http take for a response has the same
// status and the same content.
func FuzzReadResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		h, content, err := readResponse(bufio.NewReaderSize(bytes.NewReader(wire), readBufferBytes))
		if len(content) > maxResponseBytes+readBufferBytes {
			t.Fatalf("read %d bytes, limit is %d", len(content), maxResponseBytes)
		}
		if err != nil || bytes.HasPrefix(wire, []byte("HTTP/1.1 1")) || h.status == 204 || h.status == 304 {
			return // net/http leaves interim responses to its caller and knows statuses without a body
		}
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), nil)
		if err != nil {
			return
		}
		defer theirs.Body.Close()
		want, err := io.ReadAll(theirs.Body)
		if err != nil {
			return
		}
		if h.status != theirs.StatusCode || !bytes.Equal(content, want) {
			t.Fatalf("read %q: status %d, content %q; net/http: %d, %q", wire, h.status, content, theirs.StatusCode, want)
		}
	})
}

func TestEachEvent(t *testing.T) {
	tests := []struct {
		name, flow string
		want       []string
		cut        bool
	}{
		{"two events", "data: a\n\ndata: b\n\n", []string{"a", "b"}, false},
		{"carriage returns", "data: a\r\n\r\n", []string{"a"}, false},
		{"comments, ids and names pass by", ": keep-alive\n\nid: 1\nevent: x\ndata: a\n\n:\n\n", []string{"a"}, false},
		{"lines are joined", "data: a\ndata:b\n\n", []string{"a\nb"}, false},
		{"nothing", "", nil, false},
		{"cut off in an event", "data: a\n\ndata: b\n", []string{"a"}, true},
		{"cut off in a line", "data: a\n\ndata: ", []string{"a"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			err := eachEvent(bufio.NewReader(strings.NewReader(tt.flow)), func(data []byte) error {
				got = append(got, string(data))
				return nil
			})
			if tt.cut != errors.Is(err, io.ErrUnexpectedEOF) || (!tt.cut && err != nil) {
				t.Errorf("eachEvent(%q) = %v, cut off: %t", tt.flow, err, tt.cut)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events of %q: want - got +\n%s", tt.flow, diff)
			}
		})
	}
}
