package a2a

import (
	"fmt"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a/v03"
)

// OldCard tells whether a card has the form of 0.3 alone. raw is any bytes.
func OldCard(raw []byte) bool {
	c, err := v03.ReadCard(raw)
	return err == nil && c.Old
}

// oldMembers are the names that the members of an interface have in cards of 0.3:
// of the card itself, and of what additionalInterfaces lists.
var oldMembers = map[string][2]string{
	"url": {"url", "url"}, "protocolBinding": {"preferredTransport", "transport"}, "protocolVersion": {"protocolVersion", ""},
}

// oldPath names a field as the card does that it was read from, where that is one
// of 0.3: what is wrong with supportedInterfaces[0].url is wrong with url.
func oldPath(path string, card v03.Card) string {
	for n, place := range card.Places {
		rest, ok := strings.CutPrefix(path, fmt.Sprintf("supportedInterfaces[%d]", n))
		if !ok {
			continue
		}
		names, known := oldMembers[strings.TrimPrefix(rest, ".")]
		switch {
		case place == "" && known:
			return names[0]
		case place == "":
			return "url"
		case known && names[1] != "":
			return place + "." + names[1]
		}
		return place
	}
	if !card.Old {
		return path
	}
	if path == "supportedInterfaces" {
		return "url"
	}
	return strings.Replace(path, "securityRequirements", "security", 1)
}
