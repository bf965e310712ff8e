package probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/registry"
)

// answer is what one request of the binding probe brought.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// finding is what the probe of one interface in one binding found.
type finding struct {
	result string // registry.ProbeOK, registry.ProbeUnauthorized, or what went wrong
	odd    string // proven, but by another error than TaskNotFound: which
	// heard is set where something answered over HTTP, in whatever shape.
	heard bool
	// refused is set where the address was not connected to.
	refused bool
	// sure is set where the answer can come from this binding only.
	sure bool
}

func (f finding) proven() bool { return f.result == registry.ProbeOK }

// bind asks for a task that cannot exist and compares the shape of the answer
// with the binding's.
func (l *look) bind(ctx context.Context, i registry.Interface, binding a2a.Binding, version a2a.Version) finding {
	ctx, cancel := context.WithTimeout(ctx, l.limits.Probe)
	defer cancel()
	id := uuid.NewString()
	request, err := l.getTask(ctx, i, binding, version, id)
	if err != nil {
		return finding{result: err.Error()}
	}
	got, err := l.ask(request)
	if err != nil {
		return finding{result: l.explain(err), refused: netguard.ReasonOf(err) == netguard.ReasonRefused}
	}
	if got.status == http.StatusUnauthorized || got.status == http.StatusForbidden {
		return finding{result: registry.ProbeUnauthorized, heard: true}
	}
	switch {
	case binding == a2a.JSONRPC && version == a2a.V03:
		return judgeRPC(got, id, "JSON-RPC of A2A 0.3", rpcGetTask03)
	case binding == a2a.JSONRPC:
		return judgeRPC(got, id, "JSON-RPC", string(a2a.GetTask))
	case version == a2a.V03:
		return judgeREST03(got)
	}
	return judgeREST(got)
}

// rpcGetTask03 is GetTask as JSON-RPC of 0.3 names it.
const rpcGetTask03 = "tasks/get"

// getTask makes the request of the probe in a binding and version.
func (l *look) getTask(ctx context.Context, i registry.Interface, binding a2a.Binding, version a2a.Version, id string) (*http.Request, error) {
	u, err := url.Parse(i.URL)
	if err != nil {
		return nil, err
	}
	method, accept := http.MethodGet, "application/a2a+json, application/json"
	var body []byte
	if binding == a2a.JSONRPC {
		method, accept = http.MethodPost, "application/json"
		name, ask := string(a2a.GetTask), a2a.GetTaskRequest{Tenant: i.Tenant, ID: id}
		if version == a2a.V03 {
			name, ask.Tenant = rpcGetTask03, "" // 0.3 has no tenants
		}
		params, err := jsonwire.Marshal(ask)
		if err != nil {
			return nil, err
		}
		body = jsonwire.AppendCall(nil, jsonwire.Quote(id), name, params)
	} else {
		path := strings.TrimSuffix(u.EscapedPath(), "/")
		if version == a2a.V03 {
			path += "/v1"
		} else if i.Tenant != "" {
			path += "/" + url.PathEscape(i.Tenant)
		}
		if u, err = atPath(*u, path+"/tasks/"+id); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", userAgent)
	r.Header.Set(a2a.HeaderVersion, string(version)) // 0.3 has no such header, but agents of both versions know it
	l.present(r.URL, r.Header)
	return r, nil
}

// ask sends one request and reads its bounded answer.
func (l *look) ask(r *http.Request) (answer, error) {
	resp, err := l.transportTo(r.URL).RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close() // all that is wanted of it is read below
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return answer{}, err
	}
	if len(body) > maxAnswerBytes {
		return answer{}, fmt.Errorf("answered with more than %d bytes", maxAnswerBytes)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// judgeRPC judges an answer as JSON-RPC's. name is the binding's and method what was
// asked for.
func judgeRPC(got answer, id, name, method string) finding {
	f := finding{heard: true}
	in, problems := jsonwire.ParseAnswer(got.body, nil, jsonwire.CheckOptions{Lax: true})
	switch {
	case problems != nil:
		f.result = notThe(name, got)
	case in.Error == nil:
		f.result = name + ": knows a task that nobody made, where TaskNotFound was expected"
	default:
		e := a2a.DecodeRPC(in.Error)
		f = judgeError(name, e)
		if e.RPCCode == jsonwire.CodeMethodNotFound {
			f.result = name + ": does not know " + method + "; an agent of another version of A2A answers so"
		}
		// An agent that could not read the request cannot repeat its id.
		if f.proven() && !jsonwire.SameID(in.ID, jsonwire.Quote(id)) {
			f.result = name + ": answered with another id than it was asked with"
		}
		f.sure = f.proven()
	}
	return f
}

// judgeREST judges an answer as HTTP+JSON's.
func judgeREST(got answer) finding {
	f := finding{heard: true}
	if _, problems := jsonwire.ParseAnswer(got.body, nil, jsonwire.CheckOptions{Lax: true}); problems == nil {
		f.result = "answered in JSON-RPC's shape"
		return f
	}
	e := a2a.DecodeREST(got.status, got.header, got.body)
	switch {
	case got.status < 300 && jsonwire.Valid(got.body, jsonwire.Limits{}) == nil:
		f.result = "HTTP+JSON: knows a task that nobody made, where TaskNotFound was expected"
	case got.status < 400 || e.Bare:
		f.result = notThe("HTTP+JSON", got)
	default:
		f = judgeError("HTTP+JSON", e)
		// Other programs answer 404 with an error object as well; only an
		// answer that names A2A's error is sure.
		f.sure = f.proven() && e.Reason.InA2A() &&
			(bytes.Contains(got.body, []byte(e.Reason)) || bytes.Contains(got.body, []byte("task-not-found")))
	}
	return f
}

// judgeREST03 judges an answer as that of HTTP+JSON in 0.3, which leaves the shape of
// errors open. Agents answer with an object that has a message and, of some SDKs, the
// number of A2A's error; a program that has no such path answers with another object.
func judgeREST03(got answer) finding {
	const name = "HTTP+JSON of A2A 0.3"
	f := finding{heard: true}
	code, _ := jsonwire.Get(got.body, "/code")
	text, has := jsonwire.Get(got.body, "/message")
	if inner, ok := jsonwire.Get(got.body, "/error/message"); ok && !has {
		text, has = inner, true
	}
	words := strings.ToLower(jsonwire.String(text))
	named := string(code) == "-32001" || strings.Contains(words, "task") && strings.Contains(words, "not found")
	_, rpc := jsonwire.Get(got.body, "/jsonrpc")
	switch {
	case jsonwire.Valid(got.body, jsonwire.Limits{}) != nil || rpc || got.status >= 300 && !has:
		f.result = notThe(name, got)
	case got.status < 300:
		f.result = name + ": knows a task that nobody made, where TaskNotFound was expected"
	case named:
		f.result, f.sure = registry.ProbeOK, true
	case got.status == http.StatusTooManyRequests || got.status > http.StatusNotImplemented:
		f.result = fmt.Sprintf("%s: not available now (HTTP %d)", name, got.status)
	default:
		f.result = fmt.Sprintf("%s: answered HTTP %d for an unknown task, where TaskNotFound was expected", name, got.status)
	}
	return f
}

// judgeError judges an error that came in a binding's own shape. Agents name
// A2A's errors by reason, and the rest by whatever reason they like: there the
// code tells.
func judgeError(binding string, e *a2a.Error) finding {
	f := finding{heard: true}
	switch {
	case e.Reason == a2a.ReasonTaskNotFound:
		f.result = registry.ProbeOK
	case e.Reason == a2a.ReasonVersionNotSupported:
		f.result = binding + ": refuses this version of A2A (VersionNotSupported)"
	case e.HTTP == http.StatusUnauthorized, e.HTTP == http.StatusForbidden:
		f.result = registry.ProbeUnauthorized
	case e.RPCCode == jsonwire.CodeMethodNotFound:
		f.result = binding + ": does not know GetTask"
	case e.RPCCode == jsonwire.CodeParse, e.RPCCode == jsonwire.CodeInvalidRequest:
		f.result = binding + ": could not read a GetTask request"
	case e.HTTP == http.StatusTooManyRequests, e.HTTP > http.StatusNotImplemented:
		f.result = fmt.Sprintf("%s: not available now (HTTP %d)", binding, e.HTTP)
	default:
		f.result = registry.ProbeOK
		f.odd = fmt.Sprintf("%s: answered %s for an unknown task, where TaskNotFound was expected", binding, plain(string(e.Reason)))
	}
	return f
}

// notThe says what came instead of a binding's answer, without repeating it.
func notThe(binding string, got answer) string {
	s := fmt.Sprintf("HTTP %d", got.status)
	if kind := mediaType(got.header); kind != "" {
		s += " with " + kind
	}
	if got.status >= 300 && got.status < 400 {
		return s + ": a redirect, and redirects are not followed"
	}
	return s + ": no " + binding + " answer"
}

// explain says why no answer came, in words for an operator.
func (l *look) explain(err error) string {
	switch netguard.ReasonOf(err) {
	case netguard.ReasonRefused:
		return refusal(err)
	case netguard.ReasonDNS:
		return "the host name cannot be resolved"
	case netguard.ReasonConnect:
		return "nothing answers there"
	case netguard.ReasonTLS:
		return "no TLS handshake: check the certificate, and that TLS is spoken there"
	case netguard.ReasonTimeout:
		return fmt.Sprintf("no answer within %v", l.limits.Probe)
	case netguard.ReasonCanceled:
		return "given up"
	}
	return "the answer broke off, is too large or is not HTTP"
}

// mediaType is the plain media type of an answer, clipped; empty if there is
// none.
func mediaType(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return plain(strings.TrimSpace(kind))
}
