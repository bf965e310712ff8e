package config

import (
	"fmt"
	"strings"
)

const referenceHead = `# Configuration

Generated from the table of keys; ` + "`make generate`" + ` writes it.

A value is looked for in this order, and the first one found counts: command line flag, environment variable, YAML
file (` + "`parley serve --config FILE`" + `), default. ` + "`parley config print --effective`" + ` prints every value in force and
where it was written.

The file is read strictly: an unknown key, a missing unit or a value out of range stops the start with the file, the
line and what to write instead. Dots in the names below are nesting in the file:

` + "```yaml" + `
listen: 127.0.0.1:7400
limits:
  call_deadline: 24h
  request_body: 10MiB
network:
  allow: [10.20.0.0/16]
` + "```" + `

* **Environment variables** are the key in capitals with ` + "`PARLEY_`" + ` before it and underscores for dots:
  ` + "`PARLEY_LIMITS_CALL_DEADLINE=12h`" + `. Lists are separated by commas. An empty variable counts as unset.
* **Durations** carry a unit: ms, s, m, h or d (24 hours). **Sizes** carry one too: B, KiB, MiB or GiB.
* **Lists** given by a stronger source replace those of a weaker one; they are not joined.
* **Paths** that are relative start from the file's folder, or from the working directory for flags and variables.
* **Secrets** are references: ` + "`file:PATH`" + ` or ` + "`env:NAME`" + `. They are read once, at the start, and print as ` + "`[redacted]`" + `.

| key | type and range | default | flag | meaning |
|---|---|---|---|---|
`

// Reference returns docs/config.md: every key with its type, range, default,
// flag and meaning.
func Reference() []byte {
	var out strings.Builder
	out.WriteString(referenceHead)
	for _, k := range Default().keys() {
		flag := ""
		if k.flag != "" {
			flag = "`--" + k.flag + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", k.path, k.value.kind(), shownText(k.value), flag, k.doc)
	}
	out.WriteString(issuersHead)
	issuer := defaultIssuer()
	for _, k := range issuerKeys("", &issuer) {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", k.path, k.value.kind(), shownText(k.value), k.doc)
	}
	return []byte(out.String())
}

// shownText is a default as the page shows it.
func shownText(v value) string {
	text := v.text()
	if shown, ok := v.(*shownDefault); ok {
		text = shown.shown
	}
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

const issuersHead = `
## Issuers

Each element of ` + "`auth.issuers`" + ` has these keys; ` + "`issuer`" + ` and ` + "`audience`" + ` must be there.

| key | type and range | default | meaning |
|---|---|---|---|
`
