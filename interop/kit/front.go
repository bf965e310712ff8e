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
//   - It takes the address of a gRPC interface for a URL, and sends no tenant.
type front struct {
	proxy, grpc httputil.ReverseProxy
	prefix      string // of the agent's paths behind; empty for none
	tenant      string // put into messages over gRPC; empty for none
	// shown and served are the gRPC interface's address in the card, and the one
	// that the kit is to use instead.
	shown, served string
}

// to says what is behind: the address of HTTP and the prefix of its paths, and
// the host:port of gRPC with the tenant there.
func (f *front) to(address, prefix, grpc, tenant string) error {
	f.tenant, f.shown = tenant, grpc
	// Without FlushInterval: an answer of no length is flushed at once all the same,
	// and one of trailers only must not have its headers flushed apart from them.
	f.grpc = httputil.ReverseProxy{Transport: plainHTTP2(), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: grpc})
	}}
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
		r.Out.Header.Del("Accept-Encoding")
	}, ModifyResponse: f.showAddress}
	return nil
}

// showAddress puts the URL of the gRPC interface into the card.
func (f *front) showAddress(r *http.Response) error {
	if !strings.HasSuffix(r.Request.URL.Path, "agent-card.json") || f.shown == "" {
		return nil
	}
	card, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	card = bytes.ReplaceAll(card, []byte(`"`+f.shown+`"`), []byte(`"`+f.served+`"`))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(card)), int64(len(card))
	r.Header.Set("Content-Length", strconv.Itoa(len(card)))
	return r.Body.Close()
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the kit has left
	}
	proxy := &f.proxy
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		proxy, body = &f.grpc, f.mendMessage(r.URL.Path, body)
	} else {
		body = mend(r.URL.Path, body)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	proxy.ServeHTTP(w, r)
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
