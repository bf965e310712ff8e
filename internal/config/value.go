package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/parley-mesh/parley/internal/parley"
)

// value is a typed pointer into a Config: it reads text into the field, prints
// the field, and describes what it takes.
type value interface {
	// set parses text into the field. Relative paths are taken from base.
	set(text, base string) error
	// text prints the field as set would read it.
	text() string
	// kind names the type and range for the reference page.
	kind() string
}

// listValue is a value with several elements, which a file writes as a
// sequence, the environment with commas, and flags by repetition.
type listValue interface {
	value
	setList(elements []string) error
	elements() []string
}

// nodeValue is a value with keys of its own, which only the tree of a file shows
// whole. It reports what it finds wrong itself. Its text is YAML in flow style.
type nodeValue interface {
	value
	setNode(w *fileWalk, k key, node ast.Node)
}

// sourced is a value that cannot be read before the environment is known.
type sourced interface {
	setFrom(text, base string, getenv func(string) (string, bool)) error
}

// textValue is a string with an optional check, which may also rewrite it.
type textValue struct {
	p     *string
	name  string
	check func(text, base string) (string, error)
}

func (v *textValue) set(text, base string) error {
	checked, err := v.check(text, base)
	if err == nil {
		*v.p = checked
	}
	return err
}
func (v *textValue) text() string { return *v.p }
func (v *textValue) kind() string { return v.name }

func text(p *string, name string) value {
	return &textValue{p, name, func(text, _ string) (string, error) { return text, nil }}
}

// path is a file or folder. shown replaces the value on the reference page
// where the default depends on the machine.
func path(p *string, shown string) value {
	name := "path"
	if shown != "" {
		return &shownDefault{&textValue{p, name, checkPath}, shown}
	}
	return &textValue{p, name, checkPath}
}

func checkPath(text, base string) (string, error) { return resolvePath(text, base), nil }

// resolvePath takes a relative path from base; the empty path stays empty.
func resolvePath(path, base string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// shownDefault prints another default on the reference page.
type shownDefault struct {
	value
	shown string
}

func addr(p *string) value { return &textValue{p, "host:port", checkAddr} }

func optionalAddr(p *string) value {
	return &textValue{p, "host:port or empty", func(text, base string) (string, error) {
		if text == "" {
			return "", nil
		}
		return checkAddr(text, base)
	}}
}

func checkAddr(text, _ string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q is not an address: write host:port, as in 127.0.0.1:7400 or [::1]:7400", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q has no usable port: write a number from 0 to 65535 after the colon", text)
	}
	if strings.ContainsAny(host, "/@ ") {
		return "", fmt.Errorf("%q is not an address: write host:port without scheme or path", text)
	}
	return text, nil
}

func baseURL(p *string) value { return &textValue{p, "URL or empty", checkBaseURL} }

// checkBaseURL accepts an absolute http or https URL that paths can be appended
// to, and drops its trailing slashes.
func checkBaseURL(text, _ string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", fmt.Errorf("%q is not a web address: write scheme and host, as in https://mesh.example.org", text)
	}
	if u.User != nil {
		return "", fmt.Errorf("the address of %s carries a user name: take it out, addresses are shown to callers", u.Host)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("%q has a query or a fragment: leave only scheme, host and path", text)
	}
	return strings.TrimRight(text, "/"), nil
}

// choiceValue is one of a closed set.
type choiceValue[T ~string] struct {
	p       *T
	options []T
}

func choice[T ~string](p *T, options ...T) value { return &choiceValue[T]{p, options} }

func (v *choiceValue[T]) set(text, _ string) error {
	for _, option := range v.options {
		if text == string(option) {
			*v.p = option
			return nil
		}
	}
	return fmt.Errorf("%q is not possible: write %s", text, joinWords(v.options, " or "))
}
func (v *choiceValue[T]) text() string { return string(*v.p) }
func (v *choiceValue[T]) kind() string { return joinWords(v.options, " or ") }

// joinWords lists words with commas and a last separator.
func joinWords[T ~string](words []T, last string) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + last + texts[len(texts)-1]
}

type boolValue struct{ p *bool }

func (v *boolValue) set(text, _ string) error {
	switch text {
	case "true":
		*v.p = true
	case "false":
		*v.p = false
	default:
		return fmt.Errorf("%q is not possible: write true or false", text)
	}
	return nil
}
func (v *boolValue) text() string { return strconv.FormatBool(*v.p) }
func (v *boolValue) kind() string { return "true or false" }

type countValue struct {
	p        *int
	min, max int
}

func count(p *int, least, most int) value { return &countValue{p, least, most} }

func (v *countValue) set(text, _ string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is not a whole number: write one from %d to %d", text, v.min, v.max)
	}
	if n < v.min || n > v.max {
		return fmt.Errorf("%d is out of range: write a number from %d to %d", n, v.min, v.max)
	}
	*v.p = n
	return nil
}
func (v *countValue) text() string { return strconv.Itoa(*v.p) }
func (v *countValue) kind() string { return fmt.Sprintf("number, %d to %d", v.min, v.max) }

type ratioValue struct{ p *float64 }

func (v *ratioValue) set(text, _ string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= 1) { // written so that NaN fails
		return fmt.Errorf("%q is not a share: write a number from 0 to 1, as in 0.1", text)
	}
	*v.p = f
	return nil
}
func (v *ratioValue) text() string { return strconv.FormatFloat(*v.p, 'g', -1, 64) }
func (v *ratioValue) kind() string { return "share, 0 to 1" }

type durationValue struct {
	p        *time.Duration
	min, max time.Duration
}

func duration(p *time.Duration, least, most time.Duration) value {
	return &durationValue{p, least, most}
}

func (v *durationValue) set(text, _ string) error {
	d, err := parseDuration(text)
	if err != nil {
		return err
	}
	if d < v.min || d > v.max {
		return fmt.Errorf("%s is out of range: write a duration from %s to %s", text, formatDuration(v.min), formatDuration(v.max))
	}
	*v.p = d
	return nil
}
func (v *durationValue) text() string { return formatDuration(*v.p) }
func (v *durationValue) kind() string {
	return fmt.Sprintf("duration, %s to %s", formatDuration(v.min), formatDuration(v.max))
}

type sizeValue struct {
	p        *ByteSize
	min, max ByteSize
}

func size(p *ByteSize, least, most ByteSize) value { return &sizeValue{p, least, most} }

func (v *sizeValue) set(text, _ string) error {
	n, err := ParseByteSize(text)
	if err != nil {
		return err
	}
	if n < v.min || n > v.max {
		return fmt.Errorf("%s is out of range: write a size from %s to %s", text, v.min, v.max)
	}
	*v.p = n
	return nil
}
func (v *sizeValue) text() string { return v.p.String() }
func (v *sizeValue) kind() string { return fmt.Sprintf("size, %s to %s", v.min, v.max) }

// stringsValue is a list whose elements are checked, and rewritten, one by one.
type stringsValue[T ~string] struct {
	p     *[]T
	name  string
	check func(element string) (string, error)
}

func list[T ~string](p *[]T, name string, check func(string) (string, error)) value {
	return &stringsValue[T]{p, name, check}
}

func (v *stringsValue[T]) set(text, _ string) error { return v.setList(splitList(text)) }
func (v *stringsValue[T]) setList(elements []string) error {
	checked := make([]T, 0, len(elements))
	for _, element := range elements {
		c, err := v.check(element)
		if err != nil {
			return err
		}
		checked = append(checked, T(c))
	}
	*v.p = checked
	return nil
}
func (v *stringsValue[T]) elements() []string {
	texts := make([]string, len(*v.p))
	for i, element := range *v.p {
		texts[i] = string(element)
	}
	return texts
}
func (v *stringsValue[T]) text() string { return strings.Join(v.elements(), ",") }
func (v *stringsValue[T]) kind() string { return "list of " + v.name + "s" }

func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	elements := strings.Split(text, ",")
	for i := range elements {
		elements[i] = strings.TrimSpace(elements[i])
	}
	return elements
}

func checkOrigin(element string) (string, error) {
	if element == "*" {
		return "", fmt.Errorf("%q would open the edge to every web page: list the origins one by one", element)
	}
	u, err := url.Parse(element)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("%q is not an origin: write scheme and host without a path, as in https://console.example.org", element)
	}
	return strings.ToLower(element), nil
}

// checkTrustDomain accepts the name of a SPIFFE trust domain, with or without
// its scheme.
func checkTrustDomain(element string) (string, error) {
	name := strings.TrimPrefix(element, "spiffe://")
	if name == "" || len(name) > 255 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return "", fmt.Errorf("%q is no trust domain: write it as finance.example, in lower case and without a path", element)
	}
	return name, nil
}

func checkAgentName(element string) (string, error) {
	return element, parley.CheckName("agent", element)
}

// prefixesValue is a list of address ranges.
type prefixesValue struct {
	p      *[]netip.Prefix
	narrow bool // refuse ranges so wide that they would switch the guard off
}

func prefixes(p *[]netip.Prefix, narrow bool) value { return &prefixesValue{p, narrow} }

func (v *prefixesValue) set(text, _ string) error { return v.setList(splitList(text)) }
func (v *prefixesValue) setList(elements []string) error {
	parsed := make([]netip.Prefix, 0, len(elements))
	for _, element := range elements {
		prefix, err := parsePrefix(element)
		if err != nil {
			return err
		}
		if v.narrow {
			if err := checkNarrow(prefix); err != nil {
				return err
			}
		}
		parsed = append(parsed, prefix)
	}
	*v.p = parsed
	return nil
}
func (v *prefixesValue) elements() []string {
	texts := make([]string, len(*v.p))
	for i, prefix := range *v.p {
		texts[i] = prefix.String()
	}
	return texts
}
func (v *prefixesValue) text() string { return strings.Join(v.elements(), ",") }
func (v *prefixesValue) kind() string { return "list of CIDR ranges" }

func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		address, addrErr := netip.ParseAddr(text)
		if addrErr != nil || address.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is not an address range: write it as CIDR, as in 10.20.0.0/16 or fd00::/8", text)
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 range in IPv6 clothes: write the IPv4 range", text)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits outside its mask: write %s", text, prefix.Masked())
	}
	return prefix, nil
}

// Widest ranges network.allow takes: the widest private ones that exist,
// 10.0.0.0/8 and fc00::/7. Public addresses need no entry.
const (
	widestIPv4 = 8
	widestIPv6 = 7
)

func checkNarrow(prefix netip.Prefix) error {
	widest := widestIPv6
	if prefix.Addr().Is4() {
		widest = widestIPv4
	}
	if prefix.Bits() < widest {
		return fmt.Errorf("%q would switch the address check off: list the private ranges you use, none wider than /%d; public addresses need no entry", prefix, widest)
	}
	return nil
}

// secretValue is a Secret given by reference.
type secretValue struct{ p *Secret }

func (v *secretValue) set(string, string) error {
	panic("config: a secret is read by setFrom")
}

func (v *secretValue) setFrom(text, base string, getenv func(string) (string, bool)) error {
	secret, err := resolveSecret(text, base, getenv)
	if err == nil {
		*v.p = secret
	}
	return err
}

// text prints nothing of an unset secret, so that the effective print-out,
// which is for the operator alone, shows which ones are set.
func (v *secretValue) text() string {
	if !v.p.IsSet() {
		return ""
	}
	return redacted
}
func (v *secretValue) kind() string { return "secret: file:PATH or env:NAME" }
