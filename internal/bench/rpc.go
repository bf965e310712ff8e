package bench

import (
	"bytes"
	"errors"
	"fmt"
)

var errJSON = errors.New("not a JSON object")

// members calls visit with the name and the value of every top-level member of
// the JSON object doc, both as they stand in doc, the name without its quotes.
// It finds the borders of values and does not validate what is inside them:
// enough to tell a result from an error at a nanosecond per byte.
func members(doc []byte, visit func(name, value []byte)) error {
	i := skipSpace(doc, 0)
	if i == len(doc) || doc[i] != '{' {
		return errJSON
	}
	i = skipSpace(doc, i+1)
	if i < len(doc) && doc[i] == '}' {
		return atEnd(doc, i+1)
	}
	for {
		nameEnd, ok := skipString(doc, i)
		if !ok {
			return errJSON
		}
		name := doc[i+1 : nameEnd-1]
		i = skipSpace(doc, nameEnd)
		if i == len(doc) || doc[i] != ':' {
			return errJSON
		}
		i = skipSpace(doc, i+1)
		valueEnd, ok := skipValue(doc, i)
		if !ok {
			return errJSON
		}
		visit(name, doc[i:valueEnd])
		i = skipSpace(doc, valueEnd)
		if i == len(doc) {
			return errJSON
		}
		switch doc[i] {
		case '}':
			return atEnd(doc, i+1)
		case ',':
			i = skipSpace(doc, i+1)
		default:
			return errJSON
		}
	}
}

// atEnd reports an error when anything but white space follows at i.
func atEnd(doc []byte, i int) error {
	if skipSpace(doc, i) != len(doc) {
		return errJSON
	}
	return nil
}

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\n' || doc[i] == '\r' || doc[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(doc []byte, i int) (end int, ok bool) {
	if i >= len(doc) || doc[i] != '"' {
		return 0, false
	}
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			return i + 1, true
		case '\\':
			i++
		}
	}
	return 0, false
}

// skipValue returns the index behind the value that begins at i.
func skipValue(doc []byte, i int) (end int, ok bool) {
	if i >= len(doc) {
		return 0, false
	}
	switch doc[i] {
	case '"':
		return skipString(doc, i)
	case '{', '[':
		return skipNested(doc, i)
	}
	start := i
	for i < len(doc) && !bytes.ContainsRune([]byte(",}] \t\r\n"), rune(doc[i])) {
		i++
	}
	return i, i > start
}

// skipNested returns the index behind the object or array that begins at i.
func skipNested(doc []byte, i int) (end int, ok bool) {
	depth := 0
	for i < len(doc) {
		switch doc[i] {
		case '"':
			if i, ok = skipString(doc, i); !ok {
				return 0, false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1, true
			}
		}
		i++
	}
	return 0, false
}

// checkReply returns an error unless body is the JSON-RPC result that answers
// the request with this id (its JSON text, quotes included).
func checkReply(body, id []byte) error {
	var gotID, result, fault []byte
	err := members(body, func(name, value []byte) {
		switch string(name) {
		case "id":
			gotID = value
		case "result":
			result = value
		case "error":
			fault = value
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("reply %.200q: %w", body, err)
	case fault != nil:
		return fmt.Errorf("JSON-RPC error %.400s", fault)
	case len(result) < 2 || result[0] != '{':
		return fmt.Errorf("reply %.200q: no result object", body)
	case !bytes.Equal(gotID, id):
		return fmt.Errorf("reply is for id %.40s, request had %s", gotID, id)
	}
	return nil
}
