package app

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// doors sends each request to the door of its path, else answers 404. It takes
// the place of http.ServeMux, which answers paths that are not clean with a
// redirect: clients lose their body or their credential on the way, and what a
// path means must not depend on who cleaned it.
type doors []door

// door is what serves everything below a prefix, which ends in a slash.
type door struct {
	prefix string
	serves http.Handler
}

// ServeHTTP implements http.Handler. The path counts as it was sent, with its
// escapes.
func (d doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	for _, one := range d {
		if strings.HasPrefix(path, one.prefix) {
			one.serves.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// inTime gives callers limit to send their body, from the moment their request
// has arrived and whoever serves it or refuses to: else the server would wait
// for the rest of a body that nobody wants. The deadline is lifted at the
// body's end, since streams live longer.
func inTime(h http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			conn := http.NewResponseController(w)
			if err := conn.SetReadDeadline(time.Now().Add(limit)); err == nil {
				// In a copy: the server must find its own body in its request, else it
				// reads what is left of one that is too large.
				r = r.WithContext(r.Context())
				r.Body = &timedBody{r.Body, conn}
			}
		}
		h.ServeHTTP(w, r)
	})
}

// timedBody lifts the read deadline at its end.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // a connection that is gone needs none
	}
	return n, err
}
