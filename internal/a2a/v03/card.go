package v03

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Version is the protocol's version as interfaces of a v1.0 card name it, and
// CardVersion as a card of 0.3 names it.
const (
	Version     = "0.3"
	CardVersion = "0.3.0"
)

// CardMembers are the members that cards had before 1.0 and have no more.
var CardMembers = []string{"url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security", "supportsAuthenticatedExtendedCard"}

// Card is a card read as one of v1.0.
type Card struct {
	// V1 is the card in v1.0 JSON. It aliases what it was read from where nothing
	// had to be translated.
	V1 jsontext.Value
	// Old says that the card has the form of 0.3 alone.
	Old bool
	// Places tells for each entry of supportedInterfaces that was made of members
	// of 0.3 where they stand: "" for the card itself, else as
	// "additionalInterfaces[2]". Entries that the card has itself are not in it.
	Places map[int]string
}

// CardToV1 reads a card of 0.3, of v1.0 or of both as one of v1.0; see ReadCard.
func CardToV1(raw []byte) ([]byte, error) {
	c, err := ReadCard(raw)
	return c.V1, err
}

// ReadCard reads a card of 0.3, of v1.0 or of both (A2A 0.3, section 5.5; v1.0,
// section 4.4). raw must be valid JSON. Members of 0.3 count where those of v1.0 that
// stand for them are missing. Interfaces of 0.3 that a card of both names only in the
// old way are put behind the others. Both JSON forms of 0.3 are read, also where they
// are mixed. What has the wrong type is left for the check of the card that comes
// out of it; the error is for what is no object at all.
//
// A scheme of OAuth 2 with several flows becomes as many schemes, of which the first
// keeps the name and the others are called NAME-FLOW; a requirement of it is met by
// any of them.
func ReadCard(raw []byte) (Card, error) {
	card := fieldsOf(raw)
	if card == nil {
		return Card{}, errNoCard
	}
	out := Card{V1: raw}
	version, says := versionOf(card)
	touched := says && before1(version)
	if interfaces, places := interfacesOf(card); places != nil {
		out.Old, out.Places = len(jsonwire.Elements(card.get("supportedInterfaces"))) == 0, places
		card, touched = card.set("supportedInterfaces", interfaces), true
	}
	if flag := card.get("supportsAuthenticatedExtendedCard"); flag != nil {
		if can := fieldsOf(card.get("capabilities")); can != nil && can.get("extendedAgentCard") == nil {
			card = card.set("capabilities", can.set("extendedAgentCard", flag).json())
		}
		touched = true
	}
	schemes, split := schemesToV1(card.get("securitySchemes"))
	if schemes != nil {
		card, touched = card.set("securitySchemes", schemes), true
	}
	if now, ok := requirementsToV1(card, split); ok {
		card, touched = now, true
	}
	skills, ok := changed(card.get("skills"), func(skill jsontext.Value) (jsontext.Value, bool) {
		now, ok := requirementsToV1(fieldsOf(skill), split)
		return now.json(), ok
	})
	if ok {
		card, touched = card.set("skills", skills), true
	}
	if touched {
		out.V1 = card.without(CardMembers...).json()
	}
	return out, nil
}

// interfacesOf gives the list of a card's interfaces with those that only its old
// members name; places is nil where there are none.
func interfacesOf(card cardFields) (list jsontext.Value, places map[int]string) {
	all := jsonwire.Elements(card.get("supportedInterfaces"))
	version, says := versionOf(card)
	if len(all) > 0 && (!says || !before1(version)) {
		return nil, nil // of v1.0, with a member or two of its own
	}
	known := map[[2]string]bool{}
	for _, i := range all {
		f := fieldsOf(i)
		known[[2]string{f.text("url"), f.text("protocolBinding")}] = before1(f.text("protocolVersion"))
	}
	add := func(url, binding jsontext.Value, place string) {
		key := [2]string{jsonwire.String(url), jsonwire.String(binding)}
		if known[key] && key[0] != "" {
			return
		}
		known[key] = true
		if places == nil {
			places = map[int]string{}
		}
		places[len(all)] = place
		all = append(all, cardFields(nil).fill("url", url).fill("protocolBinding", binding).fill("protocolVersion", jsonwire.Quote(version)).json())
	}
	if url, transport := card.get("url"), card.get("preferredTransport"); url != nil || transport != nil || says && len(all) == 0 {
		if transport == nil {
			transport = jsonwire.Quote("JSONRPC")
		}
		add(url, transport, "")
	}
	for n, i := range jsonwire.Elements(card.get("additionalInterfaces")) {
		f := fieldsOf(i)
		add(f.get("url"), f.get("transport"), "additionalInterfaces["+strconv.Itoa(n)+"]")
	}
	return listOf(all), places
}

// versionOf gives the version that a card's own member names, and whether there is
// one. Cards before 0.3, and those that say nothing, are read as of 0.3: what calls
// to such an agent have in common is as good as the same, and a probe tells.
func versionOf(card cardFields) (version string, says bool) {
	raw := card.get("protocolVersion")
	version = jsonwire.String(raw)
	if version == "" || before1(version) {
		version = Version
	}
	return version, raw != nil
}

func before1(version string) bool { return strings.HasPrefix(version, "0.") }
