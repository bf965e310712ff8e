package jsonwire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC 2.0.
const (
	CodeParse          = -32700 // not JSON
	CodeInvalidRequest = -32600 // JSON, but no request
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Call is one JSON-RPC request as far as it could be read. Raw values alias the
// body.
type Call struct {
	ID           jsontext.Value // as sent, a number stays that number; nil if there was none, or none usable
	Notification bool           // a request without an id: the sender wants no answer
	Method       string
	Params       jsontext.Value // an object; nil if absent
	ParamsOffset int            // where Params starts in the body
}

// RPCError is why a body is no acceptable request.
type RPCError struct {
	Code     int
	Message  string
	Problems []*Error // the members that are wrong; paths start at the body for CodeInvalidRequest, at params for CodeInvalidParams
}

// ParseCall reads one JSON-RPC request in one pass and checks its params against
// the Shape that shape gives for the method; a method without one is answered
// with CodeMethodNotFound. What was read of the Call is returned also with an
// error, so that the answer can carry its id. A batch is refused.
func ParseCall(body []byte, shape func(method string) *Shape, opt CheckOptions) (Call, *RPCError) {
	if e := opt.Limits.check(body); e != nil {
		return Call{}, &RPCError{Code: CodeInvalidRequest, Message: e.Error(), Problems: []*Error{e}}
	}
	c := newChecker(body, opt)
	defer c.release()
	p := callParser{checker: c, shape: shape}
	err := p.parse()
	return p.call, err
}

type callParser struct {
	*checker
	shape   func(method string) *Shape
	call    Call
	version jsontext.Value
	method  jsontext.Value
	hasID   bool
	badID   bool
	checked bool     // params were checked on the way
	wrong   []*Error // problems of the envelope
	bad     []*Error // problems of params
}

func (p *callParser) parse() *RPCError {
	switch k := p.peek(); k {
	case 0:
		return p.broken()
	case '{':
	case '[':
		return &RPCError{Code: CodeInvalidRequest, Message: "a batch is not supported; send one request object"}
	default:
		return &RPCError{Code: CodeInvalidRequest, Message: fmt.Sprintf("a request must be an object, not %s", kindName(k))}
	}
	p.token()
	for p.peek() == '"' {
		p.envelopeMember()
	}
	p.token()
	p.end()
	if p.dead || len(p.problems) > 0 {
		return p.broken()
	}
	return p.judge()
}

// broken reports what the parser stumbled over. An id that stands before the
// fault may have been misread: JSON-RPC wants null then.
func (p *callParser) broken() *RPCError {
	e := p.problems[len(p.problems)-1]
	p.call = Call{}
	return &RPCError{Code: CodeParse, Message: e.Error(), Problems: []*Error{e}}
}

func (p *callParser) envelopeMember() {
	name := p.name()
	if p.dead {
		return
	}
	switch string(name) {
	case "jsonrpc":
		p.version = p.take()
	case "id":
		p.id()
	case "method":
		p.method = p.take()
		p.call.Method = String(p.method)
	case "params":
		p.params()
	default:
		switch f := fold(string(name)); f {
		case "jsonrpc", "id", "method", "params":
			p.wrong = append(p.wrong, &Error{Kind: KindName, Path: p.here(), Offset: p.dec.InputOffset(),
				Problem: fmt.Sprintf("unknown member %q", clip(string(name))), Fix: fmt.Sprintf("write %q", f)})
		}
		p.take()
	}
}

func (p *callParser) id() {
	p.hasID = true
	switch p.peek() {
	case '"', '0', 'n':
		p.call.ID = p.take()
	default:
		p.badID = true
		p.take()
	}
}

// params checks the parameters on the way where the method is known already, as
// every client seen so far writes it first.
func (p *callParser) params() {
	s := p.shape(p.call.Method)
	switch k := p.peek(); {
	case k == 'n':
		p.token()
		return
	case k == '{' && s != nil:
		n := node{form: formStruct, shape: s}
		p.call.Params = p.composite(&n, false)
		if p.dead {
			return
		}
		p.checked, p.bad, p.problems = true, p.problems, nil
	default:
		p.call.Params = p.take()
	}
	p.call.ParamsOffset = int(p.dec.InputOffset()) - len(p.call.Params)
}

// judge looks at the whole envelope once it is read.
func (p *callParser) judge() *RPCError {
	if String(p.version) != "2.0" {
		p.refuse("/jsonrpc", `must be "2.0"`)
	}
	if p.badID {
		p.refuse("/id", "must be a string, a number or null")
	}
	if len(p.method) == 0 || p.method[0] != '"' {
		p.refuse("/method", "must be a string")
	}
	if len(p.wrong) > 0 {
		return &RPCError{Code: CodeInvalidRequest, Message: p.wrong[0].Error(), Problems: p.wrong}
	}
	p.call.Notification = !p.hasID
	s := p.shape(p.call.Method)
	if s == nil {
		return &RPCError{Code: CodeMethodNotFound, Message: fmt.Sprintf("there is no method %q", clip(p.call.Method))}
	}
	if len(p.call.Params) > 0 && p.call.Params[0] != '{' {
		return &RPCError{Code: CodeInvalidParams, Message: "params must be an object"}
	}
	p.checkParams(s)
	if len(p.bad) > 0 {
		return &RPCError{Code: CodeInvalidParams, Message: p.bad[0].Error(), Problems: p.bad}
	}
	return nil
}

func (p *callParser) refuse(path, problem string) {
	p.wrong = append(p.wrong, &Error{Kind: KindValue, Path: path, Problem: problem})
}

// checkParams checks parameters that came before their method or not at all, and
// lets every path start at params.
func (p *callParser) checkParams(s *Shape) {
	if p.checked {
		for _, e := range p.bad {
			e.Path = strings.TrimPrefix(e.Path, "/params")
		}
		return
	}
	params := p.call.Params
	if params == nil {
		params = jsontext.Value("{}")
	}
	p.bad = s.Check(params, p.opt)
}

// clip shortens foreign text that goes into a message.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// ErrorObject is the error member of a JSON-RPC response.
type ErrorObject struct {
	Code    int            `json:"code" wire:"required"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

// Answer is one JSON-RPC response: exactly one of Result and Error is set, and
// both alias the body.
type Answer struct {
	ID     jsontext.Value // nil if there was none
	Result jsontext.Value
	Error  jsontext.Value // an object of the shape of ErrorObject
}

var errorObjectShape = sync.OnceValue(ShapeOf[ErrorObject])

// ParseAnswer reads one JSON-RPC response in one pass and checks its result
// against result; with a nil shape any value will do, or none, which reads as
// null. "result": null counts as a result, "error": null as absent.
func ParseAnswer(body []byte, result *Shape, opt CheckOptions) (Answer, []*Error) {
	if e := opt.Limits.check(body); e != nil {
		return Answer{}, []*Error{e}
	}
	c := newChecker(body, opt)
	defer c.release()
	var a Answer
	version := ""
	if c.enter('{') {
		for c.peek() == '"' {
			switch string(c.name()) {
			case "jsonrpc":
				version = String(c.take())
			case "id":
				a.ID = c.take()
			case "result":
				a.Result = c.answerMember(result)
			case "error":
				if c.peek() == 'n' {
					c.token()
				} else {
					a.Error = c.answerMember(errorObjectShape())
				}
			default:
				c.take()
			}
		}
		c.token()
	}
	c.end()
	switch {
	case len(c.problems) > 0:
	case version != "2.0":
		c.add(KindValue, "/jsonrpc", `must be "2.0"`, "")
	case a.Result == nil && a.Error == nil && result == nil:
		a.Result = jsontext.Value("null")
	case a.Result == nil && a.Error == nil:
		c.add(KindValue, "", "a response has a result or an error, this has neither", "")
	case a.Result != nil && a.Error != nil:
		c.add(KindValue, "", "a response has a result or an error, this has both", "")
	}
	return a, c.problems
}

func (c *checker) answerMember(s *Shape) jsontext.Value {
	if s == nil {
		return c.take()
	}
	n := node{form: formStruct, shape: s}
	return c.composite(&n, false)
}

// SameID tells whether two ids are the same value, however they are written.
func SameID(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 || len(b) == 0 || a[0] != b[0] && (a[0] == '"' || b[0] == '"') {
		return false
	}
	if a[0] == '"' {
		return String(a) == String(b)
	}
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	return errX == nil && errY == nil && x == y
}

// AppendCall appends a request.
func AppendCall(dst []byte, id jsontext.Value, method string, params jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	dst = append(dst, `,"method":"`...)
	dst = append(dst, method...)
	dst = append(dst, '"')
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a response that carries a result.
func AppendResult(dst []byte, id, result jsontext.Value) []byte {
	return appendAnswer(dst, id, "result", result)
}

// AppendError appends a response that carries an error object.
func AppendError(dst []byte, id, object jsontext.Value) []byte {
	return appendAnswer(dst, id, "error", object)
}

func appendAnswer(dst []byte, id jsontext.Value, member string, value jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	dst = append(dst, ',', '"')
	dst = append(dst, member...)
	dst = append(dst, '"', ':')
	dst = append(dst, value...)
	return append(dst, '}')
}

func appendID(dst []byte, id jsontext.Value) []byte {
	if id == nil {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}
