package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-mesh/parley/internal/nearest"
	"github.com/parley-mesh/parley/internal/parley"
)

// schema is a JSON Schema (2020-12), as far as documents need it.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Const       string             `json:"const,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	MaxLength   int                `json:"maxLength,omitempty"`
	MaxItems    int                `json:"maxItems,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	MinMembers  int                `json:"minProperties,omitempty"`
	MaxMembers  int                `json:"maxProperties,omitempty"`
	Closed      *bool              `json:"additionalProperties,omitempty"`
}

// Patterns of the formats that the tags name.
const (
	namePattern     = "^[a-z][a-z0-9-]*$"
	durationPattern = "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)$"
)

var titles = map[Kind]string{
	KindOwner:      "A team that answers for agents and callers.",
	KindPrincipal:  "Somebody who calls: a person, a service or an agent.",
	KindAgent:      "An agent that the mesh calls for others, and who may call it.",
	KindCredential: "What the mesh shows the agent of the same name. The secret is referred to, never written.",
	KindLimits:     "Limits of the running mesh that differ from its configuration. There is one such document, named default.",
}

// ParseKind reads a kind's name, in any case.
func ParseKind(name string) (Kind, error) {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		if names[i] = string(k); strings.EqualFold(names[i], name) {
			return k, nil
		}
	}
	fix := "use one of " + strings.Join(names, ", ")
	if near := nearest.Of(name, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	return "", fmt.Errorf("there is no kind %.64q: %s", name, fix)
}

// Schema is the JSON Schema of the documents of a kind, indented, with a line
// end behind it.
func Schema(k Kind) []byte {
	metadata := closed(map[string]*schema{"name": {
		Type: "string", Pattern: namePattern, MaxLength: parley.MaxNameLength, Description: "Its name in the mesh.",
	}}, "name")
	if k == KindLimits {
		metadata.Properties["name"] = &schema{Const: LimitsName}
	}
	spec := structSchema(reflect.TypeOf(new(Document).specOf(k)).Elem())
	root := closed(map[string]*schema{
		"apiVersion": {Const: APIVersion}, "kind": {Const: string(k)}, "metadata": metadata, "spec": spec,
	}, "apiVersion", "kind", "metadata")
	if len(spec.Required) > 0 {
		root.Required = append(root.Required, "spec")
	}
	root.Schema, root.Title, root.Description = "https://json-schema.org/draft/2020-12/schema", string(k), titles[k]
	raw, err := json.MarshalIndent(root, "", "  ")
	if err != nil { // texts and numbers always encode
		panic(err)
	}
	return append(raw, '\n')
}

func closed(properties map[string]*schema, required ...string) *schema {
	return &schema{Type: "object", Properties: properties, Required: required, Closed: new(bool)}
}

func structSchema(t reflect.Type) *schema {
	s := closed(map[string]*schema{})
	for f := range t.Fields() {
		s.Properties[jsonName(f)] = fieldSchema(f)
		if f.Tag.Get("required") == "true" {
			s.Required = append(s.Required, jsonName(f))
		}
	}
	if t == reflect.TypeFor[SecretRef]() {
		s.MinMembers, s.MaxMembers = 1, 1
	}
	return s
}

func fieldSchema(f reflect.StructField) *schema {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var s *schema
	switch t.Kind() {
	case reflect.Struct:
		s = structSchema(t)
	case reflect.Int64:
		s = &schema{Type: "integer"}
	case reflect.Bool:
		s = &schema{Type: "boolean"}
	case reflect.Slice:
		items := textSchema
		if t.Elem().Kind() == reflect.Struct {
			items = func(reflect.StructField) *schema { return structSchema(t.Elem()) }
		}
		s = &schema{Type: "array", Items: items(f), MaxItems: tagNumber(f, "maxItems")}
	default:
		s = textSchema(f)
	}
	s.Description = f.Tag.Get("doc")
	return s
}

func textSchema(f reflect.StructField) *schema {
	s := &schema{Type: "string", MaxLength: tagNumber(f, "maxLength")}
	if allowed := f.Tag.Get("enum"); allowed != "" {
		s.Enum = slices.Clone(strings.Split(allowed, ","))
	}
	switch f.Tag.Get("format") {
	case "name":
		s.Pattern, s.MaxLength = namePattern, parley.MaxNameLength
	case "duration":
		s.Pattern = durationPattern
	}
	return s
}

func tagNumber(f reflect.StructField, key string) int {
	n, err := strconv.Atoi(f.Tag.Get(key))
	if err != nil {
		return 0
	}
	return n
}
