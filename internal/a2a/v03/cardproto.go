package v03

import (
	"github.com/go-json-experiment/json/jsontext"
)

// ProtoCard gives a card the ProtoJSON form of 0.3, which its gRPC carries. It has the
// members of v1.0 for what stands in security schemes and requirements, and those of
// 0.3 for the rest; members of neither may stand beside them. raw is a card as
// UnionCard writes it, or any other that ReadCard reads.
func ProtoCard(raw []byte) ([]byte, error) {
	read, err := ReadCard(raw)
	if err != nil {
		return nil, err
	}
	card := fieldsOf(read.V1)
	if interfaces := interfacesFromV1(card); len(interfaces) > 0 {
		card = oldMembers(card, interfaces)
	}
	card = protoSecurity(card)
	if skills, ok := changed(card.get("skills"), func(skill jsontext.Value) (jsontext.Value, bool) {
		return protoSecurity(fieldsOf(skill)).json(), true
	}); ok {
		card = card.set("skills", skills)
	}
	return card.json(), nil
}

// protoSecurity writes the requirements of a card or skill in the form of ProtoJSON,
// which v1.0 has kept.
func protoSecurity(object cardFields) cardFields {
	return object.without("security").fill("security", object.get("securityRequirements"))
}
