package a2a

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// The official Go SDK writes the scopes of a security requirement as a bare list,
// {"schemes":{"oauth":["read"]}}, where A2A has {"schemes":{"oauth":{"list":["read"]}}}.

// wrapScopes rewrites bare scope lists of a card and its skills and says so. A
// card without any is returned as it is.
func (j *cardJudge) wrapScopes(raw []byte) []byte {
	raw = j.wrapRequirements(raw, "securityRequirements")
	list, ok := jsonwire.Get(raw, "/skills")
	if !ok || list[0] != '[' {
		return raw
	}
	skills, changed := jsonwire.Elements(list), false
	for i, skill := range skills {
		if skill[0] != '{' {
			continue
		}
		mended := jsontext.Value(j.wrapRequirements(skill, fmt.Sprintf("skills[%d].securityRequirements", i)))
		changed = changed || len(mended) != len(skill)
		skills[i] = mended
	}
	if !changed {
		return raw
	}
	return setList(raw, "/skills", skills)
}

// wrapRequirements mends the member securityRequirements of an object; path names
// it in what is said.
func (j *cardJudge) wrapRequirements(object []byte, path string) []byte {
	list, ok := jsonwire.Get(object, "/securityRequirements")
	if !ok || list[0] != '[' {
		return object
	}
	entries, changed := jsonwire.Elements(list), false
	for i, entry := range entries {
		schemes, ok := jsonwire.Get(entry, "/schemes")
		if !ok || schemes[0] != '{' {
			continue
		}
		for _, m := range jsonwire.Members(schemes) {
			if m.Value[0] != '[' {
				continue
			}
			wrapped := append(append(jsontext.Value(`{"list":`), m.Value...), '}')
			mended, err := jsonwire.Set(entries[i], "/schemes/"+jsonwire.EscapePointer(m.Name), wrapped)
			if err != nil {
				continue
			}
			entries[i], changed = mended, true
			j.warn(fmt.Sprintf("%s[%d].schemes.%s", path, i, clip(m.Name)), "is a bare list, as the official Go SDK writes it; it is read as if it were A2A", `serve {"list":[…]}`)
		}
	}
	if !changed {
		return object
	}
	return setList(object, "/securityRequirements", entries)
}

// setList replaces a list that is there.
func setList(object []byte, path string, elements []jsontext.Value) []byte {
	list, err := jsonwire.Marshal(elements)
	if err != nil {
		return object
	}
	mended, err := jsonwire.Set(object, path, list)
	if err != nil {
		return object
	}
	return mended
}
