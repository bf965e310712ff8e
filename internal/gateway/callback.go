package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
)

// CallbackPrefix is where agents push to: CallbackPrefix + the relay's callback.
const CallbackPrefix = "/push/"

// How often one agent may push about one task. Each push makes the mesh ask for
// the task once; what is refused is learnt at the next look.
var callbackRate = limit.Rate{PerSecond: 5, Burst: 50}

// maxCallbacks bounds the table of those allowances.
const maxCallbacks = 16_384

type callbackRates = *limit.Buckets[string]

func newCallbackRates() callbackRates { return limit.NewBuckets[string](callbackRate, maxCallbacks) }

// ServeCallback takes a push notification of an agent's (A2A 1.0, section 4.3.3,
// and 0.3). Whoever has the token of a relay's callback may say that something
// happened to the relay's task. What else the body tells is not used: pushes
// come twice, late and in any order, and nothing in them says so. The mesh asks
// the agent for the task instead, over the connection on which it knows whom it
// asks, and journals what that shows.
//
// Answers: 200 once the look is noted durably; 401 without the right token,
// whether or not there is such a callback; 400 for a body that is no
// notification about the relay's task; 413, 415 and 429 as HTTP says.
func (g *Gateway) ServeCallback(w http.ResponseWriter, r *http.Request) {
	if g.Push == nil {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "push notifications come by POST", http.StatusMethodNotAllowed)
		return
	}
	from := arrivalOf(r)
	if err := g.throttleAddress(r.Context(), &from); err != nil {
		tooOften(w, limit.RetryAfter(err))
		return
	}
	relay, err := g.callbackOf(r)
	switch {
	case err != nil:
		g.Log.Debug("push notification not taken", "err", err)
		http.Error(w, "the mesh cannot reach its records; try again later", http.StatusServiceUnavailable)
		return
	case relay == nil:
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley push notifications"`)
		http.Error(w, "the token is not the one that this address was given with", http.StatusUnauthorized)
		return
	}
	if exceeded, _ := g.relays.rates.Take(relay.Callback, g.Now()); exceeded != nil {
		tooOften(w, exceeded.RetryAfter)
		return
	}
	if status, problem := g.readCallback(w, r, relay); problem != "" {
		http.Error(w, problem, status)
		return
	}
	if !relay.LookAt.IsZero() { // else the task is final, and all is told
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
		defer cancel()
		if err := g.Push.Store.NudgeRelay(ctx, relay.Task, g.Now()); err != nil {
			http.Error(w, "the mesh cannot reach its records; try again later", http.StatusServiceUnavailable)
			return
		}
		g.relays.wakeUp()
	}
	w.WriteHeader(http.StatusOK)
}

func tooOften(w http.ResponseWriter, after time.Duration) {
	seconds := max(1, int((after+time.Second-1)/time.Second))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	http.Error(w, "too many push notifications; what was refused is learnt all the same", http.StatusTooManyRequests)
}

// callbackOf gives the relay to which a push is authenticated; nil for none.
func (g *Gateway) callbackOf(r *http.Request) (*push.Relay, error) {
	relay, err := g.Push.Store.RelayByCallback(r.Context(), strings.TrimPrefix(r.URL.Path, CallbackPrefix))
	if parley.KindOf(err) == parley.NotFound {
		relay, err = &push.Relay{}, nil // which no token opens; the comparison is made all the same
	}
	if err != nil {
		return nil, err
	}
	for _, token := range callbackTokens(r.Header) {
		if push.TokenMatches(relay.TokenHash, token) {
			return relay, nil
		}
	}
	return nil, nil
}

// callbackTokens are what a push shows: in the headers of A2A's samples and SDKs
// of both versions, and in Authorization, whatever the scheme is called.
func callbackTokens(h http.Header) []string {
	var tokens []string
	for _, name := range []string{"X-A2a-Notification-Token", "A2a-Notification-Token"} {
		if lines := h[name]; len(lines) == 1 {
			tokens = append(tokens, lines[0])
		}
	}
	if lines := h["Authorization"]; len(lines) == 1 {
		if _, credentials, ok := strings.Cut(lines[0], " "); ok {
			tokens = append(tokens, strings.TrimSpace(credentials))
		}
	}
	return tokens
}

// readCallback reads a push and checks that it is about the relay's task. With a
// problem it gives the status to answer.
func (g *Gateway) readCallback(w http.ResponseWriter, r *http.Request, relay *push.Relay) (status int, problem string) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && media != "application/a2a+json" {
		return http.StatusUnsupportedMediaType, "send the notification as application/a2a+json or application/json"
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return http.StatusUnsupportedMediaType, "send the notification uncompressed"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.Client.MaxFrame)))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, "the notification is larger than limits.stream_event allows"
	}
	if err != nil {
		return http.StatusBadRequest, "the notification could not be read to its end"
	}
	if jsonwire.Valid(body, jsonwire.Limits{MaxBytes: int64(g.Client.MaxFrame), MaxDepth: g.Client.Limits.MaxDepth}) != nil {
		return http.StatusBadRequest, "the notification is no JSON that is taken here"
	}
	id, ok := pushedTask(body)
	switch {
	case !ok:
		return http.StatusBadRequest, "the notification names no task"
	case id != relay.Task.ID:
		return http.StatusBadRequest, "the notification is about another task than this address"
	}
	return 0, ""
}

// pushedTask gives the task that a push is about: a StreamResponse of 1.0, or of
// 0.3 a task, message or event as it is; each also as the result of a JSON-RPC
// response, which some agents send. It gives none where two are named.
func pushedTask(body jsontext.Value) (id string, ok bool) {
	if result, wrapped := jsonwire.Get(body, "/result"); wrapped {
		body = result
	}
	for _, path := range []string{"/task/id", "/message/taskId", "/statusUpdate/taskId", "/artifactUpdate/taskId", "/taskId"} {
		raw, there := jsonwire.Get(body, path)
		if !there {
			continue
		}
		one := jsonwire.String(raw)
		if one == "" || ok && one != id {
			return "", false
		}
		id, ok = one, true
	}
	if ok {
		return id, true
	}
	if _, task := jsonwire.Get(body, "/status"); !task {
		return "", false
	}
	raw, _ := jsonwire.Get(body, "/id")
	id = jsonwire.String(raw)
	return id, id != ""
}
