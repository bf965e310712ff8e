package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Prefix is where the API lives.
const Prefix = "/api/v1"

// OpenAPIPath is where the API describes itself, readable without a
// credential: it tells nothing of this mesh.
const OpenAPIPath = Prefix + "/openapi.json"

// Limits of what the API takes and gives.
const (
	maxBody         = 64 << 10         // bytes of a request body
	bodyReadTimeout = 10 * time.Second // for a request body to arrive
	defaultLimit    = 50               // items of a page
	maxLimit        = 200              // items of a page
	maxStreams      = 64               // event streams at once
	keepAliveEvery  = 15 * time.Second // between comments on a silent stream
	writeTimeout    = 30 * time.Second // for a stream's reader to take what is sent
)

// Options are the parts a Server works with. All are required unless said
// otherwise.
type Options struct {
	Identity *identity.Directory
	Registry Registrar
	Agents   AgentReader
	Calls    CallReader
	Tasks    TaskReader
	Events   EventReader
	Cancel   Canceller
	Status   StatusReader
	Apply    Applier
	Backup   Backups
	Answers  Answers
	Pushes   Pushes
	Deliver  Deliverer
	// Standings tells how agents' addresses stand; nil where nobody knows.
	Standings func(ctx context.Context, agent parley.AgentName) ([]registry.Standing, error)
	// Metadata is the address of the mesh's description as a protected resource,
	// which challenges name; empty for none.
	Metadata string
	// MeshID is the source of the events as others see them.
	MeshID string
	// Log gets failures of the mesh itself; nil means none.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server answers the control API. It is an http.Handler for everything below
// Prefix.
type Server struct {
	opts    Options
	mux     *http.ServeMux
	api     huma.API
	openAPI []byte
	streams chan struct{} // one token per open event stream
	copying chan struct{} // a token while a backup is taken
}

// NewServer makes a server.
func NewServer(opts Options) (*Server, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	ownErrors()
	s := &Server{
		opts: opts, mux: http.NewServeMux(),
		streams: make(chan struct{}, maxStreams),
		copying: make(chan struct{}, 1),
	}
	s.api = humago.New(s.mux, apiConfig())
	s.ownerRoutes()
	s.principalRoutes()
	s.subjectRoutes()
	s.keyRoutes()
	s.agentRoutes()
	s.agentAccessRoutes()
	s.instanceRoutes()
	s.callRoutes()
	s.taskRoutes()
	s.eventRoutes()
	s.pushRoutes()
	s.statusRoutes()
	s.applyRoutes()
	s.backupRoutes()
	described, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("describe the control API: %w", err)
	}
	s.openAPI = described
	s.mux.HandleFunc("GET "+OpenAPIPath, s.serveOpenAPI)
	s.mux.HandleFunc(Prefix+"/", s.serveUnknown)
	return s, nil
}

func apiConfig() huma.Config {
	format := huma.Format{Marshal: encodeJSON, Unmarshal: decodeJSON}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Parley control API", Version: "1",
				Description: "Manages a Parley mesh. Send an API key of a principal with a role, or a client certificate of one; whoever may open the mesh's own socket needs none. " +
					"Failures are problem details with a stable code. Lists give {items, next}; pass next as cursor. " +
					"A POST may carry an Idempotency-Key; what has a version gives it as ETag and honours If-Match.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "API key (pk_ID_SECRET), or an access token of an issuer that the mesh knows"},
					"apiKey": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "API key: pk_ID_SECRET"},
				},
			},
			Security: []map[string][]string{{"bearer": {}}, {"apiKey": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
}

// schemaName keeps the names of schemas apart where the registry has a type of
// the same name as ours.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if elem(t).PkgPath() == reflect.TypeFor[registry.Report]().PkgPath() {
		return "Agent" + name
	}
	return name
}

// ServeHTTP identifies the caller, keeps repeated writes from happening twice
// and answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == OpenAPIPath || strings.HasPrefix(r.URL.Path, Prefix+schemasPath) {
		s.mux.ServeHTTP(w, r)
		return
	}
	caller, err := s.opts.Identity.Identify(r.Context(), credentialOf(r))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if len(caller.Roles) == 0 && r.URL.Path != Prefix+whoAmIPath {
		s.fail(w, r, parley.E("control.authorise", parley.Denied, parley.Subject(caller.Name),
			fmt.Sprintf("principal %q has no role: calling agents needs none, the control API does (viewer, operator, registrar, auditor or admin). To give it one: parley principal update %s --role viewer", caller.Name, caller.Name), nil))
		return
	}
	r = r.WithContext(identity.WithCaller(r.Context(), caller))
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if r.Method == http.MethodPost && r.Header.Get(idempotencyHeader) != "" {
		s.serveOnce(w, r, caller, body)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// readBody takes the request's body off the connection, within bounds of size
// and time, and leaves it in r. The time limit is lifted afterwards: net/http
// would take its end for the caller's leaving, and cancel what takes longer.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		p := refused(http.StatusUnsupportedMediaType, "")
		p.Detail = "a compressed request body is not supported: leave Content-Encoding out"
		p.header.Set("Accept-Encoding", "identity")
		p.write(w)
		return nil, false
	}
	conn := http.NewResponseController(w)
	// A writer that knows no deadlines is not a connection; the size is bounded
	// either way.
	_ = conn.SetReadDeadline(time.Now().Add(bodyReadTimeout))
	limit := bodyLimit(r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = conn.SetReadDeadline(time.Time{})
	if err != nil {
		status, message := http.StatusRequestTimeout, "the request body did not arrive in time: send it again"
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status, message = http.StatusRequestEntityTooLarge, fmt.Sprintf("the request body is larger than the limit of %d bytes: send less", limit)
		}
		refused(status, message).write(w)
		return nil, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, true
}

// bodyLimit is how many bytes the body of a request may have.
func bodyLimit(r *http.Request) int64 {
	if r.URL.Path == Prefix+applyPath {
		return maxApplyBody
	}
	return maxBody
}

// recover turns a panic into an answer: a bug in one operation must not take
// the connection's other requests with it.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	s.opts.Log.ErrorContext(r.Context(), "control API panicked", "path", r.URL.Path, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
	s.fail(w, r, parley.E("control.serve", parley.Internal, "", "internal error; the operator's log says more", nil))
}

func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/openapi+json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(s.openAPI) // the reader has left: nobody to tell
}

// serveUnknown answers for paths and methods that no operation has.
func (s *Server) serveUnknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PATCH", "PUT", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := s.mux.Handler(probe); pattern != Prefix+"/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		s.fail(w, r, parley.E("control.route", parley.NotFound, "", "no such resource: see "+OpenAPIPath, nil))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	p := problemOf(parley.E("control.route", parley.Invalid, "", fmt.Sprintf("%s is not possible here: use %s", r.Method, strings.Join(allowed, " or ")), nil))
	p.setStatus(http.StatusMethodNotAllowed)
	p.write(w)
}

// credentialOf is what came with a request.
func credentialOf(r *http.Request) identity.Credential {
	return identity.Credential{
		Authorization: strings.Join(r.Header["Authorization"], ", "), XAPIKey: strings.Join(r.Header["X-Api-Key"], ", "),
		RemoteAddr: r.RemoteAddr, LocalSocket: throughSocket(r), Certificates: identity.PeerCertificates(r.TLS),
	}
}

// throughSocket reports whether the connection was accepted on a Unix socket.
// The listener's own address says so, not anything the caller sends.
func throughSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string })
	return ok && addr.Network() == "unix"
}

// fail answers with err.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.log(r.Context(), r.Method+" "+r.URL.Path, err)
	p := problemOf(err)
	if challenge := identity.Challenge(err, s.opts.Metadata); challenge != "" {
		p.header.Set("WWW-Authenticate", challenge)
	}
	p.write(w)
}

// log tells the operator of failures that are the mesh's own. What whoever
// asked did wrong is in the answer, and free to whoever debugs.
func (s *Server) log(ctx context.Context, operation string, err error) {
	kind := parley.KindOf(err)
	var fields []parley.Field
	if p, ok := errors.AsType[*Problem](err); ok {
		kind, fields = parley.KindOfCode(p.Code), p.Fields
		if p.cause != nil {
			err = p.cause
		}
	}
	switch kind {
	case parley.Internal:
		s.opts.Log.ErrorContext(ctx, "control operation failed", "operation", operation, "err", err)
	case parley.Unavailable:
		s.opts.Log.WarnContext(ctx, "control operation not possible", "operation", operation, "err", err)
	default:
		s.opts.Log.DebugContext(ctx, "control operation refused", "operation", operation, "kind", kind, "err", err, "fields", fields)
	}
}

// operation describes one operation; path is relative to Prefix.
func operation(id, method, path, summary string, status int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: Prefix + path, Summary: summary, DefaultStatus: status,
		Tags:            []string{strings.Split(strings.TrimPrefix(path, "/"), "/")[0]},
		MaxBodyBytes:    maxBody + 1, // readBody has bounded it
		BodyReadTimeout: -1,          // and timed it
	}
}

// route adds an operation for whom RoleTable lets it do; an operation whose row
// reaches some callers' own things only has to look at them itself (see
// authority.go). route owns what all operations share, so that f is one
// operation of a domain and its encoding.
func route[I, O any](s *Server, op huma.Operation, f func(context.Context, *I) (*O, error)) {
	grants, known := RoleTable[op.OperationID]
	if !known {
		panic("control: operation " + op.OperationID + " has no row in RoleTable")
	}
	op.Metadata = map[string]any{metaInput: reflect.TypeFor[I]()}
	op.Description = strings.TrimSpace(op.Description + " " + grants.describe())
	if op.Method == http.MethodPost {
		op.Parameters = append(op.Parameters, idempotencyParam())
	}
	op.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		if err := permit(ctx.Context(), op.OperationID); err != nil {
			r, w := humago.Unwrap(ctx)
			s.fail(w, r, err)
			return
		}
		next(ctx)
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			s.log(ctx, op.OperationID, err)
			return nil, problemOf(err)
		}
		return out, nil
	})
}

// idempotencyParam documents the header that serveOnce reads.
func idempotencyParam() *huma.Param {
	return &huma.Param{
		Name: idempotencyHeader, In: "header", Schema: &huma.Schema{Type: "string", MaxLength: new(maxIdempotencyKey)},
		Description: "Repeating the same request under the same key within 24 hours gives the first answer again and does nothing.",
	}
}

// page cuts one item more than asked for off a list; the cursor of the last
// item kept leads to the rest.
func page[D, J any](items []*D, limit int, encode func(*D) J, cursor func(*D) string) *listed[J] {
	out := &listed[J]{Body: Page[J]{Items: make([]J, 0, min(len(items), limit))}}
	for i, item := range items {
		if i == limit {
			out.Body.Next = cursor(items[i-1])
			break
		}
		out.Body.Items = append(out.Body.Items, encode(item))
	}
	return out
}
