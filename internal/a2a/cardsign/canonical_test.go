package cardsign

import (
	"strings"
	"testing"
)

// fragment is the worked example of section 8.4.1.
const fragment = `{"name":"Example Agent","description":"","capabilities":{"streaming":false,"pushNotifications":false,"extensions":[]},"skills":[]}`

// schemeless are the forms without schemes of the cards below that have some.
var schemeless = map[string]string{
	"a scheme that says nothing else is still one": `{"name":"A","securityRequirements":[{"schemes":{"o":{"list":["a"]}}}]}`,
	"the JavaScript SDK's own form of a scheme":    `{"name":"A"}`,
}

func TestCanonicalForms(t *testing.T) {
	for _, test := range []struct {
		name, card                string
		presence, stripped, model string // empty: as the one before
	}{
		{
			"the example of the specification", fragment,
			`{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent","skills":[]}`,
			`{"capabilities":{"pushNotifications":false,"streaming":false},"name":"Example Agent"}`, "",
		},
		{
			"signatures are not signed", `{"signatures":[{"protected":"a","signature":"b"}],"name":"A"}`,
			`{"name":"A"}`, "", "",
		},
		{
			"what is not known stays, but where the card is written anew", `{"name":"A","url":"https://a.example/","x":{"y":""},"provider":{"url":"u","z":1}}`,
			`{"name":"A","provider":{"url":"u","z":1},"url":"https://a.example/","x":{"y":""}}`,
			`{"name":"A","provider":{"url":"u","z":1},"url":"https://a.example/"}`,
			`{"name":"A","provider":{"url":"u"}}`,
		},
		{
			"fields at their default go, at any depth", `{"name":"A","iconUrl":null,"securitySchemes":{},"skills":[{"id":"s","name":"","examples":[],"inputModes":["t"]}],` +
				`"supportedInterfaces":[{"url":"u","tenant":"","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` +
				`"capabilities":{"extensions":[{"uri":"e","required":false,"description":""},{"uri":"f","required":true}]}}`,
			`{"capabilities":{"extensions":[{"uri":"e"},{"required":true,"uri":"f"}]},"name":"A",` +
				`"skills":[{"id":"s","inputModes":["t"],"name":""}],"supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"u"}]}`,
			`{"capabilities":{"extensions":[{"uri":"e"},{"required":true,"uri":"f"}]},"name":"A",` +
				`"skills":[{"id":"s","inputModes":["t"]}],"supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"u"}]}`, "",
		},
		{
			"optional fields that were written stay", `{"name":"A","documentationUrl":"","iconUrl":"","capabilities":{"extendedAgentCard":false}}`,
			`{"capabilities":{"extendedAgentCard":false},"documentationUrl":"","iconUrl":"","name":"A"}`,
			`{"capabilities":{"extendedAgentCard":false},"name":"A"}`, "",
		},
		{
			"data of extensions is data", `{"name":"A","capabilities":{"extensions":[{"uri":"e","params":{"a":"","b":[],"c":null,"d":0,"e":false,"f":{"url":""}}},{"uri":"f","params":{}}]}}`,
			`{"capabilities":{"extensions":[{"params":{"a":"","b":[],"c":null,"d":0,"e":false,"f":{"url":""}},"uri":"e"},{"params":{},"uri":"f"}]},"name":"A"}`,
			`{"capabilities":{"extensions":[{"params":{"d":0,"e":false},"uri":"e"},{"uri":"f"}]},"name":"A"}`, "",
		},
		{
			"a scheme that says nothing else is still one", `{"name":"A","securitySchemes":{"m":{"mtlsSecurityScheme":{}},"o":{"oauth2SecurityScheme":{"description":"","flows":{"clientCredentials":{"tokenUrl":"t","refreshUrl":"","scopes":{}}}}}},` +
				`"securityRequirements":[{"schemes":{"m":{"list":[]},"o":{"list":["a"]}}}]}`,
			`{"name":"A","securityRequirements":[{"schemes":{"m":{},"o":{"list":["a"]}}}],` +
				`"securitySchemes":{"m":{"mtlsSecurityScheme":{}},"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"scopes":{},"tokenUrl":"t"}}}}}}`,
			`{"name":"A","securityRequirements":[{"schemes":{"o":{"list":["a"]}}}],` +
				`"securitySchemes":{"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"t"}}}}}}`, "",
		},
		{
			"a deprecated flow needs no scopes", `{"name":"A","securitySchemes":{"o":{"oauth2SecurityScheme":{"flows":{"implicit":{"authorizationUrl":"","scopes":{}}}}}}}`,
			`{"name":"A","securitySchemes":{"o":{"oauth2SecurityScheme":{"flows":{"implicit":{}}}}}}`,
			`{"name":"A"}`, "",
		},
		{
			"the JavaScript SDK's own form of a scheme", `{"name":"A","securitySchemes":{"b":{"scheme":{"$case":"httpAuthSecurityScheme","value":{"description":"","scheme":"Bearer","bearerFormat":""}}}}}`,
			`{"name":"A","securitySchemes":{"b":{"scheme":{"$case":"httpAuthSecurityScheme","value":{"bearerFormat":"","description":"","scheme":"Bearer"}}}}}`,
			`{"name":"A","securitySchemes":{"b":{"scheme":{"$case":"httpAuthSecurityScheme","value":{"scheme":"Bearer"}}}}}`,
			`{"name":"A","securitySchemes":{"b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}}}`,
		},
		// What follows is published with RFC 8785: the samples of sections 3.2.2
		// and 3.2.3, and a row of each kind from its appendix B.
		{
			"the sample of RFC 8785, section 3.2.2", `{"name":"A","x":{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}}`,
			`{"name":"A","x":{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}}`,
			`{"name":"A","x":{"literals":[true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}}`,
			`{"name":"A"}`,
		},
		{
			"the sample of RFC 8785, section 3.2.3", `{"name":"A","x":{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}}`,
			`{"name":"A","x":{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}}`, "", `{"name":"A"}`,
		},
		{
			"numbers of RFC 8785, appendix B", `{"name":"A","x":[0,-0.0,5e-324,-5e-324,1.7976931348623157e308,9007199254740992,-9007199254740992,295147905179352830000,9.999999999999997e22,1e23,1.0000000000000001e23,999999999999999700000,999999999999999900000,1e21,9.999999999999997e-7,0.000001,333333333.3333332,333333333.33333325,-0.0000033333333333333333,1424953923781206.2]}`,
			`{"name":"A","x":[0,0,5e-324,-5e-324,1.7976931348623157e+308,9007199254740992,-9007199254740992,295147905179352830000,9.999999999999997e+22,1e+23,1.0000000000000001e+23,999999999999999700000,999999999999999900000,1e+21,9.999999999999997e-7,0.000001,333333333.3333332,333333333.33333325,-0.0000033333333333333333,1424953923781206.2]}`, "", `{"name":"A"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := map[Form]string{Presence: test.presence, Stripped: test.stripped, Model: test.model}
			if want[Stripped] == "" {
				want[Stripped] = want[Presence]
			}
			if want[Model] == "" {
				want[Model] = want[Stripped]
			}
			want[Schemeless] = want[Model]
			if without, ok := schemeless[test.name]; ok {
				want[Schemeless] = without
			}
			for _, form := range Forms {
				got, err := Canonical([]byte(test.card), form)
				if err != nil || string(got) != want[form] {
					t.Errorf("%s: %v\ngot  %s\nwant %s", form, err, got, want[form])
				}
			}
		})
	}
}

func TestNoCanonicalForm(t *testing.T) {
	for name, card := range map[string]string{
		"no JSON":                         `{`,
		"no object":                       `[]`,
		"nothing":                         ` `,
		"a name twice":                    `{"name":"A","name":"B"}`,
		"a name twice, spelt in two ways": `{"name":"A","x":{"a":1,"\u0061":2}}`,
		"a number beyond all":             `{"name":"A","capabilities":{"extensions":[{"params":{"x":1e400}}]}}`,
		"broken UTF-8":                    "{\"name\":\"\xff\"}",
		"half a surrogate pair":           `{"name":"\ud800"}`,
		"too deep":                        `{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	} {
		for _, form := range Forms {
			if got, err := Canonical([]byte(card), form); err == nil {
				t.Errorf("%s has the form %s: %s", name, form, got)
			}
		}
	}
}

// What is canonical stays as it is.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(fragment))
	f.Add([]byte(`{"name":"A","securitySchemes":{"m":{"mtlsSecurityScheme":{}}},"x":[1.0,{"a":null}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, form := range Forms {
			once, err := Canonical(raw, form)
			if err != nil {
				return
			}
			twice, err := Canonical(once, form)
			if err != nil || string(once) != string(twice) {
				t.Errorf("%s: %q becomes %q, %v", form, once, twice, err)
			}
		}
	})
}
