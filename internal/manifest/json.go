package manifest

import (
	"bytes"
	"errors"
	"io"
	"sort"

	"github.com/go-json-experiment/json/jsontext"
)

// json reads the documents of a JSON file, one after another.
func (r *reader) json(raw []byte) (roots []*node) {
	s := &jsonSource{reader: r, raw: raw, dec: jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))}
	for i, c := range raw {
		if c == '\n' {
			s.lines = append(s.lines, i)
		}
	}
	for {
		n, err := s.value(1)
		switch {
		case err == nil:
			roots = append(roots, n)
			continue
		case errors.Is(err, errRefused):
		case !errors.Is(err, io.EOF):
			// The decoder's own words may repeat what stands there.
			r.fail(s.place(s.dec.InputOffset()), "", "", "not JSON from here on")
		}
		return roots
	}
}

// errRefused ends the reading of a file of which too much was told already.
var errRefused = errors.New("refused")

type jsonSource struct {
	*reader
	raw   []byte
	dec   *jsontext.Decoder
	lines []int // offsets of the line ends
}

// place is the line and column of an offset.
func (s *jsonSource) place(offset int64) Position {
	before := sort.SearchInts(s.lines, int(offset))
	start := 0
	if before > 0 {
		start = s.lines[before-1] + 1
	}
	return Position{s.file, before + 1, int(offset) - start + 1}
}

// next is where the next token begins.
func (s *jsonSource) next() Position {
	at := int(s.dec.InputOffset())
	for at < len(s.raw) && bytes.IndexByte([]byte(" \t\r\n,:"), s.raw[at]) >= 0 {
		at++
	}
	return s.place(int64(at))
}

func (s *jsonSource) value(depth int) (*node, error) {
	at := s.next()
	tok, err := s.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if !s.admit(at, depth) {
		return nil, errRefused
	}
	n := &node{at: at}
	switch tok.Kind() {
	case '"':
		n.shape, n.text = text, tok.String()
	case '0':
		n.shape, n.text = number, tok.String()
	case 't', 'f':
		n.shape, n.text = boolean, tok.String()
	case '[':
		n.shape = list
		for s.dec.PeekKind() != ']' {
			item, err := s.value(depth + 1)
			if err != nil {
				return nil, inside(err)
			}
			n.items = append(n.items, item)
		}
		_, err = s.dec.ReadToken()
	case '{':
		n.shape = object
		for s.dec.PeekKind() != '}' {
			if err := s.member(n, depth); err != nil {
				return nil, inside(err)
			}
		}
		_, err = s.dec.ReadToken()
	}
	return n, inside(err)
}

func (s *jsonSource) member(n *node, depth int) error {
	at := s.next()
	tok, err := s.dec.ReadToken()
	if err != nil {
		return err
	}
	name := tok.String()
	value, err := s.value(depth + 1)
	if err != nil {
		return err
	}
	n.add(s.reader, name, at, value)
	return nil
}

// inside makes an end of the file inside of a value an error.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
