package bench

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Bounds of the reverse proxy's pool. More idle connections than the load
// generator ever opens, so that no request pays for a dial.
const (
	proxyIdlePerHost   = 512
	proxyBufferBytes   = 32 << 10
	proxyIdleTimeout   = 90 * time.Second
	proxyHeaderTimeout = 30 * time.Second
)

// NewProxy returns the yardstick: the standard library's reverse proxy in
// front of upstream with a pooled transport and pooled copy buffers. It looks
// at no body and adds no header.
func NewProxy(upstream string) (http.Handler, error) {
	to, err := url.Parse(upstream)
	if err != nil {
		return nil, fmt.Errorf("upstream address: %w", err)
	}
	if to.Scheme != "http" || to.Host == "" {
		return nil, fmt.Errorf("upstream address %q: want http://HOST:PORT", upstream)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{
			MaxIdleConnsPerHost:   proxyIdlePerHost,
			IdleConnTimeout:       proxyIdleTimeout,
			ResponseHeaderTimeout: proxyHeaderTimeout,
			DisableCompression:    true,
		},
		BufferPool: &bufferPool{pool: sync.Pool{New: func() any { b := make([]byte, proxyBufferBytes); return &b }}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it the server closes the request body as soon as the response
		// begins. An agent that answers at once beats the transport's last read
		// of that body, which then fails and takes the connection with it: seen
		// as truncated event streams.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}), nil
}

// bufferPool lends copy buffers to the reverse proxy.
type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte { return *p.pool.Get().(*[]byte) }

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }
