package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits on what a response may be. A path that answers more than this is
// broken, and the measurement ends with an error.
const (
	readBufferBytes  = 16 << 10 // also the longest header or event line
	maxHeaderLines   = 64
	maxResponseBytes = 1 << 20
	maxInterim       = 4 // 1xx responses before the real one
)

var errMalformed = errors.New("malformed HTTP response")

// head is what a load generator has to know of a response's head.
type head struct {
	status    int
	length    int64 // -1 when chunked
	chunked   bool
	closing   bool // the server closes the connection afterwards
	eventFlow bool // Content-Type is text/event-stream
}

// readHead reads the status line and the header fields, and skips interim
// responses.
func readHead(r *bufio.Reader) (head, error) {
	for range maxInterim {
		h, err := readOneHead(r)
		if err != nil || h.status >= 200 {
			return h, err
		}
	}
	return head{}, fmt.Errorf("%w: more than %d interim responses", errMalformed, maxInterim-1)
}

func readOneHead(r *bufio.Reader) (head, error) {
	line, err := readLine(r)
	if err != nil {
		return head{}, err
	}
	h := head{length: -1}
	if h.status, err = parseStatus(line); err != nil {
		return head{}, err
	}
	for range maxHeaderLines {
		line, err := readLine(r)
		if err != nil {
			return head{}, err
		}
		if len(line) == 0 {
			if h.status >= 200 && h.chunked == (h.length >= 0) {
				return head{}, fmt.Errorf("%w: want exactly one of Content-Length and Transfer-Encoding", errMalformed)
			}
			return h, nil
		}
		if err := h.field(line); err != nil {
			return head{}, err
		}
	}
	return head{}, fmt.Errorf("%w: more than %d header fields", errMalformed, maxHeaderLines)
}

// parseStatus reads "HTTP/1.1 200 OK".
func parseStatus(line []byte) (int, error) {
	const prefix = "HTTP/1.1 "
	if len(line) < len(prefix)+3 || string(line[:len(prefix)]) != prefix {
		return 0, fmt.Errorf("%w: status line %.60q", errMalformed, line)
	}
	code := line[len(prefix) : len(prefix)+3]
	n, ok := parseUint(code, 10)
	if !ok || n < 100 || (len(line) > len(prefix)+3 && line[len(prefix)+3] != ' ') {
		return 0, fmt.Errorf("%w: status line %.60q", errMalformed, line)
	}
	return int(n), nil
}

// field takes over the one header field in line if it matters here.
func (h *head) field(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return fmt.Errorf("%w: header field %.60q", errMalformed, line)
	}
	value = bytes.TrimSpace(value)
	switch {
	case is(name, "content-length"):
		n, ok := parseUint(value, 10)
		if !ok || h.length >= 0 {
			return fmt.Errorf("%w: Content-Length %.40q", errMalformed, value)
		}
		h.length = n
	case is(name, "transfer-encoding"):
		if !is(value, "chunked") || h.chunked {
			return fmt.Errorf("%w: Transfer-Encoding %.40q", errMalformed, value)
		}
		h.chunked = true
	case is(name, "connection"):
		h.closing = is(value, "close")
	case is(name, "content-type"):
		media, _, _ := bytes.Cut(value, []byte(";"))
		h.eventFlow = is(bytes.TrimSpace(media), "text/event-stream")
	}
	return nil
}

// is compares in ASCII without regard to case; word is lower case.
func is(got []byte, word string) bool {
	return len(got) == len(word) && bytes.EqualFold(got, []byte(word))
}

// readLine returns the next line without its end. The line is valid until the
// next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: line of more than %d bytes", errMalformed, readBufferBytes)
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// parseUint reads digits and nothing else; values that could overflow are
// refused.
func parseUint(digits []byte, base int64) (int64, bool) {
	if len(digits) == 0 || len(digits) > 12 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		var d int64
		switch {
		case c >= '0' && c <= '9':
			d = int64(c - '0')
		case base == 16 && c >= 'a' && c <= 'f':
			d = int64(c-'a') + 10
		case base == 16 && c >= 'A' && c <= 'F':
			d = int64(c-'A') + 10
		default:
			return 0, false
		}
		n = n*base + d
	}
	return n, true
}

// body reads the content of one response and ends with io.EOF exactly where
// the next response begins. A connection that ends earlier is
// io.ErrUnexpectedEOF, so a truncated answer never looks complete.
type body struct {
	r       *bufio.Reader
	left    int64 // bytes left in the content or in the current chunk
	chunked bool
	opened  bool // a chunk has been read, its line end is still to come
	ended   bool
	total   int64
}

func newBody(r *bufio.Reader, h head) body {
	if h.chunked {
		return body{r: r, chunked: true}
	}
	return body{r: r, left: h.length, ended: h.length == 0}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	if b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
		if b.ended {
			return 0, io.EOF
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	b.total += int64(n)
	switch {
	case b.total > maxResponseBytes:
		return n, fmt.Errorf("%w: more than %d bytes", errMalformed, maxResponseBytes)
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	b.ended = err == nil && b.left == 0 && !b.chunked
	return n, err
}

// nextChunk reads the line that opens the next chunk; at the last one it reads
// the trailers too and marks the end.
func (b *body) nextChunk() error {
	if b.opened {
		line, err := readLine(b.r)
		if err != nil {
			return err
		}
		if len(line) != 0 {
			return fmt.Errorf("%w: chunk is longer than its size", errMalformed)
		}
	}
	line, err := readLine(b.r)
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, ok := parseUint(bytes.TrimSpace(size), 16)
	if !ok {
		return fmt.Errorf("%w: chunk size %.40q", errMalformed, line)
	}
	b.left, b.opened = n, true
	if n > 0 {
		return nil
	}
	for range maxHeaderLines {
		line, err := readLine(b.r)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			b.ended = true
			return nil
		}
	}
	return fmt.Errorf("%w: more than %d trailer fields", errMalformed, maxHeaderLines)
}

// appendAll appends everything r has to dst.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
