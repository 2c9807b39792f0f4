package scenario

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what may stand at one place of a scenario file. It reads a node into
// the variable that it was made for, and it describes itself: decoder and JSON
// Schema come from the same table, form.go.
type shape interface {
	read(n *yaml.Node) error
	schema() map[string]any
}

// field is one key of a section.
type field struct {
	key   string
	doc   string
	shape shape
	must  bool // it may not be left out
}

// object is a section: a mapping with known keys.
type object struct {
	name   string
	fields []field
}

func (o object) read(n *yaml.Node) error {
	given, err := pairs(n, o.name, o.example())
	if err != nil {
		return err
	}
	for _, p := range given {
		f := o.field(p.key.Value)
		if f == nil {
			return bad(p.key, suggest(p.key.Value, "keys here", o.keys()), "unknown key %s in %s", quote(p.key.Value), o.name)
		}
		if err := f.shape.read(p.value); err != nil {
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
