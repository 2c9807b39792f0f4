package scenario

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// sequence is a list of anything.
type sequence struct {
	name  string
	least int
	most  int
	item  shape
	// differ: the items are words, and none stands twice.
	differ bool
}

func (l sequence) read(n *yaml.Node, to reflect.Value) error {
	if n.Kind != yaml.SequenceNode {
		return bad(n, "write [a, b], or one item a line, each after a dash", "%s must be a list, not %s", l.name, sortOf(n))
	}
	if len(n.Content) > l.most {
		return bad(n.Content[l.most], fmt.Sprintf("at most %d are allowed", l.most), "%s is too long", l.name)
	}
	if len(n.Content) < l.least {
		return bad(n, "name at least one", "%s is empty", l.name)
	}
	if len(n.Content) == 0 {
		return nil
	}
	all := reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		if err := l.item.read(c, all.Index(i)); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, c := range n.Content {
		if l.differ && seen[c.Value] {
			return bad(c, "keep one of them", "%s stands twice in %s", quote(c.Value), l.name)
		}
		seen[c.Value] = true
	}
	to.Set(all)
	return nil
}

func (l sequence) write(at place, v, _ reflect.Value) *yaml.Node {
	if v.Len() == 0 {
		return nil
	}
	n := at.node(yaml.SequenceNode, "")
	n.Style = yaml.FlowStyle
	for i := range v.Len() {
		n.Content = append(n.Content, l.item.write(at.item(i), v.Index(i), reflect.Value{}))
	}
	return n
}

func (l sequence) schema() map[string]any {
	s := map[string]any{"type": "array", "minItems": l.least, "maxItems": l.most, "items": l.item.schema()}
	if l.differ {
		s["uniqueItems"] = true
	}
	return s
}

// wordsOf is a list of words that are all different.
func wordsOf(name string, item word) shape { return sequence{name, 1, maxItems, item, true} }

// dict is a mapping whose keys are names: those of structs, in their order.
type dict struct {
	name string
	key  word // what a name may be
	most int
	item shape
}

func (m dict) read(n *yaml.Node, to reflect.Value) error {
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
	all := reflect.MakeSlice(to.Type(), len(given), len(given))
	for i, p := range given {
		if err := m.key.read(p.key, all.Index(i).FieldByName("Name")); err != nil {
			return err
		}
		if err := m.item.read(p.value, all.Index(i)); err != nil {
			return err
		}
	}
	to.Set(all)
	return nil
}

func (m dict) write(at place, v, _ reflect.Value) *yaml.Node {
	n := at.node(yaml.MappingNode, "")
	for i := range v.Len() {
		name := at.item(i).in("name").leaf(v.Index(i).FieldByName("Name").String())
		n.Content = append(n.Content, name, m.item.write(at.item(i), v.Index(i), reflect.Value{}))
	}
	return n
}

func (m dict) schema() map[string]any {
	return map[string]any{
		"type": "object", "minProperties": 1,
		"propertyNames":        m.key.schema(),
		"additionalProperties": m.item.schema(),
	}
}
