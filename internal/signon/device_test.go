package signon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/signon"
)

const issuerURL = "https://login.example"

// script is an issuer as a transport: each request gets the next answer.
type script struct {
	mu      sync.Mutex
	answers []string // status and body; "" breaks the connection
	asked   []asked
}

type asked struct {
	url  string
	form url.Values
	at   time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asked{r.URL.String(), form, time.Now()})
	if len(s.answers) == 0 {
		return nil, errors.New("nothing is left to say")
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	if answer == "" {
		return nil, errors.New("connection refused")
	}
	var status int
	if _, err := fmt.Sscan(answer, &status); err != nil {
		return nil, err
	}
	_, text, _ := strings.Cut(answer, " ")
	header := http.Header{"Content-Type": {"application/json"}}
	if status == 302 {
		header.Set("Location", "https://evil.example/")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

var endpoints = &signon.Endpoints{Issuer: issuerURL, Device: issuerURL + "/device", Token: issuerURL + "/token"}

var offer = signon.Offer{Issuer: issuerURL, ClientID: "cli", Scopes: []string{"openid", "call"}, Resource: "mesh"}

const (
	prompted = `200 {"device_code":"d-1","user_code":"ABCD-EFGH","verification_uri":"https://login.example/go","expires_in":100,"interval":5}`
	pending  = `400 {"error":"authorization_pending"}`
	slower   = `400 {"error":"slow_down"}`
	granted  = `200 {"access_token":"a-1","refresh_token":"r-1","token_type":"Bearer","expires_in":600}`
)

// TestDeviceFlow: the pauses between two questions are those that the issuer
// asks for, and the answers end it as they say.
func TestDeviceFlow(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers []string
		kind    parley.Kind // of the error; Internal: none
		pauses  []int       // seconds before each question
	}{
		{"confirmed", []string{prompted, pending, granted}, parley.Internal, []int{5, 5}},
		{"slower and slower", []string{prompted, slower, slower, pending, granted}, parley.Internal, []int{5, 10, 15, 15}},
		{"away for a moment", []string{prompted, "", "502 {}", pending, granted}, parley.Internal, []int{5, 10, 20, 20}},
		{"no interval", []string{strings.Replace(prompted, `,"interval":5`, "", 1), granted}, parley.Internal, []int{5}},
		{"declined", []string{prompted, `400 {"error":"access_denied"}`}, parley.Denied, []int{5}},
		{"too late, says the issuer", []string{prompted, `400 {"error":"expired_token"}`}, parley.Timeout, []int{5}},
		{"too late by the clock", append([]string{strings.Replace(prompted, "100", "17", 1)}, pending, pending, pending, pending), parley.Timeout, []int{5, 5, 5}},
		{"another refusal", []string{prompted, `400 {"error":"invalid_client","error_description":"who?"}`}, parley.Denied, []int{5}},
		{"no bearer token", []string{prompted, strings.Replace(granted, "Bearer", "mac", 1)}, parley.Denied, []int{5}},
		{"a token that breaks headers", []string{prompted, strings.Replace(granted, "a-1", `a\r\nX: y`, 1)}, parley.Denied, []int{5}},
		{"no code", []string{`200 {}`}, parley.Unavailable, nil},
		{"refused at once", []string{`401 {"error":"invalid_client"}`}, parley.Denied, nil},
		{"a redirect", []string{`302 {}`}, parley.Unavailable, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tc.answers}
				c := signon.NewClient(s)
				begun := time.Now()
				tokens, err := flow(t.Context(), c)
				if tc.kind == parley.Internal {
					if err != nil || tokens.Access != "a-1" || tokens.Refresh != "r-1" || time.Until(tokens.ExpiresAt) != 600*time.Second {
						t.Errorf("%+v, %v", tokens, err)
					}
				} else if err == nil || parley.KindOf(err) != tc.kind {
					t.Errorf("%v, want %s", err, tc.kind)
				}
				var pauses []int
				for _, q := range s.asked[1:] {
					pauses = append(pauses, int(q.at.Sub(begun)/time.Second))
					begun = q.at
					if q.url != endpoints.Token || q.form.Get("device_code") != "d-1" || q.form.Get("client_id") != "cli" || q.form.Get("resource") != "mesh" {
						t.Errorf("asked %+v", q)
					}
				}
				if fmt.Sprint(pauses) != fmt.Sprint(tc.pauses) {
					t.Errorf("pauses %v, want %v", pauses, tc.pauses)
				}
			})
		})
	}
}

func flow(ctx context.Context, c *signon.Client) (*signon.Tokens, error) {
	p, err := c.Begin(ctx, endpoints, offer)
	if err != nil {
		return nil, err
	}
	return c.Await(ctx, endpoints, offer, p)
}

func TestDeviceFlowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := signon.NewClient(&script{answers: []string{prompted, pending, pending}})
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if _, err := flow(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that of the context", err)
		}
	})
}

func TestDiscover(t *testing.T) {
	good := `200 {"issuer":"https://login.example","device_authorization_endpoint":"https://login.example/device","token_endpoint":"https://login.example/token"}`
	for _, tc := range []struct {
		name, issuer string
		answers      []string
		kind         parley.Kind
	}{
		{"OpenID", issuerURL, []string{good}, parley.Internal},
		{"RFC 8414", issuerURL, []string{"404 {}", good}, parley.Internal},
		{"another issuer's", issuerURL, []string{strings.Replace(good, "login.example", "evil.example", 1), "404 {}"}, parley.Unavailable},
		{"no device flow", issuerURL, []string{strings.Replace(good, "device_auth", "other_auth", 1)}, parley.Unsupported},
		{"tokens over http", issuerURL, []string{strings.Replace(good, `"https://login.example/token`, `"http://login.example/token`, 1)}, parley.Unavailable},
		{"an issuer over http", "http://login.example", nil, parley.Unavailable},
		{"no JSON", issuerURL, []string{"200 <html>", "200 <html>"}, parley.Unavailable},
	} {
		s := &script{answers: tc.answers}
		e, err := signon.NewClient(s).Discover(t.Context(), tc.issuer, "")
		if tc.kind == parley.Internal && (err != nil || e.Token != endpoints.Token) {
			t.Errorf("%s: %+v, %v", tc.name, e, err)
		}
		if tc.kind != parley.Internal && (err == nil || parley.KindOf(err) != tc.kind) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.kind)
		}
		if len(s.answers) != 0 {
			t.Errorf("%s: %d answers were not asked for", tc.name, len(s.answers))
		}
	}
}
