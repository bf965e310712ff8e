package control

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items" nullable:"false"`
	// Next leads to the next page, as cursor; empty on the last.
	Next string `json:"next,omitempty"`
}

// Paging is the part of a list's input that all lists share. It is exported, as
// are Matching and the paths, because only such embedded structs are decoded.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"1024" doc:"next of the page before."`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Items of a page."`
}

// listed is a page as an answer.
type listed[T any] struct {
	Body Page[T]
}

// entity is one thing as an answer.
type entity[T any] struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     T
}

// empty is an answer without a body.
type empty struct{}

// cursorOf makes a cursor of a list's kind from the sort key of its last item.
func cursorOf(kind string, key ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + "\x00" + strings.Join(key, "\x00")))
}

// place reads what cursorOf made: n parts of the key, or n empty ones for the
// first page.
func (p *Paging) place(kind string, n int) ([]string, error) {
	if p.Cursor == "" {
		return make([]string, n), nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(parts) != n+1 || parts[0] != kind {
		return nil, badParam("cursor", "is not a cursor of this list", "pass next of the page before, unchanged")
	}
	return parts[1:], nil
}

// badParam is the error of a wrong parameter. The path is put together here and
// not with pointer: it is no place in a body.
func badParam(name, problem, fix string) error {
	p := problemOf(parley.E("control.decode", parley.Invalid, "", "the request is not valid", nil))
	p.Fields = []parley.Field{{Path: name, Problem: problem, Fix: fix}}
	return p
}

// etag is a version as a header.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// Matching is the part of an input that guards a change.
type Matching struct {
	IfMatch string `header:"If-Match" maxLength:"64" doc:"ETag of the state that the change was decided on."`
}

// version is the one that If-Match names; 0 where any will do.
func (m *Matching) version() (int64, error) {
	if m.IfMatch == "" || m.IfMatch == "*" {
		return 0, nil
	}
	inner, quoted := strings.CutPrefix(m.IfMatch, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	v, err := strconv.ParseInt(inner, 10, 64)
	if !quoted || !closed || err != nil || v <= 0 {
		return 0, badParam("If-Match", fmt.Sprintf("%q is not an ETag of this API", m.IfMatch), `send the ETag as it was given, such as "3"`)
	}
	return v, nil
}
