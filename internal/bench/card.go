package bench

// card is an A2A v1.0 agent card with the members this agent has.
type card struct {
	Name                string          `json:"name"`
	Description         string          `json:"description"`
	SupportedInterfaces []cardInterface `json:"supportedInterfaces"`
	Version             string          `json:"version"`
	Capabilities        capabilities    `json:"capabilities"`
	DefaultInputModes   []string        `json:"defaultInputModes"`
	DefaultOutputModes  []string        `json:"defaultOutputModes"`
	Skills              []skill         `json:"skills"`
}

type cardInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

type capabilities struct {
	Streaming         bool `json:"streaming"`
	PushNotifications bool `json:"pushNotifications"`
}

type skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// newCard describes the agent that lives at base.
func newCard(kind Kind, base string) card {
	return card{
		Name:                "Benchmark agent (" + string(kind) + ")",
		Description:         "Answers every message with a fixed " + string(kind) + " of about one kilobyte.",
		SupportedInterfaces: []cardInterface{{URL: base, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}},
		Version:             "1.0.0",
		Capabilities:        capabilities{Streaming: true},
		DefaultInputModes:   []string{"text/plain", "application/json"},
		DefaultOutputModes:  []string{"text/plain"},
		Skills: []skill{{
			ID:          "answer",
			Name:        "Answer",
			Description: "Answers at once with a fixed text.",
			Tags:        []string{"benchmark"},
		}},
	}
}
