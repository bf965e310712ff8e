package config

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mesh/parley/internal/parley"
)

const twoIssuers = `
auth:
  issuers:
    - issuer: https://login.example.com/tenant
      audience: [https://mesh.example.com, mesh]
      algorithms: [ES256]
      accept_typ: [JWT, application/at+jwt]
      required_scopes: [call]
      clock_skew: 1m
      jwks_refresh: 1h
      principals: create
      owner: guests
      environment: test
      roles: [operator]
      claims:
        name: preferred_username
        owner: "https://example.com/team"
        owner_map: {"R&D: Labs": research, Ops: operations}
        roles: /realm_access/roles
        role_map: {platform-admins: admin}
      login:
        client_id: parley-cli
        scopes: []
        resource: mesh
    - issuer: https://other.example.com
      audience: mesh
`

func wantIssuers() []Issuer {
	second := defaultIssuer()
	second.Issuer, second.Audience = "https://other.example.com", []string{"mesh"}
	return []Issuer{{
		Issuer: "https://login.example.com/tenant", Audience: []string{"https://mesh.example.com", "mesh"}, Algorithms: []string{"ES256"},
		AcceptTyp: []string{"jwt", "at+jwt"}, RequiredScopes: []string{"call"}, ClockSkew: time.Minute, JWKSRefresh: time.Hour,
		Principals: AdmitCreate, Owner: "guests", Environment: parley.Test, Roles: []parley.Role{parley.RoleOperator},
		Claims: Claims{
			Name: "preferred_username", Owner: "https://example.com/team", OwnerMap: map[string]string{"R&D: Labs": "research", "Ops": "operations"},
			Roles: "/realm_access/roles", RoleMap: map[string]string{"platform-admins": "admin"},
		},
		Login: Login{ClientID: "parley-cli", Scopes: []string{}, Resource: "mesh"},
	}, second}
}

func TestIssuers(t *testing.T) {
	c := mustLoad(t, twoIssuers, nil)
	if diff := cmp.Diff(wantIssuers(), c.Auth.Issuers); diff != "" {
		t.Errorf("issuers (-want +got):\n%s", diff)
	}
	if got := c.Origin("auth.issuers[0].clock_skew").Where; !strings.HasSuffix(got, ":9") {
		t.Errorf("clock_skew was written at %s, want line 9", got)
	}
}

// TestIssuersReadBack: what is printed is what was read, also through the
// environment.
func TestIssuersReadBack(t *testing.T) {
	c := mustLoad(t, twoIssuers, nil)
	var printed bytes.Buffer
	if err := c.WriteEffective(&printed); err != nil {
		t.Fatal(err)
	}
	again := mustLoad(t, printed.String(), nil)
	if diff := cmp.Diff(c.Auth.Issuers, again.Auth.Issuers, emptyIsNone); diff != "" {
		t.Errorf("read back from the print-out (-want +got):\n%s", diff)
	}
	text := (&issuersValue{&c.Auth.Issuers}).text()
	again = mustLoad(t, "", []string{"PARLEY_AUTH_ISSUERS=" + text})
	if diff := cmp.Diff(c.Auth.Issuers, again.Auth.Issuers, emptyIsNone); diff != "" {
		t.Errorf("read back from the environment (-want +got):\n%s", diff)
	}
}

// emptyIsNone takes an empty list or map for none.
var emptyIsNone = cmpopts.EquateEmpty()

func TestBadIssuersInTheEnvironment(t *testing.T) {
	for text, want := range map[string]string{
		"issuer": "takes a list of issuers",
		"[{issuer: https://login.example.com, audience: [mesh], algorithms: [none]}]": "auth.issuers[0].algorithms: algorithm \"none\" is not possible",
		"[{issuer: https://login.example.com}]":                                       "auth.issuers[0].audience: is missing",
		"[{":                                                                          "not YAML",
	} {
		_, err := load(t, "", []string{"PARLEY_AUTH_ISSUERS=" + text})
		if err == nil || !strings.HasPrefix(err.Error(), "PARLEY_AUTH_ISSUERS: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
