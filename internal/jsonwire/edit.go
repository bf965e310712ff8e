package jsonwire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Splice replaces the bytes from Start to End of a document by Text.
type Splice struct {
	Start, End int
	Text       []byte
}

// Apply returns data with the splice made, in a new slice.
func (s Splice) Apply(data []byte) []byte {
	out := make([]byte, 0, len(data)-(s.End-s.Start)+len(s.Text))
	out = append(out, data[:s.Start]...)
	out = append(out, s.Text...)
	return append(out, data[s.End:]...)
}

// Shift returns the same splice in a document where this one starts at offset.
func (s Splice) Shift(offset int) Splice {
	return Splice{Start: s.Start + offset, End: s.End + offset, Text: s.Text}
}

// ErrNoParent is returned by PlanSet where the object that is to hold the
// member does not exist.
var ErrNoParent = errors.New("jsonwire: no object to hold the member")

// PlanSet plans to give the member at path, a JSON pointer through objects, the
// value. A member that exists keeps its place; a new one becomes the first of
// its object. Every other byte stays. data must be valid JSON.
func PlanSet(data []byte, path string, value jsontext.Value) (Splice, error) {
	at, err := find(data, path)
	if err != nil {
		return Splice{}, err
	}
	if at.found {
		return Splice{Start: at.valueStart, End: at.valueEnd, Text: value}, nil
	}
	text := append(Quote(at.name), ':')
	text = append(text, value...)
	if !at.parentEmpty {
		text = append(text, ',')
	}
	return Splice{Start: at.parentOpen, End: at.parentOpen, Text: text}, nil
}

// PlanDelete plans to take the member at path out, with the one comma that
// goes with it. Where there is none the splice is empty and ok false.
func PlanDelete(data []byte, path string) (s Splice, ok bool, err error) {
	at, err := find(data, path)
	if errors.Is(err, ErrNoParent) {
		return Splice{}, false, nil
	}
	if err != nil || !at.found {
		return Splice{}, false, err
	}
	s = Splice{Start: at.nameStart, End: at.valueEnd}
	rest := data[at.valueEnd:]
	if blank := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n")); blank < len(rest) && rest[blank] == ',' {
		s.End += blank + 1
	} else if before := bytes.TrimRight(data[:at.nameStart], " \t\r\n"); len(before) > 0 && before[len(before)-1] == ',' {
		s.Start = len(before) - 1
	}
	return s, true, nil
}

// Set returns data with the member at path set to value; see PlanSet.
func Set(data []byte, path string, value jsontext.Value) ([]byte, error) {
	s, err := PlanSet(data, path, value)
	if err != nil {
		return nil, err
	}
	return s.Apply(data), nil
}

// Delete returns data without the member at path, data itself where there is none.
func Delete(data []byte, path string) ([]byte, error) {
	s, ok, err := PlanDelete(data, path)
	if err != nil || !ok {
		return data, err
	}
	return s.Apply(data), nil
}

// Get returns the raw value at path, a JSON pointer through objects; it aliases
// data. ok is false where there is none or where data is not valid up to there.
func Get(data []byte, path string) (raw jsontext.Value, ok bool) {
	if path == "" {
		return data, true
	}
	at, err := find(data, path)
	if err != nil || !at.found {
		return nil, false
	}
	return data[at.valueStart:at.valueEnd:at.valueEnd], true
}

// place is where a member is, or where it would be put.
type place struct {
	name                            string
	nameStart, valueStart, valueEnd int
	parentOpen                      int // just behind the parent's opening brace
	parentEmpty, found              bool
}

func find(data []byte, path string) (place, error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || !utf8.ValidString(path) {
		return place{}, fmt.Errorf("jsonwire: path %q is no JSON pointer to a member", path)
	}
	c := newChecker(data, CheckOptions{})
	defer c.release()
	for {
		name, deeper, more := strings.Cut(rest, "/")
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		at, err := c.findMember(name, more)
		if err != nil || !more {
			return at, err
		}
		rest = deeper
	}
}

// findMember looks for a name in the object that comes next. With descend it
// stops before the member's value, so that the next call looks inside it.
func (c *checker) findMember(name string, descend bool) (place, error) {
	if c.peek() != '{' {
		if c.dead {
			return place{}, c.problems[0]
		}
		return place{}, ErrNoParent
	}
	c.token()
	at := place{name: name, parentOpen: int(c.dec.InputOffset()), parentEmpty: true}
	for c.peek() == '"' {
		at.parentEmpty = false
		quoted := c.take()
		if c.dead {
			break
		}
		hit := String(quoted) == name
		if hit && descend {
			return at, nil
		}
		end := int(c.dec.InputOffset())
		value := c.take()
		if c.dead {
			break
		}
		if hit {
			at.found, at.nameStart = true, end-len(quoted)
			at.valueEnd = int(c.dec.InputOffset())
			at.valueStart = at.valueEnd - len(value)
			return at, nil
		}
	}
	if c.dead {
		return place{}, c.problems[0]
	}
	if descend {
		return place{}, ErrNoParent
	}
	return at, nil
}
