package jsonwire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A Shape is what an object may hold, compiled from a Go struct: names and types
// from the struct and its json tags, rules from its wire tags. The options of a
// wire tag, separated by commas:
//
//	required    the member must be there and not null
//	nonempty    a string, array or object must not be empty
//	id          a string that can be a key: at most MaxIDBytes, no control characters
//	min=N,max=N range of an integer, inclusive
//	object      a jsontext.Value must be an object
//	oneof       exactly one of the struct's oneof members must be there
//	fact=NAME   the member's raw value is reported to the Sink under NAME
//	quiet       nothing below this member is reported
//
// null means absent, as in ProtoJSON, except for a jsontext.Value without
// "object". Unknown members pass unless they are a known name misspelt.
type Shape struct {
	fields   []field
	byName   map[string]int
	byFold   map[string]int
	required uint64
	oneof    uint64
}

// Checker is implemented by types whose JSON form has rules of its own, such as
// an enumeration or a timestamp. It is called on the type's zero value. raw is
// one syntactically valid value, never null. An empty problem means it is good.
// lax is set where the document comes from an answering peer and may be
// forgiven what no reader can misunderstand.
type Checker interface {
	CheckWire(raw jsontext.Value, lax bool) (problem, fix string)
}

// A Sink receives members marked fact while a document is checked. raw aliases
// the document. The document may turn out to be wrong later.
type Sink interface {
	Fact(name string, raw jsontext.Value)
}

type field struct {
	name     string
	node     node
	nonempty bool
	id       bool
	quiet    bool
	ranged   bool
	min, max int64
	fact     string
}

type form uint8

const (
	formAny form = iota
	formObject
	formString
	formBool
	formInt
	formNumber
	formStruct
	formArray
	formMap
	formChecked
)

type node struct {
	form    form
	shape   *Shape
	elem    *node
	checker Checker
}

var (
	shapes      sync.Map // reflect.Type -> *Shape, complete ones only
	shapesMu    sync.Mutex
	typeValue   = reflect.TypeFor[jsontext.Value]()
	typeChecker = reflect.TypeFor[Checker]()
)

// ShapeOf returns the shape of struct type T. It panics on a type it cannot
// express: shapes are compiled from our own types, at start.
func ShapeOf[T any]() *Shape { return shapeOf(reflect.TypeFor[T]()) }

func shapeOf(t reflect.Type) *Shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*Shape)
	}
	shapesMu.Lock()
	defer shapesMu.Unlock()
	building := map[reflect.Type]*Shape{}
	s := compile(t, building)
	for t, s := range building {
		shapes.Store(t, s)
	}
	return s
}

func compile(t reflect.Type, building map[reflect.Type]*Shape) *Shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*Shape)
	}
	if s, ok := building[t]; ok {
		return s
	}
	s := &Shape{byName: map[string]int{}, byFold: map[string]int{}}
	building[t] = s
	s.addFields(t, building)
	if len(s.fields) > 64 {
		panic(fmt.Sprintf("jsonwire: %v has more than 64 members", t))
	}
	return s
}

func (s *Shape) addFields(t reflect.Type, building map[reflect.Type]*Shape) {
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || (!sf.IsExported() && !sf.Anonymous) || options == "embed" {
			continue
		}
		if sf.Anonymous && name == "" {
			s.addFields(sf.Type, building)
			continue
		}
		if name == "" {
			name = sf.Name
		}
		f := field{name: name, node: compileNode(sf.Type, building)}
		bit := uint64(1) << len(s.fields)
		for option := range strings.SplitSeq(sf.Tag.Get("wire"), ",") {
			key, value, _ := strings.Cut(option, "=")
			switch key {
			case "":
			case "required":
				s.required |= bit
			case "oneof":
				s.oneof |= bit
			case "nonempty":
				f.nonempty = true
			case "id":
				f.id = true
			case "quiet":
				f.quiet = true
			case "object":
				f.node.form = formObject
			case "fact":
				f.fact = value
			case "min", "max":
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					panic(fmt.Sprintf("jsonwire: %v.%s: %v", t, sf.Name, err))
				}
				f.setRange(key, n)
			default:
				panic(fmt.Sprintf("jsonwire: %v.%s: unknown wire option %q", t, sf.Name, key))
			}
		}
		s.byName[name] = len(s.fields)
		s.byFold[fold(name)] = len(s.fields)
		s.fields = append(s.fields, f)
	}
}

func (f *field) setRange(key string, n int64) {
	if !f.ranged {
		f.ranged, f.min, f.max = true, -1<<31, 1<<31-1
	}
	if key == "min" {
		f.min = n
	} else {
		f.max = n
	}
}

func compileNode(t reflect.Type, building map[reflect.Type]*Shape) node {
	if t.Kind() == reflect.Pointer {
		return compileNode(t.Elem(), building)
	}
	if t == typeValue {
		return node{form: formAny}
	}
	if t.Implements(typeChecker) {
		return node{form: formChecked, checker: reflect.Zero(t).Interface().(Checker)}
	}
	switch t.Kind() {
	case reflect.String:
		return node{form: formString}
	case reflect.Bool:
		return node{form: formBool}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return node{form: formInt}
	case reflect.Float64:
		return node{form: formNumber}
	case reflect.Struct:
		return node{form: formStruct, shape: compile(t, building)}
	case reflect.Slice:
		elem := compileNode(t.Elem(), building)
		return node{form: formArray, elem: &elem}
	case reflect.Map:
		elem := compileNode(t.Elem(), building)
		return node{form: formMap, elem: &elem}
	}
	panic(fmt.Sprintf("jsonwire: no JSON form for %v", t))
}

// fold maps names that people confuse to one another to one text.
func fold(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}
