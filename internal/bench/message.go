package bench

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// payloadBytes is the size of every request body: an A2A message of about one
// kilobyte, the size with which earlier figures of Go proxies were taken.
const payloadBytes = 1060

const (
	idPlaceholder     = "################"                // 16 characters, a counter in hexadecimal
	prefixPlaceholder = "@@@@@@@@@@@@@@@@"                // 16 characters, random for each load generator
	idLen             = len(idPlaceholder)                // both counters have this width
	messageIDPattern  = prefixPlaceholder + idPlaceholder // unique over all runs: a mesh may refuse a repeated message id
	sampleText        = "Please assess the attached order and say what is missing before it can be shipped. "
	bodyPattern       = `{"jsonrpc":"2.0","id":"` + idPlaceholder + `","method":"%s","params":{"message":{"messageId":"` +
		messageIDPattern + `","role":"ROLE_USER","parts":[{"text":"%s"},{"data":{"order":4711,"lines":[{"sku":"A-100","count":3},` +
		`{"sku":"B-220","count":1}],"express":true},"mediaType":"application/json"}]},` +
		`"configuration":{"acceptedOutputModes":["text/plain"]}}}`
)

// oldPattern is the same message in the form of A2A 0.3.
const oldPattern = `{"jsonrpc":"2.0","id":"` + idPlaceholder + `","method":"%s","params":{"message":{"kind":"message","messageId":"` +
	messageIDPattern + `","role":"user","parts":[{"kind":"text","text":"%s"},{"kind":"data","data":{"order":4711,"lines":[{"sku":"A-100","count":3},` +
	`{"sku":"B-220","count":1}],"express":true}}]},"configuration":{"acceptedOutputModes":["text/plain"],"blocking":true}}}`

// subscribePattern asks for the events of a task; %[2]s is its id.
const subscribePattern = `{"jsonrpc":"2.0","id":"` + idPlaceholder + `","method":"%[1]s","params":{"id":"%[2]s"}}`

// request is one prepared HTTP request whose ids can be exchanged in place, so
// that sending costs no formatting. It belongs to one connection.
type request struct {
	wire      []byte
	id        []byte // the JSON-RPC id with its quotes, a part of wire
	messageID []byte // the counter half of the message id, a part of wire; none where no message is sent
}

// newRequest prepares a POST of an A2A message to path on host. The lines of the
// spec's header are sent as they are, each "Name: value".
func newRequest(host, path string, spec Spec) (*request, error) {
	method, accept, version, pattern := "SendMessage", "application/json", "1.0", bodyPattern
	switch {
	case spec.Old:
		method, version, pattern = "message/send", "0.3", oldPattern
	case spec.Task != "":
		method, accept = "SubscribeToTask", "text/event-stream"
	case spec.Stream:
		method, accept = "SendStreamingMessage", "text/event-stream"
	}
	body := fmt.Appendf(nil, subscribePattern, method, spec.Task)
	if spec.Task == "" {
		var err error
		if body, err = requestBody(pattern, method); err != nil {
			return nil, err
		}
	}
	var wire bytes.Buffer
	fmt.Fprintf(&wire, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: %s\r\nA2A-Version: %s\r\n", path, host, accept, version)
	for _, line := range spec.Header {
		if strings.ContainsAny(line, "\r\n") || !strings.Contains(line, ":") {
			return nil, fmt.Errorf("header line %d: want \"Name: value\" on one line", len(line))
		}
		wire.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&wire, "Content-Length: %d\r\n\r\n", len(body))
	bodyAt := wire.Len()
	wire.Write(body)

	r := &request{wire: wire.Bytes()}
	idAt := bodyAt + bytes.Index(body, []byte(idPlaceholder))
	r.id = r.wire[idAt-1 : idAt+idLen+1]
	if at := bytes.Index(body, []byte(messageIDPattern)); at >= 0 {
		messageID := r.wire[bodyAt+at:][:2*idLen]
		copy(messageID, newPrefix())
		r.messageID = messageID[idLen:]
	}
	r.number(0)
	return r, nil
}

// requestBody returns a body of exactly payloadBytes with its placeholders.
func requestBody(pattern, method string) ([]byte, error) {
	room := payloadBytes - len(fmt.Sprintf(pattern, method, ""))
	if room < 0 {
		return nil, fmt.Errorf("body of %s: pattern is longer than %d bytes", method, payloadBytes)
	}
	return fmt.Appendf(nil, pattern, method, filler(room)), nil
}

// number gives the request the ids of its n-th sending.
func (r *request) number(n uint64) {
	putHex(r.id[1:1+idLen], n)
	putHex(r.messageID, n)
}

// putHex writes n into dst in hexadecimal, right-aligned, zeros in front.
func putHex(dst []byte, n uint64) {
	const digits = "0123456789abcdef"
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = digits[n&15]
		n >>= 4
	}
}

// appendHex appends n as 16 hexadecimal digits.
func appendHex(dst []byte, n uint64) []byte {
	at := len(dst)
	dst = append(dst, idPlaceholder...)
	putHex(dst[at:], n)
	return dst
}

// newPrefix returns 16 random hexadecimal digits.
func newPrefix() string {
	var raw [idLen / 2]byte
	rand.Read(raw[:]) // never fails since Go 1.24: it ends the process instead
	return hex.EncodeToString(raw[:])
}

// filler returns n bytes of prose that needs no escaping in JSON.
func filler(n int) string {
	return strings.Repeat(sampleText, n/len(sampleText)+1)[:n]
}

// quoted returns s as a JSON string; s is one of our own ASCII texts.
func quoted(s string) string { return strconv.Quote(s) }
