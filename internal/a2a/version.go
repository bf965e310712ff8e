package a2a

import (
	"net/http"
	"strings"
)

// speaks tells whether a protocol version is spoken here, by callers and agents.
func speaks(v Version) bool { return v == V10 || v == V03 }

// askedVersion reads the header, then the query. Only major and minor count. Two
// that differ are no version.
func askedVersion(r *http.Request) (Version, *Error) {
	// Several lines are no version: others may read another one of them.
	text := strings.TrimSpace(strings.Join(r.Header[keyVersion], ", "))
	if strings.Contains(r.URL.RawQuery, HeaderVersion) {
		asked := strings.TrimSpace(r.URL.Query().Get(HeaderVersion))
		switch {
		case text == "":
			text = asked
		case asked != "" && MajorMinor(Version(asked)) != MajorMinor(Version(text)):
			return MajorMinor(Version(text)), NewError(ReasonInvalidRequest,
				"the header %s says %q and the query %q; send one of them", HeaderVersion, clip(text), clip(asked))
		}
	}
	if text == string(V10) {
		return V10, nil
	}
	v := MajorMinor(Version(text))
	if v != "" && !speaks(v) {
		return v, VersionNotSupported(v)
	}
	return v, nil
}

// MajorMinor drops a patch number.
func MajorMinor(v Version) Version {
	if parts := strings.Split(string(v), "."); len(parts) == 3 {
		return Version(parts[0] + "." + parts[1])
	}
	return v
}

// settleVersion decides which version a call speaks, and refuses one that
// contradicts itself. seen is the version that has the call's method or path, ""
// where that does not tell; what names it to the caller.
//
// A call that names no version is one of 0.3 by the specification (section 3.6.2).
// Unless StrictVersion is set, one that can be nothing but 1.0 is taken as that.
func (q *Request) settleVersion(seen Version, what string) *Error {
	switch {
	case q.Version != "" && seen != "" && seen != q.Version:
		return NewError(ReasonMethodNotFound, "%s is of A2A version %s, and the call names version %s; send the header %s: %s, or use what %s has",
			clip(what), seen, q.Version, HeaderVersion, seen, q.Version)
	case q.Version != "":
	case seen == V03:
		q.Version = V03
	case q.opt.StrictVersion, len(q.Header[keyOldExtensions]) > 0:
		q.Version = V03
		if seen == V10 {
			e := NewError(ReasonVersionNotSupported, "%s is of A2A version %s, and a call that names no version is one of %s; send the header %s: %s",
				clip(what), V10, V03, HeaderVersion, V10)
			return e.With("supportedVersions", supported)
		}
	default:
		q.Version = V10
	}
	q.old = q.Version == V03
	return nil
}

// oldPrefix is what the REST paths of 0.3 begin with. A tenant of that name reads
// the same, and must send the version header.
const oldPrefix = "/v1/"

// looksOld recognises the REST paths of 0.3.
func looksOld(path string) bool { return strings.HasPrefix(path+"/", oldPrefix) }
