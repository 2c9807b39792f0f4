package scenario

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what may stand at one place of a scenario file. It reads a node into a value,
// writes the node that a value would be read from, and describes itself: reader, writer
// and JSON Schema come from the same table, form.go.
type shape interface {
	read(n *yaml.Node, to reflect.Value) error
	// write returns nil for what no file says. like is what a file comes to that does not
	// say it, where there is such a value.
	write(at place, v, like reflect.Value) *yaml.Node
	schema() map[string]any
}

// field is one key of a section.
type field struct {
	key   string
	doc   string
	shape shape
	must  bool // it may not be left out
	more  bool // its section says what lies elsewhere, too, so it is written whatever its value
	// at is where its value lies in that of the section, by JSON's names as in event.nth;
	// "": by its key. Whole is the section's value itself.
	at string
}

// part finds the value of a field in that of its section, behind pointers, for which it
// makes room if it is told to. There is none behind nil, nor where a map lacks it.
func (f *field) part(section reflect.Value, room bool) reflect.Value {
	if !section.IsValid() || f.at == whole {
		return section
	}
	v := section
	for name := range strings.SplitSeq(f.path(), ".") {
		if v.Kind() == reflect.Map {
			item := reflect.New(v.Type().Elem()).Elem()
			if x := v.MapIndex(reflect.ValueOf(name)); x.IsValid() && !room {
				item.Set(x)
			} else if !room {
				return x
			}
			return item
		}
		for i := range v.NumField() {
			if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
				v = v.Field(i)
				break
			}
		}
		if v.Kind() == reflect.Pointer {
			if v.IsNil() && !room {
				return reflect.Value{}
			} else if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
	}
	return v
}

// path is where the value lies, by JSON's names.
func (f *field) path() string { return cmp.Or(f.at, f.key) }

func (f *field) read(n *yaml.Node, section reflect.Value) error {
	to := f.part(section, true)
	if err := f.shape.read(n, to); err != nil {
		return err
	}
	if section.Kind() == reflect.Map && f.at != whole {
		if section.IsNil() {
			section.Set(reflect.MakeMap(section.Type()))
		}
		section.SetMapIndex(reflect.ValueOf(f.key), to)
	}
	return nil
}

// removedKeys says what to use instead of keys that earlier releases had.
var removedKeys = map[string]string{
	"bypasses": "bypasses are no longer counted; delete the line, or bound jain-index or losing-streak",
}

// object is a section: a mapping with known keys.
type object struct {
	name   string
	fields []field
	fresh  func(v any) // makes what a section says that says nothing; nil: zero. v is a pointer
}

func (o object) read(n *yaml.Node, to reflect.Value) error {
	given, err := pairs(n, o.name, o.example())
	if err != nil {
		return err
	}
	if o.fresh != nil {
		o.fresh(to.Addr().Interface())
	}
	for _, p := range given {
		f := o.field(p.key.Value)
		if f == nil {
			hint := cmp.Or(removedKeys[p.key.Value], suggest(p.key.Value, "keys here", o.keys()))
			return bad(p.key, hint, "unknown key %s in %s", quote(p.key.Value), o.name)
		}
		if err := f.read(p.value, to); err != nil {
			return err
		}
	}
	for _, f := range o.fields {
		if f.must && child(n, f.key) < 0 {
			return bad(n, "add "+f.key+": "+f.doc, "%s has no %s", o.name, f.key)
		}
	}
	return nil
}

// write leaves out the keys that say nothing new.
func (o object) write(at place, v, like reflect.Value) *yaml.Node {
	if !like.IsValid() {
		like = reflect.New(v.Type()).Elem()
		if o.fresh != nil {
			o.fresh(like.Addr().Interface())
		}
	}
	n := at.node(yaml.MappingNode, "")
	for _, f := range o.fields {
		x, y := f.part(v, false), f.part(like, false)
		if !x.IsValid() || !f.must && !f.more && y.IsValid() && reflect.DeepEqual(x.Interface(), y.Interface()) {
			continue
		}
		in := at.in(f.path())
		if value := f.shape.write(in, x, y); value != nil {
			n.Content = append(n.Content, in.leaf(f.key), value)
		}
	}
	return n
}

// below is the same section of a value that lies below another one's.
func (o object) below(at string) object {
	o.fields = slices.Clone(o.fields)
	for i := range o.fields {
		o.fields[i].at = at + "." + o.fields[i].path()
	}
	return o
}

func (o object) field(key string) *field {
	for i := range o.fields {
		if o.fields[i].key == key {
			return &o.fields[i]
		}
	}
	return nil
}

func (o object) keys() []string {
	var keys []string
	for _, f := range o.fields {
		keys = append(keys, f.key)
	}
	return keys
}

func (o object) example() string {
	return "write key: value pairs; keys here: " + strings.Join(o.keys(), ", ")
}

func (o object) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range o.fields {
		s := f.shape.schema()
		s["description"] = f.doc
		properties[f.key] = s
		if f.must {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// pair is one entry of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs returns the entries of a mapping whose keys are single words, each once.
func pairs(n *yaml.Node, name, hint string) ([]pair, error) {
	if n.Kind != yaml.MappingNode {
		return nil, bad(n, hint, "%s must be a mapping, not %s", name, sortOf(n))
	}
	var out []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, bad(key, hint, "a key in %s must be a single word", name)
		}
		if line, again := seen[key.Value]; again {
			hint := "keep one of them"
			if line > 0 {
				hint = fmt.Sprintf("it stands in line %d already; %s", line, hint)
			}
			return nil, bad(key, hint, "key %s is given twice in %s", quote(key.Value), name)
		}
		seen[key.Value] = key.Line
		out = append(out, pair{key, n.Content[i+1]})
	}
	return out, nil
}

// sortOf names the sort of a node for messages.
func sortOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return quote(n.Value)
}
