package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// front stands between the kit and what it tests, and makes good what this
// generation of the kit does in its own way. docs/conformance-kit.md says of each
// why it is not the agent that should change.
//
//   - Its HTTP+JSON client drops the path of an interface's address, so the agent
//     has to answer at the root of a host.
//   - The same client writes the names of members in snake case.
//   - It takes for granted that an agent answers a message before the task is done,
//     and does not ask for it.
type front struct {
	proxy  httputil.ReverseProxy
	prefix string // of the agent's paths behind; empty for none
}

// to says what is behind.
func (f *front) to(address, prefix string) error {
	target, err := url.Parse(address)
	if err != nil {
		return err
	}
	f.prefix = prefix
	f.proxy = httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if f.prefix != "" && !strings.HasPrefix(r.In.URL.Path, f.prefix+"/") {
			r.Out.URL.Path, r.Out.URL.RawPath = f.prefix+r.In.URL.Path, ""
		}
	}}
	return nil
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the kit has left
	}
	body = mend(r.URL.Path, body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	f.proxy.ServeHTTP(w, r)
}

var snake = regexp.MustCompile(`"[a-z]+(_[a-z]+)+":`)

// mend rewrites a request of the kit; what is no JSON goes as it is.
func mend(path string, body []byte) []byte {
	object := "/configuration"
	switch {
	case strings.HasSuffix(path, "/message:send"), strings.HasSuffix(path, "/message:stream"):
		body = snake.ReplaceAllFunc(body, func(name []byte) []byte {
			words := strings.Split(string(name), "_")
			for i, word := range words[1:] {
				words[i+1] = strings.ToUpper(word[:1]) + word[1:]
			}
			return []byte(strings.Join(words, ""))
		})
		if strings.HasSuffix(path, "/message:stream") {
			return body
		}
	default:
		if method, ok := jsonwire.Get(body, "/method"); !ok || string(method) != `"SendMessage"` {
			return body
		}
		object = "/params/configuration"
	}
	if _, has := jsonwire.Get(body, object); has {
		return body
	}
	if set, err := jsonwire.Set(body, object, []byte(`{"returnImmediately":true}`)); err == nil {
		return set
	}
	return body
}
