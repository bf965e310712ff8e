package a2a

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// What counts as secret-like in a card. A card is public and passed on, so a
// secret in it is lost; but a refused card is a refused agent, so every rule needs
// the look of a real secret, not only the word for one:
//
//	private keys    a PEM header of a private key
//	JWTs            three base64url sections of which the first begins "eyJ"
//	known tokens    the prefixes that issuers give their keys, with a body as long as theirs
//	Bearer, Basic   the scheme with a value behind it that holds letters and digits,
//	                or decodes to name:password
//	URLs            a password before the host; a query parameter named like a
//	                credential that has a value
//	named values    a member named like a credential, or "api_key=…" in a text,
//	                whose value is random: one word of 12 or more, letters and
//	                digits, at least 3 bits of entropy per character
//
// Placeholders ("YOUR_API_KEY", "{token}", "<key>", "xxxx", "…example…") are let
// pass everywhere. A problem never repeats the value.
var (
	secretKey   = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	secretJWT   = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)
	secretToken = regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}`, `[sr]k_(?:live|test)_[A-Za-z0-9]{16,}`, `pk_[A-Za-z0-9_-]{24,}`,
		`gh[pousr]_[A-Za-z0-9]{30,}`, `github_pat_[A-Za-z0-9_]{30,}`, `glpat-[A-Za-z0-9_-]{18,}`,
		`xox[abprs]-[A-Za-z0-9-]{16,}`, `(?:AKIA|ASIA)[A-Z0-9]{16}`, `AIza[A-Za-z0-9_-]{35}`, `ya29\.[A-Za-z0-9_-]{20,}`,
		`hf_[A-Za-z0-9]{30,}`, `npm_[A-Za-z0-9]{30,}`, `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,
		`whsec_[A-Za-z0-9+/=]{24,}`, `dop_v1_[a-f0-9]{40,}`,
	}, "|") + `)`)
	secretBearer = regexp.MustCompile(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})`)
	secretBasic  = regexp.MustCompile(`(?i)\bbasic\s+([A-Za-z0-9+/]{8,}={0,2})`)
	secretUser   = regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:"]*:([^\s/?#@"]+)@`)
	secretNamed  = regexp.MustCompile(`(?i)\b(?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|secret|password|passwd|token)["']?\s*[=:]\s*["']?([A-Za-z0-9._~+/=-]{12,})`)
	placeholder  = regexp.MustCompile(`(?i)example|your|xxxx|\*\*\*|\.\.\.|placeholder|changeme|redacted|^[<{$%\[]`)
)

// secretNames are member and parameter names, folded, that hold credentials.
var secretNames = map[string]bool{
	"apikey": true, "xapikey": true, "accesskey": true, "secretkey": true, "privatekey": true, "key": true,
	"token": true, "accesstoken": true, "authtoken": true, "refreshtoken": true, "idtoken": true, "bearer": true,
	"secret": true, "clientsecret": true, "password": true, "passwd": true, "pwd": true, "credentials": true,
	"authorization": true, "auth": true, "sig": true, "signature": true, "code": true,
}

func foldSecret(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

const secretFix = "take it out of the card and revoke it; credentials are given when the agent is registered"

// secrets looks at every text of the card, known field or not, names included.
func (j *cardJudge) secrets(raw jsontext.Value) { j.secretsIn("", "", raw) }

func (j *cardJudge) secretsIn(path, name string, raw jsontext.Value) {
	if len(raw) == 0 {
		return
	}
	switch raw[0] {
	case '{':
		for _, m := range jsonwire.Members(raw) {
			at := strings.TrimPrefix(path+"."+clip(m.Name), ".")
			if what := secretLike(m.Name); what != "" {
				at = strings.TrimPrefix(path+".(a name)", ".")
				j.fault(at, "looks like "+what, secretFix)
			}
			j.secretsIn(at, m.Name, m.Value)
		}
	case '[':
		for i, v := range jsonwire.Elements(raw) {
			j.secretsIn(fmt.Sprintf("%s[%d]", path, i), name, v)
		}
	case '"':
		text := jsonwire.String(raw)
		what := secretLike(text)
		// A signature is public, and "protected" holds no secret.
		if what == "" && !strings.HasPrefix(path, "signatures[") && secretNames[foldSecret(name)] && random(text) {
			what = "a credential"
		}
		if what != "" {
			j.fault(path, "looks like "+what, secretFix)
		}
	}
}

// secretLike says what kind of secret a text seems to hold, "" for none.
func secretLike(text string) string {
	if len(text) < 8 {
		return ""
	}
	switch {
	case secretKey.MatchString(text):
		return "a private key"
	case secretJWT.MatchString(text):
		return "a JSON web token"
	case matches(secretToken, text, func(hit string) bool { return !placeholder.MatchString(hit) && mixed(hit) }):
		return "an API key"
	case matches(secretBearer, text, func(hit string) bool { return !placeholder.MatchString(hit) && mixed(hit) }):
		return "a bearer token"
	case matches(secretBasic, text, isBasic):
		return "basic credentials"
	case matches(secretUser, text, func(hit string) bool { return !placeholder.MatchString(hit) }):
		return "a password in a URL"
	case secretQuery(text):
		return "a credential in a URL's query"
	case matches(secretNamed, text, random):
		return "a credential"
	}
	return ""
}

// matches runs test on the first group of every match, the whole match if the
// expression has no group.
func matches(re *regexp.Regexp, text string, test func(string) bool) bool {
	for _, m := range re.FindAllStringSubmatch(text, 8) {
		if test(m[len(m)-1]) {
			return true
		}
	}
	return false
}

func isBasic(text string) bool {
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	name, password, ok := strings.Cut(string(plain), ":")
	return ok && name != "" && password != "" && strings.ToValidUTF8(string(plain), "") == string(plain)
}

// secretQuery looks into every address of a text.
func secretQuery(text string) bool {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '"' || r == ')' || r == '>' }) {
		_, query, ok := strings.Cut(word, "?")
		if !ok || !strings.Contains(word, "://") {
			continue
		}
		query, _, _ = strings.Cut(query, "#")
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			name, errName := url.QueryUnescape(name)
			value, errValue := url.QueryUnescape(value)
			if errName == nil && errValue == nil && value != "" && secretNames[foldSecret(name)] && !placeholder.MatchString(value) {
				return true
			}
		}
	}
	return false
}

// mixed tells whether a text has letters and digits, as random text has and words
// have not.
func mixed(text string) bool {
	return strings.ContainsAny(text, "0123456789") && strings.ContainsFunc(text, func(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' })
}

// random tells whether a text looks like the value of a key rather than like a
// word, a path or a sentence.
func random(text string) bool {
	if len(text) < 12 || strings.ContainsAny(text, " \t\n") || strings.Contains(text, "://") || placeholder.MatchString(text) || !mixed(text) {
		return false
	}
	return entropy(text) >= 3
}

// entropy is Shannon's, in bits per byte.
func entropy(text string) float64 {
	var count [256]int
	for i := range len(text) {
		count[text[i]]++
	}
	sum := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(text))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
