package jsonwire

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// CheckOptions tell how a document is checked. The zero value is the strict
// check within default limits.
type CheckOptions struct {
	Limits Limits
	Sink   Sink // receives the members marked fact; nil for none
	Lax    bool // forgive an answering peer what a Checker may forgive, and null for an empty list
}

// Check reads data once and returns what is wrong with it, in document order and
// at most MaxProblems: nil means that data is one valid JSON object of this
// shape. After a problem of syntax or of a limit nothing more is looked at.
func (s *Shape) Check(data []byte, opt CheckOptions) []*Error {
	if e := opt.Limits.check(data); e != nil {
		return []*Error{e}
	}
	c := newChecker(data, opt)
	defer c.release()
	c.object(s, false)
	c.end()
	return c.problems
}

// checker walks one document. It is pooled: the parser inside keeps its stacks.
type checker struct {
	dec      *jsontext.Decoder
	src      bytes.Buffer
	data     []byte
	opt      CheckOptions
	problems []*Error
	dead     bool // the parser cannot go on
}

var checkers = sync.Pool{New: func() any {
	return &checker{dec: jsontext.NewDecoder(new(bytes.Buffer))}
}}

func newChecker(data []byte, opt CheckOptions) *checker {
	c := checkers.Get().(*checker)
	c.src = *bytes.NewBuffer(data)
	c.dec.Reset(&c.src)
	c.data, c.opt, c.problems, c.dead = data, opt, nil, false
	return c
}

func (c *checker) release() {
	c.src = bytes.Buffer{}
	c.dec.Reset(&c.src)
	c.data, c.opt, c.problems = nil, CheckOptions{}, nil
	checkers.Put(c)
}

func (c *checker) fail(err error) {
	if c.dead {
		return
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	c.dead = true
	e := asError(err)
	if e.Problem == "not valid JSON: unexpected EOF" {
		e.Problem, e.Offset = "not valid JSON: the text ends too early", int64(len(c.data))
	}
	c.problems = append(c.problems, e)
}

func (c *checker) add(kind Kind, path, problem, fix string) {
	if c.dead || len(c.problems) >= MaxProblems {
		return
	}
	c.problems = append(c.problems, &Error{Kind: kind, Path: path, Offset: c.dec.InputOffset(), Problem: problem, Fix: fix})
}

// here is the pointer to the value read last.
func (c *checker) here() string { return string(c.dec.StackPointer()) }

// end demands that nothing follows the document.
func (c *checker) end() {
	if c.dead {
		return
	}
	if c.dec.PeekKind() != 0 {
		c.add(KindSyntax, "", "more than one JSON value", "send one document")
		return
	}
	if _, err := c.dec.ReadToken(); err != io.EOF {
		c.fail(err)
	}
}

// peek returns the kind of the next value, 0 after recording why there is none.
func (c *checker) peek() jsontext.Kind {
	if c.dead {
		return 0
	}
	k := c.dec.PeekKind()
	if k == 0 {
		_, err := c.dec.ReadToken()
		c.fail(err)
	}
	return k
}

// take reads one value whole. It aliases the document.
func (c *checker) take() jsontext.Value {
	if c.dead {
		return nil
	}
	v, err := c.dec.ReadValue()
	if err != nil {
		c.fail(err)
		return nil
	}
	end := c.dec.InputOffset()
	start := end - int64(len(v))
	return c.data[start:end:end]
}

func (c *checker) token() {
	if c.dead {
		return
	}
	if _, err := c.dec.ReadToken(); err != nil {
		c.fail(err)
	}
}

// enter reads the token that opens a value of the wanted kind, or records that
// another kind stands there and skips it.
func (c *checker) enter(want jsontext.Kind) bool {
	k := c.peek()
	if k == want {
		c.token()
		return !c.dead
	}
	c.wrong(k, kindName(want))
	return false
}

// wrong skips a value and records what should stand in its place.
func (c *checker) wrong(k jsontext.Kind, want string) {
	if k == 0 {
		return
	}
	if c.take() != nil {
		c.add(KindValue, c.here(), fmt.Sprintf("must be %s, not %s", want, kindName(k)), "")
	}
}

func (c *checker) object(s *Shape, quiet bool) {
	if !c.enter('{') {
		return
	}
	var seen uint64
	for {
		k := c.peek()
		if k == 0 {
			return
		}
		if k == '}' {
			break
		}
		i := c.member(s)
		if c.dead {
			return
		}
		if i < 0 {
			c.take()
			continue
		}
		if c.fieldValue(&s.fields[i], quiet) {
			seen |= 1 << i
		}
	}
	c.token()
	if c.dead {
		return
	}
	if missing := s.required &^ seen; missing != 0 {
		for i := range s.fields {
			if missing&(1<<i) != 0 {
				c.add(KindValue, c.here()+"/"+s.fields[i].name, "is required", "")
			}
		}
	}
	if s.oneof != 0 {
		c.exactlyOne(s, s.oneof&seen)
	}
}

func (c *checker) exactlyOne(s *Shape, set uint64) {
	if set != 0 && set&(set-1) == 0 {
		return
	}
	names := ""
	for i := range s.fields {
		if s.oneof&(1<<i) != 0 {
			if names != "" {
				names += ", "
			}
			names += s.fields[i].name
		}
	}
	problem := "has none of " + names
	if set != 0 {
		problem = "has more than one of " + names
	}
	c.add(KindValue, c.here(), problem, "give exactly one of them")
}

// name reads a member's name, unescaped. It is valid until the next read.
func (c *checker) name() []byte {
	quoted := c.take()
	if c.dead {
		return nil
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	plain, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		c.fail(err)
	}
	return plain
}

// member reads a name and returns the index of its field, -1 for an unknown one.
func (c *checker) member(s *Shape) int {
	name := c.name()
	if c.dead {
		return -1
	}
	if i, ok := s.byName[string(name)]; ok {
		return i
	}
	if i, ok := s.byFold[fold(string(name))]; ok {
		c.add(KindName, c.here(), fmt.Sprintf("unknown member %q", clip(string(name))), fmt.Sprintf("write %q", s.fields[i].name))
	}
	return -1
}

// fieldValue checks the value of a known member and tells whether it is present.
func (c *checker) fieldValue(f *field, quiet bool) bool {
	k := c.peek()
	if k == 0 {
		return false
	}
	if k == 'n' && f.node.form != formAny {
		c.token()
		// Go programs write null for a list without elements.
		return c.opt.Lax && f.node.form == formArray
	}
	before := len(c.problems)
	raw := c.value(&f.node, k, quiet || f.quiet)
	if c.dead || len(c.problems) > before {
		return true
	}
	if f.nonempty && isEmpty(raw) {
		c.add(KindValue, c.here(), "must not be empty", "")
	}
	if f.id && !isID(raw) {
		c.add(KindValue, c.here(), fmt.Sprintf("must have at most %d bytes and no control characters", MaxIDBytes), "")
	}
	if f.ranged {
		if n, _ := strconv.ParseInt(string(raw), 10, 64); n < f.min || n > f.max {
			c.add(KindValue, c.here(), outOfRange(f.min, f.max), "")
		}
	}
	if f.fact != "" && !quiet && c.opt.Sink != nil {
		c.opt.Sink.Fact(f.fact, raw)
	}
	return true
}

// isID looks at a valid JSON string, decoding it only if it has escapes.
func isID(raw jsontext.Value) bool {
	if bytes.IndexByte(raw, '\\') >= 0 {
		if len(raw)-2 > 6*MaxIDBytes { // too long even if every byte is an escape
			return false
		}
		text := String(raw)
		return len(text) <= MaxIDBytes && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	return len(raw)-2 <= MaxIDBytes && bytes.IndexByte(raw, 0x7f) < 0
}

func outOfRange(lo, hi int64) string {
	if hi >= 1<<31-1 {
		return fmt.Sprintf("must be %d or more", lo)
	}
	return fmt.Sprintf("must be from %d to %d", lo, hi)
}

// isEmpty tells whether a valid value is "", [] or {}, whatever white space.
func isEmpty(raw jsontext.Value) bool {
	if len(raw) < 2 {
		return false
	}
	if raw[0] == '"' {
		return len(raw) == 2
	}
	return (raw[0] == '[' || raw[0] == '{') && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}

// value checks one value that is not an absent null, and returns its bytes.
func (c *checker) value(n *node, k jsontext.Kind, quiet bool) jsontext.Value {
	switch n.form {
	case formAny:
		return c.take()
	case formStruct, formArray, formMap:
		return c.composite(n, quiet)
	case formChecked:
		raw := c.take()
		if c.dead {
			return nil
		}
		if problem, fix := n.checker.CheckWire(raw, c.opt.Lax); problem != "" {
			c.add(KindValue, c.here(), problem, fix)
		}
		return raw
	}
	want, ok := scalarWants(n.form, k)
	if !ok {
		c.wrong(k, want)
		return nil
	}
	raw := c.take()
	if n.form == formInt && !c.dead {
		if _, err := strconv.ParseInt(string(raw), 10, 32); err != nil {
			c.add(KindValue, c.here(), "must be a whole number of 32 bits", "")
		}
	}
	return raw
}

func scalarWants(f form, k jsontext.Kind) (string, bool) {
	switch f {
	case formObject:
		return "an object", k == '{'
	case formString:
		return "a string", k == '"'
	case formBool:
		return "a boolean", k == 't' || k == 'f'
	default:
		return "a number", k == '0'
	}
}

func (c *checker) composite(n *node, quiet bool) jsontext.Value {
	// The opening bracket is not read yet; its offset is known once it is.
	start := c.dec.InputOffset()
	for start < int64(len(c.data)) && isFiller(c.data[start]) {
		start++
	}
	switch n.form {
	case formStruct:
		c.object(n.shape, quiet)
	case formArray:
		c.array(n.elem, quiet)
	case formMap:
		c.mapping(n.elem, quiet)
	}
	if c.dead {
		return nil
	}
	end := c.dec.InputOffset()
	return c.data[start:end:end]
}

func isFiller(b byte) bool {
	return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == ':' || b == ','
}

func (c *checker) array(elem *node, quiet bool) {
	if !c.enter('[') {
		return
	}
	for {
		k := c.peek()
		if k == 0 {
			return
		}
		if k == ']' {
			c.token()
			return
		}
		c.element(elem, k, quiet)
	}
}

func (c *checker) mapping(elem *node, quiet bool) {
	if !c.enter('{') {
		return
	}
	for {
		k := c.peek()
		if k == 0 {
			return
		}
		if k == '}' {
			c.token()
			return
		}
		c.take()
		c.element(elem, c.peek(), quiet)
	}
}

// element checks one value of an array or map, where null is no way to be absent.
func (c *checker) element(elem *node, k jsontext.Kind, quiet bool) {
	if k == 'n' && elem.form != formAny {
		c.token()
		c.add(KindValue, c.here(), "must not be null", "leave it out")
		return
	}
	if k != 0 {
		c.value(elem, k, quiet)
	}
}
