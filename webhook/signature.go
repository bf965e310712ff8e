package webhook

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxID         = 256 // bytes of a webhook-id
	maxSignatures = 16  // in one webhook-signature
	// timestampTolerance is how old an attempt may be, as Standard Webhooks says.
	timestampTolerance = 5 * time.Minute
)

// checkSignature checks the Standard Webhooks signature by the mesh's key (v1a)
// and gives the event's id, which nothing else proves.
func (v *Verifier) checkSignature(ctx context.Context, header http.Header, body []byte) (id string, err error) {
	id, stamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	if id == "" || len(id) > maxID || strings.Contains(id, ".") {
		return "", refused("it has no usable %s", HeaderID)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != stamp {
		return "", refused("its %s is no number of seconds", HeaderTimestamp)
	}
	if age := v.config.Now().Sub(time.Unix(seconds, 0)); age > timestampTolerance || age < -timestampTolerance {
		return "", refused("its %s is more than %s away: compare the clocks", HeaderTimestamp, timestampTolerance)
	}
	if found := signaturesOf(header.Get(HeaderSignature)); len(found) > 0 {
		ok, err := v.keys.signed(ctx, append([]byte(id+"."+stamp+"."), body...), found)
		if err != nil {
			return "", err
		}
		if ok {
			return id, nil
		}
	}
	return "", refused("its %s holds no v1a signature of the mesh", HeaderSignature)
}

// signaturesOf are the Ed25519 signatures in a header, of which there may be
// several while keys are replaced.
func signaturesOf(header string) (found [][]byte) {
	for field := range strings.FieldsSeq(header) {
		version, encoded, ok := strings.Cut(field, ",")
		if !ok || version != "v1a" {
			continue
		}
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(signature) != ed25519.SignatureSize {
			continue
		}
		if found = append(found, signature); len(found) == maxSignatures {
			break
		}
	}
	return found
}
