package scenario

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// sequence is a list of anything.
type sequence struct {
	name  string
	least int
	most  int
	item  func() shape
}

func (l sequence) read(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return bad(n, "write [a, b], or one item a line, each after a dash", "%s must be a list, not %s", l.name, sortOf(n))
	}
	if len(n.Content) > l.most {
		return bad(n.Content[l.most], fmt.Sprintf("at most %d are allowed", l.most), "%s is too long", l.name)
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

func (l sequence) schema() map[string]any {
	return map[string]any{"type": "array", "minItems": l.least, "maxItems": l.most, "items": l.item().schema()}
}

// words is a list of words, all different unless it says otherwise.
type words struct {
	name string
	to   *[]string
	item func(*string) word
	// again: a word may stand twice.
	again bool
}

func (w words) read(n *yaml.Node) error {
	var out []string
	seen := map[string]bool{}
	each := sequence{w.name, 1, maxItems, func() shape {
		out = append(out, "")
		return w.item(&out[len(out)-1])
	}}
	if err := each.read(n); err != nil {
		return err
	}
	for i, s := range out {
		if seen[s] && !w.again {
			return bad(n.Content[i], "keep one of them", "%s stands twice in %s", quote(s), w.name)
		}
		seen[s] = true
	}
	*w.to = out
	return nil
}

func (w words) schema() map[string]any {
	s := map[string]any{"type": "array", "minItems": 1, "maxItems": maxItems, "items": w.item(nil).schema()}
	if !w.again {
		s["uniqueItems"] = true
	}
	return s
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
