package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// sighting is what one place showed.
type sighting struct {
	kind   kindOfDocument
	result string // for the report
	card   []byte
	etag   string
	// silent is set where the origin did not answer at all, so that its other
	// places need not be asked; refused, where the guard did not let it be
	// asked; closed, where it wants credentials.
	silent, refused, closed bool
}

// kindOfDocument is what a document looks like, before it is checked.
type kindOfDocument uint8

const (
	notJSON kindOfDocument = iota
	someJSON
	cardV03
	cardV10
)

// hunt asks one place after the other and gives the first card. A JSON object
// that is no card is kept for the case that nothing better is found: then what
// is wrong with it is what whoever asked wants to know.
func (l *look) hunt(ctx context.Context, places []place) ([]byte, error) {
	var best sighting
	var bestURL string
	var bestPlace place
	silent := map[string]bool{}
	answered, closed, refused := false, -1, 0 // answered: by a place that is no last resort
	for _, p := range places {
		origin := p.url.Scheme + "://" + p.url.Host
		if silent[origin] || p.lastResort && answered {
			continue
		}
		s := l.see(ctx, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.found.Tried = append(l.found.Tried, registry.Attempt{URL: p.url.String(), Result: s.result})
		silent[origin] = s.silent
		answered = answered || !s.silent && !p.lastResort
		if s.closed {
			closed = len(l.found.Tried) - 1
		}
		if s.refused {
			refused++
		}
		if s.kind > best.kind {
			best, bestPlace, bestURL = s, p, p.url.String()
		}
		if best.kind >= cardV03 {
			break
		}
	}
	if best.kind == notJSON {
		return nil, l.nothingFound(refused == len(l.found.Tried), closed)
	}
	l.found.CardURL, l.found.ETag, l.atHost = bestURL, best.etag, bestPlace.host
	return best.card, nil
}

// nothingFound is the error that tells of every address that was tried. closed
// is the index of one that wants credentials, or -1.
func (l *look) nothingFound(allRefused bool, closed int) error {
	var fields []parley.Field
	for _, t := range l.found.Tried {
		fields = append(fields, parley.Field{Path: t.URL, Problem: t.Result})
	}
	switch {
	case allRefused:
		return l.fail(parley.Invalid, "the mesh may not connect to this address", fields...)
	case closed >= 0 && l.request.Credential.For(fields[closed].Path):
		fields[closed].Fix = "the agent refuses the credential it was shown"
	case closed >= 0:
		fields[closed].Fix = "the agent keeps its card closed: it must be shown a credential for this origin"
	}
	return l.fail(parley.AgentFailed, "no agent card was found", fields...)
}

// see asks one place.
func (l *look) see(ctx context.Context, p place) sighting {
	header := http.Header{
		"Accept": {"application/json, application/a2a+json"},
		// An agent of both versions shows its 0.3 card to whoever does not say
		// this; one of 0.3 alone does not know it.
		a2a.HeaderVersion: {string(a2a.V10)},
	}
	conditional := l.request.Exact && l.request.ETag != "" && l.request.Card != nil
	if conditional {
		header.Set("If-None-Match", l.request.ETag)
	}
	u := *p.url
	l.present(&u, header)
	resp, err := l.cardsAt(&u).Fetch(ctx, u.String(), netguard.Request{Header: header})
	switch {
	case resp != nil && resp.Status == http.StatusNotModified && conditional:
		return sighting{kind: documentKind(l.request.Card), result: "an agent card, unchanged", card: l.request.Card, etag: l.request.ETag}
	case err != nil:
		return unseen(err)
	}
	return seen(resp)
}

// seen sorts a document.
func seen(resp *netguard.Response) sighting {
	s := sighting{kind: documentKind(resp.Body), card: resp.Body, etag: etag(resp.Header)}
	switch s.kind {
	case cardV10:
		s.result = "an agent card"
	case cardV03:
		s.result = "an agent card of A2A 0.3"
	case someJSON:
		s.result = "a JSON object, but no agent card"
	default:
		s.result = fmt.Sprintf("status %d", resp.Status)
		if kind := mediaType(resp.Header); kind != "" {
			s.result += ", " + kind
		}
		s.result += ": not an agent card"
	}
	return s
}

// unseen sorts a failed fetch.
func unseen(err error) sighting {
	s := sighting{result: "no answer"}
	f, ok := errors.AsType[*netguard.Error](err)
	if !ok {
		s.silent = true
		return s
	}
	s.result = f.Problem
	switch f.Reason {
	case netguard.ReasonStatus:
		s.closed = f.Status == http.StatusUnauthorized || f.Status == http.StatusForbidden
	case netguard.ReasonTooLarge, netguard.ReasonProtocol:
	default:
		s.silent = true
		s.refused = f.Reason == netguard.ReasonRefused
	}
	return s
}

// documentKind tells cards apart by the members that only they have. A card
// that carries both sets of members is one of 1.0.
func documentKind(raw []byte) kindOfDocument {
	object := bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte{'{'})
	if jsonwire.Valid(raw, jsonwire.Limits{MaxBytes: a2a.MaxCardBytes}) != nil {
		// Too deep, cut off or with a duplicate name: the check of the card says
		// which. What does not even begin like an object is no card.
		if object {
			return someJSON
		}
		return notJSON
	}
	has := func(name string) bool { _, ok := jsonwire.Get(raw, "/"+name); return ok }
	switch {
	case !object:
		return notJSON
	case has("supportedInterfaces"):
		return cardV10
	case a2a.OldCard(raw) && (has("protocolVersion") || has("preferredTransport") || has("skills")):
		return cardV03
	case has("skills") && has("name"):
		return cardV10
	}
	return someJSON
}

// etag is the card's validator, if it is of a size worth keeping.
func etag(h http.Header) string {
	if tag := h.Get("ETag"); len(tag) <= maxETagBytes {
		return tag
	}
	return ""
}
