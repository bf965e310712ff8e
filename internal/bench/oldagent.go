package bench

// oldCard is an A2A 0.3 agent card with the members this agent has.
type oldCard struct {
	ProtocolVersion    string       `json:"protocolVersion"`
	Name               string       `json:"name"`
	Description        string       `json:"description"`
	URL                string       `json:"url"`
	PreferredTransport string       `json:"preferredTransport"`
	Version            string       `json:"version"`
	Capabilities       capabilities `json:"capabilities"`
	DefaultInputModes  []string     `json:"defaultInputModes"`
	DefaultOutputModes []string     `json:"defaultOutputModes"`
	Skills             []skill      `json:"skills"`
}

// newOldCard describes the agent of 0.3 that lives at base.
func newOldCard(kind Kind, base string) oldCard {
	c := newCard(kind, base)
	return oldCard{
		ProtocolVersion: "0.3.0", Name: c.Name, Description: c.Description, URL: base, PreferredTransport: "JSONRPC",
		Version: c.Version, DefaultInputModes: c.DefaultInputModes, DefaultOutputModes: c.DefaultOutputModes, Skills: c.Skills,
	}
}

// appendOld appends the reply of an agent of 0.3. It says as much as that of 1.0.
func (a *Agent) appendOld(dst, id []byte, method string) []byte {
	switch method {
	case `"message/send"`:
	case `"tasks/get"`, `"tasks/cancel"`:
		return appendFault(dst, id, -32001, "this agent keeps no tasks", "")
	default:
		return appendFault(dst, id, -32601, "unknown method", "")
	}
	n := a.made.Add(1)
	dst = appendResult(dst, id)
	if a.kind == RepliesOldTask {
		dst = append(dst, `{"kind":"task","id":"t-`...)
		dst = a.appendID(dst, n)
		dst = append(dst, `","contextId":"c-`...)
		dst = a.appendID(dst, n)
		dst = append(dst, `","status":`...)
		dst = appendStatus(dst, "completed")
		dst = append(dst, `,"artifacts":[{"artifactId":"answer","parts":[{"kind":"text","text":`...)
		dst = append(dst, replyText...)
		return append(dst, `}]}]}}`...)
	}
	dst = append(dst, `{"kind":"message","messageId":"m-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","contextId":"c-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","role":"agent","parts":[{"kind":"text","text":`...)
	dst = append(dst, replyText...)
	return append(dst, `}]}}`...)
}
