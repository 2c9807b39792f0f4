package scenario

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Shapes around other shapes.

// lens is a value that lies in an S in another form, T.
type lens[S, T any] struct {
	shape
	get func(*S) T
	set func(*S, T)
}

func (l lens[S, T]) read(n *yaml.Node, to reflect.Value) error {
	var v T
	if err := l.shape.read(n, reflect.ValueOf(&v).Elem()); err != nil {
		return err
	}
	l.set(to.Addr().Interface().(*S), v)
	return nil
}

func (l lens[S, T]) write(at place, v, like reflect.Value) *yaml.Node {
	got := l.get(v.Addr().Interface().(*S))
	if like.IsValid() && reflect.DeepEqual(got, l.get(like.Addr().Interface().(*S))) {
		return nil
	}
	return l.shape.write(at, reflect.ValueOf(&got).Elem(), reflect.Value{})
}

// elsewhere is a value that does not lie in that of its section.
type elsewhere struct {
	shape
	to any // a pointer
}

func (e elsewhere) read(n *yaml.Node, _ reflect.Value) error {
	return e.shape.read(n, reflect.ValueOf(e.to).Elem())
}

func (e elsewhere) write(at place, _, _ reflect.Value) *yaml.Node {
	v := reflect.ValueOf(e.to).Elem()
	if v.IsZero() {
		return nil
	}
	return e.shape.write(at, v, reflect.Value{})
}

// later keeps a node for a later step.
type later struct {
	as func() map[string]any // the schema
}

func (l later) read(n *yaml.Node, to reflect.Value) error {
	to.Set(reflect.ValueOf(n).Elem())
	return nil
}

func (l later) write(place, reflect.Value, reflect.Value) *yaml.Node { return nil }

func (l later) schema() map[string]any { return l.as() }

// choice is a section that exists in several forms, each known by one key, by which its
// own part of the value is called, too.
type choice struct {
	name  string
	forms []form
}

type form struct {
	key string
	object
}

func (c choice) read(n *yaml.Node, to reflect.Value) error {
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
	return chosen.object.read(n, to)
}

// write puts all that is there into one mapping, as in a file.
func (c choice) write(at place, v, _ reflect.Value) *yaml.Node {
	n := at.node(yaml.MappingNode, "")
	for _, f := range c.forms {
		if own := (&field{key: f.key}).part(v, false); own.IsValid() {
			n.Content = append(n.Content, f.object.write(at, v, reflect.Value{}).Content...)
		}
	}
	return n
}

func (c choice) hint() string {
	var all []string
	for _, f := range c.forms {
		all = append(all, "{"+strings.Join(f.keys(), ", ")+"}")
	}
	return "it is one of " + strings.Join(all, " or ")
}

func (c choice) schema() map[string]any {
	var all []any
	for _, f := range c.forms {
		all = append(all, f.schema())
	}
	return map[string]any{"oneOf": all}
}

// either is one of two forms, each with its own part of the value.
type either struct {
	one, other field
	isOther    func(n *yaml.Node) bool // of a node
	hasOther   func(v any) bool        // of a pointer to a value
}

// section tells a section from a single value.
func section(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }

func (e either) read(n *yaml.Node, to reflect.Value) error {
	if e.isOther(n) {
		return e.other.read(n, to)
	}
	return e.one.read(n, to)
}

func (e either) write(at place, v, like reflect.Value) *yaml.Node {
	f := &e.one
	if e.hasOther(v.Addr().Interface()) {
		f = &e.other
	}
	x, y := f.part(v, false), f.part(like, false)
	if y.IsValid() && reflect.DeepEqual(x.Interface(), y.Interface()) {
		return nil
	}
	return f.shape.write(at.in(f.path()), x, y)
}

func (e either) schema() map[string]any {
	return map[string]any{"oneOf": []any{e.one.shape.schema(), e.other.shape.schema()}}
}
