package scenario

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Shapes around other shapes.

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

// listOr is a list, or in its place a section, which is known by any of its keys.
type listOr struct {
	list    sequence
	section object
}

func (l listOr) read(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode && slices.ContainsFunc(l.section.fields, func(f field) bool { return child(n, f.key) >= 0 }) {
		return l.section.read(n)
	}
	return l.list.read(n)
}

func (l listOr) schema() map[string]any {
	return map[string]any{"oneOf": []any{l.list.schema(), l.section.schema()}}
}
