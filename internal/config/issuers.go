package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/parley-mesh/parley/internal/parley"
)

// Issuer is one OAuth authorization server or OpenID provider whose access
// tokens identify callers. Keys, ranges and explanations stand in issuerKeys
// and docs/config.md.
type Issuer struct {
	Issuer         string // exactly as the tokens' iss has it
	MetadataURL    string // empty: found below Issuer
	Audience       []string
	Algorithms     []string
	AcceptTyp      []string // lower case, without "application/"
	RequiredScopes []string
	ClockSkew      time.Duration
	JWKSRefresh    time.Duration
	Principals     Admission

	// What principals made of this issuer's subjects get where no claim says.
	Owner       parley.OwnerName
	Environment parley.Environment // empty: the mesh's own
	Roles       []parley.Role

	Claims Claims
	Login  Login
}

// Claims says which claims of a token tell what. Each is the name of a claim,
// or a JSON pointer, which begins with a slash; empty means that none does.
type Claims struct {
	Name           string
	Owner          string
	OwnerMap       map[string]string
	Environment    string
	EnvironmentMap map[string]string
	Roles          string
	RoleMap        map[string]string
}

// Login is what "parley login" needs for the issuer's device flow.
type Login struct {
	ClientID string // empty: people cannot log in with this issuer
	Scopes   []string
	Resource string // RFC 8707; empty: none is asked for
}

// Admission says which of an issuer's subjects are callers.
type Admission string

// The ways subjects become callers.
const (
	AdmitLinked Admission = "linked" // those linked to a principal by hand
	AdmitCreate Admission = "create" // all: a principal is made at first sight
)

const (
	maxIssuers   = 32
	maxAudience  = 32  // elements of one list of an issuer
	maxMapped    = 500 // elements of one map of an issuer
	maxClaimText = 256 // bytes of a claim's name, or of one value mapped
)

// signatureAlgorithms are those that a token may be signed with: no "none", and
// no HMAC, whose key would be shared with whoever makes tokens.
var signatureAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func defaultIssuer() Issuer {
	return Issuer{
		Algorithms: []string{"RS256", "PS256", "ES256", "EdDSA"}, AcceptTyp: []string{"at+jwt"},
		ClockSkew: 30 * time.Second, JWKSRefresh: 15 * time.Minute, Principals: AdmitLinked,
		Login: Login{Scopes: []string{"openid", "offline_access"}},
	}
}

// issuerKeys binds the keys of one issuer to its fields. Paths begin with
// prefix, which is empty or ends in a dot.
func issuerKeys(prefix string, i *Issuer) []key {
	keys := []key{
		{"issuer", &textValue{&i.Issuer, "URL", checkIssuer}, "", "The issuer's identifier, exactly as the claim `iss` of its tokens has it."},
		{"metadata_url", &textValue{&i.MetadataURL, "URL or empty", checkMetadataURL}, "", "Where its metadata is. Empty: `/.well-known/openid-configuration` below `issuer`, or the place that RFC 8414 gives."},
		{"audience", list(&i.Audience, "audience", checkClaimText), "", "Names under which this mesh is known there; one of them must stand in a token's `aud`."},
		{"algorithms", list(&i.Algorithms, "algorithm", checkAlgorithm), "", "Signature algorithms a token may have."},
		{"accept_typ", list(&i.AcceptTyp, "type", checkTyp), "", "Types (`typ`) a token may have, case ignored. Add `JWT` for issuers that do not mark access tokens as RFC 9068 says."},
		{"required_scopes", list(&i.RequiredScopes, "scope", checkScope), "", "Scopes a token must have, all of them."},
		{"clock_skew", duration(&i.ClockSkew, 0, 10*time.Minute), "", "By how much the clocks of issuer and mesh may differ."},
		{"jwks_refresh", duration(&i.JWKSRefresh, time.Minute, day), "", "Pause between two fetches of its keys. A key that is not known is looked for at once, at most once a minute."},
		{"principals", choice(&i.Principals, AdmitLinked, AdmitCreate), "", "`linked`: only subjects that `parley principal link` has linked are callers. `create`: a principal is made for any other subject at its first call."},
		{"owner", &textValue{(*string)(&i.Owner), "owner or empty", checkNameOrEmpty("owner")}, "", "Owner of the principals that are made, where no claim says. Empty: `default`, and if `claims.owner` is set a token without it is refused."},
		{"environment", &textValue{(*string)(&i.Environment), "environment or empty", checkEnvironment}, "", "Environment of the principals that are made, where no claim says. Empty: the mesh's own, and if `claims.environment` is set a token without it is refused."},
		{"roles", list(&i.Roles, "role", checkRole), "", "Roles that every token of this issuer gives."},
		{"claims.name", &textValue{&i.Claims.Name, "claim or empty", checkClaim}, "", "The claim of which the name of a principal is made, as `preferred_username`. Empty: `sub`."},
		{"claims.owner", &textValue{&i.Claims.Owner, "claim or empty", checkClaim}, "", "The claim that names the owner of a principal that is made."},
		{"claims.owner_map", mapped(&i.Claims.OwnerMap, "owner", checkOwnerName), "", "Owners by value of that claim. Empty: the value itself is the owner's name."},
		{"claims.environment", &textValue{&i.Claims.Environment, "claim or empty", checkClaim}, "", "The claim that names the environment of a principal that is made."},
		{"claims.environment_map", mapped(&i.Claims.EnvironmentMap, "environment", checkEnvironmentName), "", "Environments by value of that claim. Empty: the value itself is the environment."},
		{"claims.roles", &textValue{&i.Claims.Roles, "claim or empty", checkClaim}, "", "The claim, a text or a list of them, that tells roles, as `groups` or `/realm_access/roles`."},
		{"claims.role_map", mapped(&i.Claims.RoleMap, "role", checkRole), "", "Roles by value of that claim. Empty: values that are roles count."},
		{"login.client_id", &textValue{&i.Login.ClientID, "text or empty", checkText}, "", "The client that `parley login` is at this issuer: public, with the device flow. Empty: no interactive login."},
		{"login.scopes", list(&i.Login.Scopes, "scope", checkScope), "", "Scopes that `parley login` asks for. `offline_access` brings a refresh token."},
		{"login.resource", &textValue{&i.Login.Resource, "text or empty", checkText}, "", "The resource (RFC 8707) that `parley login` asks a token for, most often one of `audience`. Empty: none is named."},
	}
	for n := range keys {
		keys[n].path = prefix + keys[n].path
	}
	return keys
}

// checkIssuer accepts an issuer's identifier as RFC 8414 has it. It is compared
// byte by byte later, so that nothing is rewritten here.
func checkIssuer(text, _ string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || len(text) > 2048 {
		return "", fmt.Errorf("%.200q is not an issuer: write its https address as its tokens have it in \"iss\"", text)
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("the issuer at %s has a user name, a query or a fragment: leave only scheme, host and path", u.Host)
	}
	return text, nil
}

func checkMetadataURL(text, base string) (string, error) {
	if text == "" {
		return "", nil
	}
	return checkIssuer(text, base)
}

func checkAlgorithm(element string) (string, error) {
	if !slices.Contains(signatureAlgorithms, element) {
		return "", fmt.Errorf("algorithm %.40q is not possible: use %s", element, joinWords(signatureAlgorithms, " or "))
	}
	return element, nil
}

func checkTyp(element string) (string, error) {
	typ := strings.TrimPrefix(strings.ToLower(element), "application/")
	if typ == "" || strings.ContainsFunc(typ, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%.40q is not a type: write one such as at+jwt or JWT", element)
	}
	return typ, nil
}

// checkScope accepts a scope-token of RFC 6749, section 3.3.
func checkScope(element string) (string, error) {
	if element == "" || strings.ContainsFunc(element, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return "", fmt.Errorf("%.100q is not a scope: write one word, without quotes inside", element)
	}
	return checkClaimText(element)
}

func checkClaimText(element string) (string, error) {
	if element == "" || len(element) > 2048 {
		return "", errors.New("has an element that is empty or longer than 2048 bytes: take it out")
	}
	return element, nil
}

func checkText(text, _ string) (string, error) {
	if len(text) > 2048 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("is too long or has control characters in it: write one line of at most 2048 bytes")
	}
	return text, nil
}

func checkClaim(text, _ string) (string, error) {
	if len(text) > maxClaimText || text == "/" {
		return "", fmt.Errorf("is not a claim: write its name, as in groups, or a JSON pointer, as in /realm_access/roles, of at most %d bytes", maxClaimText)
	}
	return text, nil
}

func checkRole(element string) (string, error) {
	role, err := parley.ParseRole(element)
	return string(role), err
}

func checkOwnerName(element string) (string, error) {
	return element, parley.CheckName("owner", element)
}

func checkNameOrEmpty(what string) func(string, string) (string, error) {
	return func(text, _ string) (string, error) {
		if text == "" {
			return "", nil
		}
		return text, parley.CheckName(what, text)
	}
}

func checkEnvironment(text, _ string) (string, error) {
	_, err := parley.ParseEnvironment(text)
	return text, err
}

func checkEnvironmentName(element string) (string, error) {
	if element == "" {
		return "", errors.New("an environment is empty: write dev, test, staging or prod")
	}
	return checkEnvironment(element, "")
}

// problems finds what single keys of an issuer cannot show.
func (i *Issuer) problems() (key, problem string) {
	switch {
	case i.Issuer == "":
		return "issuer", "is missing: write the issuer's identifier, as its tokens have it in \"iss\""
	case len(i.Audience) == 0:
		return "audience", "is missing: without it a token made for anybody would open this mesh; write the name the issuer knows the mesh by"
	case len(i.Algorithms) == 0:
		return "algorithms", "is empty: name at least one"
	case len(i.AcceptTyp) == 0:
		return "accept_typ", "is empty: name at least one, as at+jwt"
	case max(len(i.Audience), len(i.AcceptTyp), len(i.RequiredScopes), len(i.Login.Scopes)) > maxAudience:
		return "audience", fmt.Sprintf("and the other lists of an issuer have at most %d elements", maxAudience)
	}
	for _, m := range []struct {
		key, claimKey, claim string
		mapped               map[string]string
	}{
		{"claims.owner_map", "claims.owner", i.Claims.Owner, i.Claims.OwnerMap},
		{"claims.environment_map", "claims.environment", i.Claims.Environment, i.Claims.EnvironmentMap},
		{"claims.role_map", "claims.roles", i.Claims.Roles, i.Claims.RoleMap},
	} {
		if len(m.mapped) > 0 && m.claim == "" {
			return m.key, "maps nothing: set " + m.claimKey + " as well"
		}
	}
	return "", ""
}

// mapValue is a map of texts, whose values are checked one by one.
type mapValue struct {
	p     *map[string]string
	name  string
	check func(element string) (string, error)
}

func mapped(p *map[string]string, name string, check func(string) (string, error)) value {
	return &mapValue{p, name, check}
}

func (v *mapValue) kind() string { return "map to " + v.name + "s" }
func (v *mapValue) text() string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(*v.p)) {
		all = append(all, k+"="+(*v.p)[k])
	}
	return strings.Join(all, ",")
}

// set is part of value; maps stand in files and in YAML text only.
func (v *mapValue) set(string, string) error {
	return fmt.Errorf("takes a %s: write it as {value: %s}", v.kind(), v.name)
}

func (v *mapValue) setNode(w *fileWalk, k key, node ast.Node) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		w.loader.fail(w.at(node), k.path, "%s", v.set("", ""))
		return
	}
	found := map[string]string{}
	for entries := mapping.MapRange(); entries.Next(); {
		name, okName := scalarText(entries.Key())
		text, okText := scalarText(entries.Value())
		if !okName || !okText || entries.Key().IsMergeKey() || len(name) > maxClaimText {
			w.loader.fail(w.at(entries.Key()), k.path, "%s", v.set("", ""))
			return
		}
		checked, err := v.check(text)
		if err != nil {
			w.loader.fail(w.at(entries.Value()), k.path, "%s", err)
			return
		}
		found[name] = checked
	}
	if len(found) > maxMapped {
		w.loader.fail(w.at(node), k.path, "has more than %d entries: map fewer", maxMapped)
		return
	}
	*v.p = found
	w.loader.settle(k, w.at(node), nil)
}

// issuersValue is the list of issuers: in a file a sequence of mappings, in the
// environment the same as YAML text.
type issuersValue struct{ p *[]Issuer }

func (v *issuersValue) kind() string { return "list of issuers" }

// text is the issuers as JSON, which is YAML too.
func (v *issuersValue) text() string {
	if len(*v.p) == 0 {
		return "[]"
	}
	var all []string
	for n := range *v.p {
		all = append(all, (*v.p)[n].flow())
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// flow writes an issuer with all its keys, those of sections below them.
func (i *Issuer) flow() string {
	sections, order := map[string][]string{}, []string{""}
	for _, k := range issuerKeys("", i) {
		section, name, nested := strings.Cut(k.path, ".")
		if !nested {
			section, name = "", k.path
		} else if sections[section] == nil {
			order = append(order, section)
		}
		sections[section] = append(sections[section], quoteJSON(name)+": "+valueJSON(k.value))
	}
	all := sections[""]
	for _, section := range order[1:] {
		all = append(all, quoteJSON(section)+": {"+strings.Join(sections[section], ", ")+"}")
	}
	return "{" + strings.Join(all, ", ") + "}"
}

func quoteJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil { // a string always encodes
		panic(err)
	}
	return string(quoted)
}

func valueJSON(v value) string {
	var all []string
	switch v := v.(type) {
	case *mapValue:
		for _, k := range slices.Sorted(maps.Keys(*v.p)) {
			all = append(all, quoteJSON(k)+": "+quoteJSON((*v.p)[k]))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case listValue:
		for _, element := range v.elements() {
			all = append(all, quoteJSON(element))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return quoteJSON(v.text())
}

// set reads YAML text, as the environment holds it.
func (v *issuersValue) set(text, base string) error {
	tree, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return fmt.Errorf("not YAML: %s", syntaxMessage(err))
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return errors.New("takes a list of issuers: write [{issuer: https://…, audience: [mesh]}]")
	}
	w := &fileWalk{loader: &loader{config: &Config{origins: map[string]Origin{}}}, base: base}
	v.setNode(w, key{path: "auth.issuers", value: v}, tree.Docs[0].Body)
	for _, first := range w.loader.problems {
		return fmt.Errorf("%s: %s", first.Key, first.Problem)
	}
	return nil
}

func (v *issuersValue) setNode(w *fileWalk, k key, node ast.Node) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		w.loader.fail(w.at(node), k.path, "takes a list of issuers: write \"- issuer: https://…\" below it")
		return
	}
	if len(sequence.Values) > maxIssuers {
		w.loader.fail(w.at(node), k.path, "has %d issuers: at most %d are possible", len(sequence.Values), maxIssuers)
		return
	}
	before := len(w.loader.problems)
	all := make([]Issuer, 0, len(sequence.Values))
	for n, element := range sequence.Values {
		one, prefix := defaultIssuer(), fmt.Sprintf("%s[%d]", k.path, n)
		inner := &fileWalk{loader: &loader{config: w.loader.config, keys: issuerKeys(prefix+".", &one)}, name: w.name, base: w.base}
		inner.section(prefix, element)
		w.loader.problems = append(w.loader.problems, inner.loader.problems...)
		if len(inner.loader.problems) > 0 {
			continue
		}
		if key, problem := one.problems(); problem != "" {
			w.loader.fail(w.at(element), prefix+"."+key, "%s", problem)
		}
		if slices.ContainsFunc(all, func(o Issuer) bool { return o.Issuer == one.Issuer }) {
			w.loader.fail(w.at(element), prefix+".issuer", "%s stands twice: keep one, with all its audiences", one.Issuer)
		}
		all = append(all, one)
	}
	if len(w.loader.problems) == before {
		*v.p = all
		w.loader.settle(k, w.at(node), nil)
	}
}
