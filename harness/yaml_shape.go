package harness

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what may stand at one place of a scenario file. It reads a node into
// the variable that it was made for, and it describes itself: decoder and JSON
// Schema come from the same table, yaml_form.go.
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
			return nil, bad(key, fmt.Sprintf("it stands in line %d already; keep one of them", line), "key %s is given twice in %s", quote(key.Value), name)
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

// dict is a mapping whose keys are names.
type dict struct {
	name string
	key  word // what a name may be
	most int
	item func(name string) shape
}

func (m dict) read(n *yaml.Node) error {
	given, err := pairs(n, m.name, "write name: … pairs")
	if err != nil {
		return err
	}
	if len(given) == 0 {
		return bad(n, "leave it out, or name at least one", "%s is empty", m.name)
	}
	if m.most > 0 && len(given) > m.most {
		return bad(given[m.most].key, fmt.Sprintf("at most %d are allowed", m.most), "too many entries in %s", m.name)
	}
	for _, p := range given {
		if err := m.key.check(p.key); err != nil {
			return err
		}
		if err := m.item(p.key.Value).read(p.value); err != nil {
			return err
		}
	}
	return nil
}

func (m dict) schema() map[string]any {
	return map[string]any{
		"type": "object", "minProperties": 1,
		"propertyNames":        m.key.schema(),
		"additionalProperties": m.item("").schema(),
	}
}

// list is a sequence.
type list struct {
	name  string
	least int
	item  func() shape
}

func (l list) read(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return bad(n, "write [a, b], or one item a line, each after a dash", "%s must be a list, not %s", l.name, sortOf(n))
	}
	if len(n.Content) < l.least {
		return bad(n, "name at least one", "%s is empty", l.name)
	}
	for _, c := range n.Content {
		if err := l.item().read(c); err != nil {
			return err
		}
	}
	return nil
}

func (l list) schema() map[string]any {
	return map[string]any{"type": "array", "minItems": l.least, "items": l.item().schema()}
}

// choice is a section that exists in several forms, each known by one key.
type choice struct {
	name  string
	forms []form
}

type form struct {
	key  string
	make func() object // makes room for the form, and is called only for the one that is there
}

func (c choice) read(n *yaml.Node) error {
	var keys []string
	for _, f := range c.forms {
		keys = append(keys, f.key)
	}
	given, err := pairs(n, c.name, "write one of: "+strings.Join(keys, ", "))
	if err != nil {
		return err
	}
	var chosen *form
	for _, p := range given {
		for i, f := range c.forms {
			if p.key.Value != f.key {
				continue
			}
			if chosen != nil {
				return bad(p.key, "keep one; for both make two steps", "two triggers in one %s: %s and %s", c.name, chosen.key, f.key)
			}
			chosen = &c.forms[i]
		}
	}
	if chosen == nil {
		return bad(n, c.hint(), "%s needs one of %s", c.name, strings.Join(keys, ", "))
	}
	return chosen.make().read(n)
}

func (c choice) hint() string {
	var all []string
	for _, f := range c.forms {
		all = append(all, "{"+strings.Join(f.make().keys(), ", ")+"}")
	}
	return "it is one of " + strings.Join(all, " or ")
}

func (c choice) schema() map[string]any {
	var all []any
	for _, f := range c.forms {
		all = append(all, f.make().schema())
	}
	return map[string]any{"oneOf": all}
}

// either is a single value or a section.
type either struct {
	single  shape
	section shape
}

func (e either) read(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return e.single.read(n)
	}
	return e.section.read(n)
}

func (e either) schema() map[string]any {
	return map[string]any{"oneOf": []any{e.single.schema(), e.section.schema()}}
}

// optional makes room for a value only if it is there.
type optional[T any] struct {
	to    **T
	shape func(*T) shape
}

func (o optional[T]) read(n *yaml.Node) error {
	v := new(T)
	if err := o.shape(v).read(n); err != nil {
		return err
	}
	*o.to = v
	return nil
}

func (o optional[T]) schema() map[string]any { return o.shape(new(T)).schema() }

// then does something more once a value was read.
type then struct {
	shape
	next func()
}

func (t then) read(n *yaml.Node) error {
	if err := t.shape.read(n); err != nil {
		return err
	}
	t.next()
	return nil
}

// words is a list of different words.
type words struct {
	name string
	to   *[]string
	item func(*string) word
}

func (w words) read(n *yaml.Node) error {
	var out []string
	seen := map[string]bool{}
	each := list{w.name, 1, func() shape {
		out = append(out, "")
		return w.item(&out[len(out)-1])
	}}
	if err := each.read(n); err != nil {
		return err
	}
	for i, s := range out {
		if seen[s] {
			return bad(n.Content[i], "keep one of them", "%s stands twice in %s", quote(s), w.name)
		}
		seen[s] = true
	}
	*w.to = out
	return nil
}

func (w words) schema() map[string]any {
	return map[string]any{"type": "array", "minItems": 1, "uniqueItems": true, "items": w.item(nil).schema()}
}

// later keeps a node for a later step.
type later struct {
	to **yaml.Node
	as func() map[string]any // the schema
}

func (l later) read(n *yaml.Node) error {
	*l.to = n
	return nil
}

func (l later) schema() map[string]any { return l.as() }
