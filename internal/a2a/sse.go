package a2a

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sseReader reads server-sent events: the data and the type of each event that
// has data. Comments, ids and retry times are passed over.
type sseReader struct {
	r      *bufio.Reader
	limit  int  // bytes of one event, field names included
	skipLF bool // the last line ended in CR
	first  bool
	line   []byte
}

// DefaultMaxFrame is the largest event accepted from a peer, in bytes.
const DefaultMaxFrame = 8 << 20

// maxBetween bounds what a peer may send between two events, in bytes. A comment
// a second takes three days to fill it; without it, a peer could keep us reading
// for nothing for as long as a call may last.
const maxBetween = 4 << 20

var errFrameTooLarge = errors.New("a2a: stream event over the limit")

// sseBuffer is small because every open stream has one and most of them are
// idle. The connection beneath has a buffer of its own, so that a long event
// costs a few more copies, not more system calls.
const sseBuffer = 512 // bytes

func newSSEReader(r io.Reader, limit int) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, sseBuffer), limit: limit, first: true}
}

// next returns the next event that has data. The data is the caller's to keep. It
// returns io.EOF at the end; an event without the blank line after it is
// discarded, as the format demands.
func (s *sseReader) next() (event string, data []byte, err error) {
	size, has := 0, false
	between := 0 // bytes of comments and of events without data
	for {
		line, err := s.readLine(s.limit - size)
		if err != nil {
			return "", nil, err
		}
		size += len(line) + 1
		if len(line) == 0 {
			if has {
				return event, data, nil
			}
			between += size
			event, size = "", 0
			if between > maxBetween {
				return "", nil, errFrameTooLarge
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "data":
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, value...), true
		case "event":
			event = string(value)
		case "":
			// A comment is no part of its event: a long silence brings many.
			size -= len(line) + 1
			between += len(line) + 1
			if between > maxBetween {
				return "", nil, errFrameTooLarge
			}
		}
	}
}

// readLine reads a line of at most limit bytes, which may end in LF, CR or both.
// The line is valid until the next call.
func (s *sseReader) readLine(limit int) ([]byte, error) {
	s.line = s.line[:0]
	for {
		chunk, err := s.r.Peek(1)
		if err != nil {
			return nil, err // a line without its end is discarded
		}
		if s.skipLF {
			s.skipLF = false
			if chunk[0] == '\n' {
				s.discard(1)
				continue
			}
		}
		chunk, _ = s.r.Peek(s.r.Buffered())
		i := bytes.IndexAny(chunk, "\r\n")
		take := len(chunk)
		if i >= 0 {
			take = i
		}
		if len(s.line)+take > limit {
			return nil, errFrameTooLarge
		}
		s.line = append(s.line, chunk[:take]...)
		if i < 0 {
			s.discard(take)
			continue
		}
		s.skipLF = chunk[i] == '\r'
		s.discard(take + 1)
		if s.first {
			s.first = false
			s.line = bytes.TrimPrefix(s.line, []byte("\xef\xbb\xbf"))
		}
		return s.line, nil
	}
}

// discard drops bytes that are in the buffer, which cannot fail.
func (s *sseReader) discard(n int) { _, _ = s.r.Discard(n) }
