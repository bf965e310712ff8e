package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/signon"
)

const (
	maxDocument   = 256 << 10 // bytes of metadata or of a key set
	maxKeys       = 100       // of one issuer
	metadataLasts = 24 * time.Hour
)

// source finds and fetches the keys of an issuer. One load uses it at a time.
type source struct {
	issuer, metadataURL string
	fetch               Fetcher
	now                 func() time.Time

	keysURL string    // from the metadata; empty: not known
	found   time.Time // when
}

// keys fetches the issuer's keys, and before that its metadata where those are
// not known, are a day old, or led to nothing the last time.
func (s *source) keys(ctx context.Context) ([]jose.JSONWebKey, error) {
	if s.keysURL == "" || s.now().Sub(s.found) >= metadataLasts {
		found, err := s.discover(ctx)
		if err != nil {
			return nil, err
		}
		s.keysURL, s.found = found, s.now()
	}
	keys, err := s.fetchKeys(ctx)
	if err != nil {
		s.keysURL = ""
	}
	return keys, err
}

func (s *source) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	body, err := s.document(ctx, s.keysURL)
	if err != nil {
		return nil, fmt.Errorf("fetch the keys: %w", err)
	}
	raw, ok := jsonwire.Get(body, "/keys")
	elements := jsonwire.Elements(raw)
	if !ok || len(elements) > maxKeys {
		return nil, fmt.Errorf("what %s answers is no key set of at most %d keys", s.keysURL, maxKeys)
	}
	var all []jose.JSONWebKey
	for _, element := range elements {
		var key jose.JSONWebKey
		if json.Unmarshal(element, &key) == nil { // a kind of key that go-jose does not know is none of ours
			all = append(all, key)
		}
	}
	return usableKeys(all)
}

// discover finds where the keys are.
func (s *source) discover(ctx context.Context) (string, error) {
	var failed []error
	for _, place := range signon.MetadataURLs(s.issuer, s.metadataURL) {
		found, err := s.keysURLFrom(ctx, place)
		if err == nil {
			return found, nil
		}
		failed = append(failed, err)
	}
	return "", fmt.Errorf("fetch the metadata: %w", errors.Join(failed...))
}

// keysURLFrom reads metadata at one place. They must be the issuer's own words
// (RFC 8414, section 3.3), and must not lead from https to http.
func (s *source) keysURLFrom(ctx context.Context, place string) (string, error) {
	body, err := s.document(ctx, place)
	if err != nil {
		return "", err
	}
	named, _ := jsonwire.Get(body, "/issuer")
	if jsonwire.String(named) != s.issuer {
		return "", fmt.Errorf("the metadata at %s are of another issuer: write auth.issuers' issuer exactly as they have it", place)
	}
	raw, _ := jsonwire.Get(body, "/jwks_uri")
	found := jsonwire.String(raw)
	u, err := url.Parse(found)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(place, "https:")) {
		return "", fmt.Errorf("the metadata at %s name no usable place of keys (jwks_uri)", place)
	}
	return found, nil
}

// document fetches one JSON document.
func (s *source) document(ctx context.Context, place string) ([]byte, error) {
	response, err := s.fetch.Fetch(ctx, place, netguard.Request{Header: http.Header{"Accept": {"application/json"}}, MaxBody: maxDocument})
	if err != nil {
		return nil, err
	}
	if e := jsonwire.Valid(response.Body, jsonwire.Limits{MaxBytes: maxDocument}); e != nil {
		return nil, fmt.Errorf("what %s answers is no JSON: %w", place, e)
	}
	return response.Body, nil
}
