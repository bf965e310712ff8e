package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// errPageToken says that a page token was not made by this mesh for this
// caller and these filters.
var errPageToken = errors.New("page token is not valid for this caller and these filters: start again without one")

const tokenMAC = 16 // bytes of HMAC-SHA256 kept: 128 bits

// pageToken makes the cursor behind a page's last task. It is bound to the
// filter, so that a token of another caller or query is refused.
func pageToken(key []byte, f call.TaskFilter, last *call.Task) string {
	body := binary.BigEndian.AppendUint64(nil, uint64(last.StatusAt.UnixMicro()))
	body = append(body, last.ID...)
	return base64.RawURLEncoding.EncodeToString(append(tokenSum(key, f, body), body...))
}

// openPageToken sets the filter's cursor from a token.
func openPageToken(key []byte, f *call.TaskFilter, token string) error {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < tokenMAC+8 {
		return errPageToken
	}
	sum, body := raw[:tokenMAC], raw[tokenMAC:]
	if !hmac.Equal(sum, tokenSum(key, *f, body)) {
		return errPageToken
	}
	f.AfterStatusAt = time.UnixMicro(int64(binary.BigEndian.Uint64(body))).UTC()
	f.AfterID = string(body[8:])
	return nil
}

// tokenSum authenticates a cursor together with the filter it belongs to. Each
// part is preceded by its length, so that no two filters read alike.
func tokenSum(key []byte, f call.TaskFilter, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	after := ""
	if !f.StatusAfter.IsZero() {
		after = f.StatusAfter.UTC().Format(time.RFC3339Nano)
	}
	for _, part := range []string{string(f.Principal), string(f.Agent), f.ContextID, f.State, after} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write([]byte(part))
	}
	mac.Write(body)
	return mac.Sum(nil)[:tokenMAC]
}

// configToken makes the cursor behind a page's last push notification config. It
// is bound to the caller and the task.
func configToken(key []byte, caller parley.PrincipalName, task call.TaskKey, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(configTokenSum(key, caller, task, last), last...))
}

// openConfigToken gives the id behind which a page begins.
func openConfigToken(key []byte, caller parley.PrincipalName, task call.TaskKey, token string) (after string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= tokenMAC || !hmac.Equal(raw[:tokenMAC], configTokenSum(key, caller, task, string(raw[tokenMAC:]))) {
		return "", errPageToken
	}
	return string(raw[tokenMAC:]), nil
}

func configTokenSum(key []byte, caller parley.PrincipalName, task call.TaskKey, last string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"push notification configs", string(caller), string(task.Agent), task.Instance, task.ID, last} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)[:tokenMAC]
}
