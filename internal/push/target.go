package push

import (
	"strings"
)

// The longest secrets that are taken, in bytes: they travel in headers.
const (
	maxToken  = 4096
	maxScheme = 64
)

// Problem is what is wrong with a target, and with which member of it.
type Problem struct {
	Field   string // as TaskPushNotificationConfig names it
	Problem string // with what to do
}

// CheckSecrets says what is wrong with the parts of a target that go into the
// headers of a delivery; nil for nothing. scheme is nil where the caller gave no
// authentication. It does not repeat them.
func CheckSecrets(token string, scheme *string, credentials string) *Problem {
	if p := headerText(token); p != "" {
		return &Problem{"token", p}
	}
	if scheme == nil {
		return nil
	}
	if *scheme == "" || len(*scheme) > maxScheme || strings.ContainsFunc(*scheme, func(r rune) bool { return !tokenRune(r) }) {
		return &Problem{"authentication.scheme", "is no HTTP authentication scheme: write one word, such as Bearer"}
	}
	if p := headerText(credentials); p != "" {
		return &Problem{"authentication.credentials", p}
	}
	return nil
}

// headerText says why text cannot stand in a header.
func headerText(text string) string {
	if len(text) > maxToken {
		return "is longer than 4096 bytes: use a shorter one"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(text) != text {
		return "cannot stand in an HTTP header: use visible ASCII without blanks around it"
	}
	return ""
}

// tokenRune reports whether r may stand in a token (RFC 9110, section 5.6.2).
func tokenRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
