package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestOriginOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://Agent.Example":            "https://agent.example:443",
		"HTTPS://agent.example:443/x?y=z":  "https://agent.example:443",
		"http://agent.example/":            "http://agent.example:80",
		"https://user@agent.example:8443/": "https://agent.example:8443",
		"http://[::1]:7400/":               "http://[::1]:7400",
	} {
		if got, err := OriginOf(address); got != want || err != nil {
			t.Errorf("OriginOf(%q) = %q, %v; want %q", address, got, err, want)
		}
	}
	for _, bad := range []string{"", "agent.example", "agent.example:443", "ftp://agent.example/", "https://", "https:///x", "://x", "file:///etc"} {
		if got, err := OriginOf(bad); err == nil {
			t.Errorf("OriginOf(%q) = %q", bad, got)
		}
	}
}

func TestCredentialGoesToItsOriginOnly(t *testing.T) {
	c := &Credential{Kind: Bearer, Secret: "s", Origin: "https://agent.example:443"}
	for address, want := range map[string]bool{
		"https://agent.example/a2a":      true,
		"https://AGENT.example:443":      true,
		"http://agent.example:443/":      false,
		"https://agent.example:8443/":    false,
		"https://agent.example.evil/":    false,
		"https://x.agent.example/":       false,
		"https://agent.example@evil.io/": false,
		"agent.example:443":              false,
		"":                               false,
	} {
		if got := c.For(address); got != want {
			t.Errorf("For(%q) = %v", address, got)
		}
	}
	if (&Credential{Secret: "s"}).For("") || (*Credential)(nil).For("https://agent.example") {
		t.Error("a credential without an origin goes somewhere")
	}
}

func TestPresent(t *testing.T) {
	for _, tc := range []struct {
		c    Credential
		want Presented
	}{
		{Credential{Kind: Bearer, Secret: "tok"}, Presented{Header: "Authorization", Value: "Bearer tok"}},
		{Credential{Kind: Basic, Name: "Aladdin", Secret: "open sesame"}, Presented{Header: "Authorization", Value: "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}},
		{Credential{Kind: APIKey, In: InHeader, Name: "X-Key", Secret: "k"}, Presented{Header: "X-Key", Value: "k"}},
		{Credential{Kind: APIKey, In: InQuery, Name: "key", Secret: "k"}, Presented{Query: "key", Value: "k"}},
	} {
		if got := tc.c.Present(); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.c, got, tc.want)
		}
	}
}

func TestCredentialNeverPrintsItsSecret(t *testing.T) {
	c := Credential{Kind: APIKey, In: InHeader, Name: "X-Key", Secret: "hush-hush", Origin: "https://a:443"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "credential", c, "pointer", &c)
	encoded, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	all := string(encoded) + fmt.Sprintf("%v %+v %#v %s %v %+v %#v", c, c, c, c, &c, &c, &c) + log.String()
	if strings.Contains(all, "hush") || !strings.Contains(all, "X-Key") {
		t.Error(all)
	}
}

func TestAuthCommandIsOneCommand(t *testing.T) {
	for name, want := range map[string]string{
		"X-API-Key":        "parley agent auth NAME --api-key --header X-API-Key",
		"X;rm -rf $HOME|x": `parley agent auth NAME --api-key --header 'X;rm -rf $HOME|x'`,
		"it's":             `parley agent auth NAME --api-key --header 'it'\''s'`,
		"--server":         `parley agent auth NAME --api-key --header '--server'`,
	} {
		if got := AuthCommand("", Credential{Kind: APIKey, In: InHeader, Name: name}); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestCredentialCheckNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		c    Credential
		path string
	}{
		{Credential{Kind: Bearer, Secret: "ok"}, ""},
		{Credential{Kind: Basic, Name: "u", Secret: "p w"}, ""},
		{Credential{Kind: APIKey, In: InHeader, Name: "X-Key", Secret: "k"}, ""},
		{Credential{Kind: "oauth", Secret: "k"}, "kind"},
		{Credential{Kind: Bearer}, "secret"},
		{Credential{Kind: Bearer, Secret: "Bearer tok"}, "secret"},
		{Credential{Kind: Bearer, Secret: "tok\r\nX: y"}, "secret"},
		{Credential{Kind: Bearer, Secret: strings.Repeat("x", maxSecretBytes+1)}, "secret"},
		{Credential{Kind: Basic, Name: "a:b", Secret: "p"}, "name"},
		{Credential{Kind: APIKey, In: "cookie", Name: "k", Secret: "k"}, "in"},
		{Credential{Kind: APIKey, In: InHeader, Secret: "k"}, "name"},
		{Credential{Kind: APIKey, In: InHeader, Name: "X Key", Secret: "k"}, "name"},
		{Credential{Kind: APIKey, In: InHeader, Name: "Content-Length", Secret: "k"}, "name"},
		{Credential{Kind: APIKey, In: InHeader, Name: "a2a-version", Secret: "k"}, "name"},
		{Credential{Kind: APIKey, In: InQuery, Name: "a\nb", Secret: "k"}, "name"},
	} {
		got := ""
		for _, f := range tc.c.check() {
			got = f.Path
		}
		if got != tc.path {
			t.Errorf("%v: %v, want %q", tc.c, tc.c.check(), tc.path)
		}
	}
}

// An origin is its own origin, and a credential for it goes there.
func FuzzOriginOf(f *testing.F) {
	for _, s := range []string{"https://Agent.Example/x", "http://[::1]:80", "https://a:b@h:1/", "HTTP://h", "https://h:0443/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		origin, err := OriginOf(address)
		if err != nil {
			return
		}
		if again, err := OriginOf(origin); err != nil || again != origin {
			t.Errorf("%q has the origin %q, and that %q, %v", address, origin, again, err)
		}
		if c := (&Credential{Origin: origin}); !c.For(address) {
			t.Errorf("a credential for %q does not go to %q", origin, address)
		}
	})
}
