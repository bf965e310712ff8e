package stream

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// IDs writes and reads the ids under which callers know events: the task's mark,
// a dash and the event's number. The mark is a keyed hash of the task, so that an
// id of another task is told from a wrong number, and says nothing else.
type IDs struct{ secret []byte }

// NewIDs makes ids under a secret of 32 bytes or more, which is the same at all
// replicas.
func NewIDs(secret []byte) IDs { return IDs{secret} }

// maxID is longer than any id.
const maxID = 64

// markSize is the length of a mark in bytes.
const markSize = 6

// mark is what all ids of a task have in common.
func (i IDs) mark(key call.TaskKey) string {
	mac := hmac.New(sha256.New, i.secret)
	for _, part := range [...]string{string(key.Agent), key.Instance, key.ID} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil)[:markSize])
}

// Prefix is what ids of the task begin with; the number follows.
func (i IDs) Prefix(key call.TaskKey) string { return i.mark(key) + "-" }

// Parse reads the id of an event of the task. Any other text is a parley.Invalid
// error, whose message says nothing of what there is.
func (i IDs) Parse(key call.TaskKey, id string) (seq int64, err error) {
	if len(id) <= maxID {
		if mark, number, ok := strings.Cut(id, "-"); ok && subtle.ConstantTimeCompare([]byte(mark), []byte(i.mark(key))) == 1 {
			if seq, err = strconv.ParseInt(number, 10, 64); err == nil && seq >= 0 && strconv.FormatInt(seq, 10) == number {
				return seq, nil
			}
		}
	}
	return 0, parley.E("stream.id", parley.Invalid, "Last-Event-ID", "is not the id of an event of this task: send the last id that its stream has shown, or leave it out", nil)
}
