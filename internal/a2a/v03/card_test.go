package v03_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldpb "github.com/a2aproject/a2a-go/a2apb"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

var update = flag.Bool("update", false, "write the cards that are made of others from this run")

// TestGoldenCards: cards of 0.3 in all its forms, what they are in 1.0, and what both
// versions are shown of that.
func TestGoldenCards(t *testing.T) {
	for _, name := range []string{"full", "least", "proto", "both"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "cards", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		v1, err := v03.CardToV1(raw)
		if err != nil {
			t.Fatal(err)
		}
		if card, problems := a2a.ParseCard(v1); card == nil {
			t.Errorf("%s: what it is in 1.0 does not pass: %v", name, problems)
		}
		union, err := v03.UnionCard(v1)
		if err != nil {
			t.Fatal(err)
		}
		proto, err := v03.ProtoCard(union)
		if err != nil {
			t.Fatal(err)
		}
		for form, got := range map[string][]byte{"v1": v1, "union": union, "proto": proto} {
			golden(t, name+"."+form+".json", got)
		}
		readable(t, name, union)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "cards", name)
	text := a2atest.LayOut(got) + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != text {
		t.Errorf("%s is another one (-update writes it), %v:\n%s", name, err, text)
	}
}

// readable gives a card of both versions to the parsers of the official Go SDKs: of
// 0.3, of 1.0, of 1.0 with what it has for 0.3, and of gRPC of 0.3.
func readable(t interface{ Errorf(string, ...any) }, name string, union []byte) (was *old.AgentCard) {
	was = new(old.AgentCard)
	if err := json.Unmarshal(union, was); err != nil {
		t.Errorf("%s is not read by 0.3: %v\n%s", name, err, union)
	}
	// The SDK of 1.0 reads no securityRequirements in A2A's form, whoever serves them.
	for _, path := range []string{"/securityRequirements", "/skills"} {
		union, _ = jsonwire.Delete(union, path)
	}
	var is sdk.AgentCard
	if err := json.Unmarshal(union, &is); err != nil {
		t.Errorf("%s is not read by 1.0: %v\n%s", name, err, union)
	}
	if _, err := a2av0.NewAgentCardParser()(union); err != nil {
		t.Errorf("%s is not read by 1.0 with 0.3: %v\n%s", name, err, union)
	}
	proto, err := v03.ProtoCard(union)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(proto, new(oldpb.AgentCard))
	}
	if err != nil {
		t.Errorf("%s is not read by gRPC of 0.3: %v\n%s", name, err, proto)
	}
	return was
}

// TestCardsSurvive: a card of 0.3, as its own SDK writes it, says the same to readers
// of 0.3 after it was read as one of 1.0 and written for both, and the same to readers
// of 1.0 whether they read the one or the other.
func TestCardsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		card := drawCard(t)
		raw, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		read, err := v03.ReadCard(raw)
		if err != nil || !read.Old {
			t.Fatalf("%v, old %v: %s", err, read.Old, raw)
		}
		if _, problems := a2a.ParseCard(raw); a2a.Refused(problems) {
			t.Fatalf("refused: %v\n%s", problems, raw)
		}
		union, err := v03.UnionCard(read.V1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := v03.ReadCard(union)
		if err != nil || again.Old || !sameMembers(again.V1, read.V1) {
			t.Fatalf("read again as\n%s\nwhich was\n%s\n%v", again.V1, read.V1, err)
		}
		got := readable(t, "the card", union)
		want := card
		if want.PreferredTransport == "" {
			want.PreferredTransport = old.TransportProtocolJSONRPC
		}
		want.ProtocolVersion = "0.3.0"
		got.AdditionalInterfaces, want.AdditionalInterfaces = nil, nil // below
		if !reflect.DeepEqual(normal(t, got), normal(t, &want)) {
			t.Fatalf("a reader of 0.3 is told\n%s\nof\n%s", mustJSON(t, got), mustJSON(t, want))
		}
		for _, i := range card.AdditionalInterfaces {
			main := i.URL == want.URL && i.Transport == want.PreferredTransport
			if !main && !bytes.Contains(union, []byte(`{"url":`+string(jsonwire.Quote(i.URL))+`,"transport":"`+string(i.Transport)+`"}`)) {
				t.Fatalf("%v is missing in %s", i, union)
			}
		}
	})
}

// normal is a card as a tree, so that what is empty and what is not there are alike.
func normal(t *rapid.T, card *old.AgentCard) (tree map[string]any) {
	if err := json.Unmarshal([]byte(mustJSON(t, card)), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func mustJSON(t *rapid.T, v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func sameMembers(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// drawCard makes a card with one flow in each scheme of OAuth 2: several become
// several schemes, which TestGoldenCards shows.
func drawCard(t *rapid.T) old.AgentCard {
	text := rapid.StringMatching(`[a-zA-Zäß ]{0,12}`)
	transports := rapid.SampledFrom([]old.TransportProtocol{old.TransportProtocolJSONRPC, old.TransportProtocolHTTPJSON, "x-other"})
	url := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("https://h%d.example.com/a", rapid.IntRange(0, 3).Draw(t, "host"))
	})
	schemes := old.NamedSecuritySchemes{}
	count := rapid.IntRange(0, 4).Draw(t, "schemes")
	for n := range count {
		schemes[old.SecuritySchemeName(fmt.Sprintf("s%d", n))] = drawScheme(t, text)
	}
	requirements := rapid.Custom(func(t *rapid.T) old.SecurityRequirements {
		r := old.SecurityRequirements{}
		needs := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, -1, rapid.ID[int]).Draw(t, "needs")
		for _, n := range needs {
			if n < count {
				r[old.SecuritySchemeName(fmt.Sprintf("s%d", n))] = old.SecuritySchemeScopes(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,4}`), 0, 2).Draw(t, "scopes"))
			}
		}
		return r
	})
	card := old.AgentCard{
		Name: "n" + text.Draw(t, "name"), Description: text.Draw(t, "description"), Version: text.Draw(t, "version"),
		URL: url.Draw(t, "url"), PreferredTransport: rapid.SampledFrom([]old.TransportProtocol{"", old.TransportProtocolJSONRPC, old.TransportProtocolHTTPJSON}).Draw(t, "transport"),
		ProtocolVersion:      rapid.SampledFrom([]string{"", "0.3", "0.3.0", "0.2.6"}).Draw(t, "protocol"),
		SecuritySchemes:      schemes,
		Security:             rapid.SliceOfN(requirements, 0, 3).Draw(t, "security"),
		DefaultInputModes:    []string{"text/plain"},
		DefaultOutputModes:   []string{},
		AdditionalInterfaces: nil,
		Capabilities: old.AgentCapabilities{
			Streaming: rapid.Bool().Draw(t, "streaming"), PushNotifications: rapid.Bool().Draw(t, "push"), StateTransitionHistory: rapid.Bool().Draw(t, "history"),
		},
		SupportsAuthenticatedExtendedCard: rapid.Bool().Draw(t, "extended"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "interfaces") {
		card.AdditionalInterfaces = append(card.AdditionalInterfaces, old.AgentInterface{URL: url.Draw(t, "more"), Transport: transports.Draw(t, "by")})
	}
	card.Skills = []old.AgentSkill{}
	for n := range rapid.IntRange(0, 2).Draw(t, "skills") {
		card.Skills = append(card.Skills, old.AgentSkill{
			ID: fmt.Sprint("k", n), Name: text.Draw(t, "skill"), Tags: []string{}, Security: rapid.SliceOfN(requirements, 0, 2).Draw(t, "for skill"),
		})
	}
	return card
}

func drawScheme(t *rapid.T, text *rapid.Generator[string]) old.SecurityScheme {
	const link = "https://login.example.com/x"
	about, scopes := text.Draw(t, "about"), map[string]string{"read": "Read"}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return old.APIKeySecurityScheme{Description: about, In: old.APIKeySecuritySchemeInHeader, Name: "X-Key"}
	case 1:
		return old.HTTPAuthSecurityScheme{Description: about, Scheme: "bearer", BearerFormat: about}
	case 2:
		return old.OpenIDConnectSecurityScheme{Description: about, OpenIDConnectURL: link}
	case 3:
		return old.MutualTLSSecurityScheme{Description: about}
	case 4:
		return old.OAuth2SecurityScheme{Description: about, Flows: old.OAuthFlows{ClientCredentials: &old.ClientCredentialsOAuthFlow{TokenURL: link, Scopes: scopes}}}
	case 5:
		return old.OAuth2SecurityScheme{Flows: old.OAuthFlows{AuthorizationCode: &old.AuthorizationCodeOAuthFlow{AuthorizationURL: link, TokenURL: link, RefreshURL: link, Scopes: scopes}}}
	}
	return old.OAuth2SecurityScheme{Oauth2MetadataURL: link, Flows: old.OAuthFlows{Implicit: &old.ImplicitOAuthFlow{AuthorizationURL: link, Scopes: scopes}}}
}

// TestFlowsAreBounded: requirements that name schemes of several flows do not grow
// without end.
func TestFlowsAreBounded(t *testing.T) {
	var schemes, requirement []string
	for n := range 10 {
		schemes = append(schemes, fmt.Sprintf(`"s%d":{"type":"oauth2","flows":{"implicit":{},"password":{},"deviceCode":{},"clientCredentials":{},"authorizationCode":{}}}`, n))
		requirement = append(requirement, fmt.Sprintf(`"s%d":[]`, n))
	}
	all := strings.TrimSuffix(strings.Repeat(`{`+strings.Join(requirement, ",")+`},`, 100), ",")
	v1, err := v03.CardToV1([]byte(`{"url":"https://a.example","securitySchemes":{` + strings.Join(schemes, ",") + `},"security":[` + all + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := jsonwire.Get(v1, "/securityRequirements")
	if n := len(jsonwire.Elements(list)); n < 100 || n > 200 {
		t.Errorf("100 requirements became %d", n)
	}
	names, _ := jsonwire.Get(v1, "/securitySchemes")
	if n := len(jsonwire.Members(names)); n != 50 {
		t.Errorf("10 schemes of 5 flows became %d", n)
	}
}

// FuzzCard gives arbitrary documents to everything that reads cards. Nothing may
// panic; what was read once is read as the same again, and what is written for both
// versions is JSON.
func FuzzCard(f *testing.F) {
	names, err := filepath.Glob(filepath.Join("testdata", "cards", "*.json"))
	if err != nil || len(names) == 0 {
		f.Fatalf("no cards: %v", err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"url":1,"preferredTransport":[],"additionalInterfaces":[1,{"transport":2}],"security":[1,{"a":1}],"securitySchemes":{"a":{"type":"oauth2","flows":[]}},"skills":[1,{"security":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if jsonwire.Valid(raw, jsonwire.Limits{}) != nil {
			return // refused before a card is looked for
		}
		read, err := v03.ReadCard(raw)
		if err != nil {
			return
		}
		again, err := v03.ReadCard(read.V1)
		if err != nil || !bytes.Equal(again.V1, read.V1) {
			t.Errorf("%s is read as\n%s\nand that as\n%s\n%v", raw, read.V1, again.V1, err)
		}
		union, err := v03.UnionCard(read.V1)
		if err != nil || !json.Valid(union) {
			t.Errorf("%s for both versions is %s, %v", raw, union, err)
		}
		if proto, err := v03.ProtoCard(union); err != nil || !json.Valid(proto) {
			t.Errorf("%s in ProtoJSON is %s, %v", raw, proto, err)
		}
	})
}
