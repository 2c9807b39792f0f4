package scenario

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// apply returns the tree of a variant; the one without a name is the base.
func (d *document) apply(v variation) (*yaml.Node, error) {
	tree := without(d.root, "variants")
	if v.Name == "" {
		return tree, nil
	}
	given, err := pairs(v.Set, "set", "write key: value pairs, as in lock.ttl: 5s")
	if err != nil {
		return nil, err
	}
	if len(given) == 0 {
		return nil, bad(v.Set, "set at least one key", "the variant changes nothing")
	}
	for _, p := range given {
		if tree, err = d.set(tree, p.key, p.value); err != nil {
			return nil, err
		}
	}
	leafAt := func(s string, at *yaml.Node) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: s, Line: at.Line, Column: at.Column}
	}
	if v.Claim != nil {
		tree = without(tree, "debate") // it is about the scenario's claim
		if tree, err = d.replace(tree, []*yaml.Node{leafAt("claim", v.Claim)}, v.Claim); err != nil {
			return nil, err
		}
	}
	if v.Debate != nil {
		if tree, err = d.replace(tree, []*yaml.Node{leafAt("debate", v.Debate)}, v.Debate); err != nil {
			return nil, err
		}
	}
	if v.Expect == nil {
		return tree, nil
	}
	given, err = pairs(v.Expect, "expect", "write property: outcome pairs")
	if err != nil {
		return nil, err
	}
	for _, p := range given {
		if tree, err = d.replace(tree, []*yaml.Node{leafAt("expect", p.key), p.key}, p.value); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// override applies settings of the form key=value.
func (d *document) override(tree *yaml.Node, sets []string) (*yaml.Node, error) {
	for _, s := range sets {
		src := newSource("--set", s)
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" || strings.TrimSpace(text) == "" {
			return nil, src.fail(1, 1, "an override must have the form key=value", "as in --set lock.ttl=5s")
		}
		value, err := parseYAML(src, []byte(text))
		if err != nil {
			return nil, err
		}
		name := &yaml.Node{Kind: yaml.ScalarNode, Value: key, Line: 1, Column: 1}
		d.foreign[name] = src
		d.claim(value, src, len([]rune(key))+1)
		if err := plain(value); err != nil {
			return nil, err
		}
		if tree, err = d.set(tree, name, value); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// claim notes that a tree comes from src, its first line beginning at column shift.
func (d *document) claim(n *yaml.Node, src *source, shift int) {
	d.foreign[n] = src
	if n.Line == 1 {
		n.Column += shift
	}
	for _, c := range n.Content {
		d.claim(c, src, shift)
	}
}

// maxDepth is more than the form of a scenario needs.
const maxDepth = 8

// set returns a tree with another value at a dotted key.
func (d *document) set(tree, key, value *yaml.Node) (*yaml.Node, error) {
	segments := strings.Split(key.Value, ".")
	if !slices.Contains(sections, segments[0]) {
		return nil, bad(key, suggest(segments[0], "can be set", sections), "%s can't be set", quote(key.Value))
	}
	if len(segments) > maxDepth {
		return nil, bad(key, fmt.Sprintf("at most %d words with dots between them", maxDepth), "%s goes too deep", quote(key.Value))
	}
	var path []*yaml.Node
	column := key.Column
	if key.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		column++
	}
	for _, s := range segments {
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: s, Line: key.Line, Column: column}
		if src, ok := d.foreign[key]; ok {
			d.foreign[n] = src
		}
		path = append(path, n)
		column += len([]rune(s)) + 1
	}
	return d.replace(tree, path, value)
}

// without returns a mapping that lacks one key.
func without(n *yaml.Node, key string) *yaml.Node {
	c := *n
	c.Content = slices.Clone(n.Content)
	if i := child(&c, key); i > 0 {
		c.Content = slices.Delete(c.Content, i-1, i+1)
	}
	return &c
}
