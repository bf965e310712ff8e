package oidc_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/oidc"
	"github.com/parley-mesh/parley/internal/signon"
)

func TestMetadata(t *testing.T) {
	m := &oidc.Metadata{
		PublicURL: "https://mesh.example", AgentsPath: "/agents/", Issuers: []string{issuerID}, Scopes: []string{"call"},
		Logins: []signon.Offer{{Issuer: issuerID, ClientID: "cli"}},
	}
	for _, tc := range []struct {
		method, path string
		status       int
		resource     string
	}{
		{"GET", "", 200, "https://mesh.example/"},
		{"GET", "/agents/echo", 200, "https://mesh.example/agents/echo/"},
		{"GET", "/agents/echo/", 200, "https://mesh.example/agents/echo/"},
		{"GET", "/agents/", 404, ""},
		{"GET", "/agents/Echo", 404, ""},
		{"GET", "/agents/echo/x", 404, ""},
		{"GET", "-of-others", 404, ""},
		{"POST", "", 405, ""},
	} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(tc.method, signon.MetadataPath+tc.path, http.NoBody))
		if w.Code != tc.status {
			t.Errorf("%s %s: status %d, want %d", tc.method, tc.path, w.Code, tc.status)
			continue
		}
		if tc.status != 200 {
			continue
		}
		var got signon.Resource
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := signon.Resource{
			Resource: tc.resource, ResourceName: "Parley mesh", AuthorizationServers: []string{issuerID}, BearerMethods: []string{"header"},
			Scopes: []string{"call"}, Logins: m.Logins,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, diff)
		}
	}
	w := httptest.NewRecorder()
	(&oidc.Metadata{PublicURL: "https://mesh.example"}).ServeHTTP(w, httptest.NewRequest("GET", signon.MetadataPath, http.NoBody))
	if w.Code != 404 {
		t.Errorf("without an issuer: status %d, want 404", w.Code)
	}
}
