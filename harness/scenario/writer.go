package scenario

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// writer makes the tree that a scenario file would have, from a scenario, and notes for
// each of its nodes the field that it was made from. What it leaves out, a reader of
// the tree can't get: Check compares.
type writer struct {
	fields map[*yaml.Node]string
	path   string // of the struct that is being written
}

// entry is a key and its value; without a value it isn't there.
type entry struct {
	key, field string
	value      *yaml.Node
}

// section makes a mapping for the struct at a field.
func (w *writer) section(field string, make func() []entry) *yaml.Node {
	outer := w.path
	if w.path = field; outer != "" {
		w.path = outer + "." + field
	}
	defer func() { w.path = outer }()
	n := &yaml.Node{Kind: yaml.MappingNode}
	w.fields[n] = w.path
	for _, e := range make() {
		if e.value == nil {
			continue
		}
		at := w.path + "." + e.field
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: e.key}
		w.fields[key] = at
		if _, ok := w.fields[e.value]; !ok {
			w.fields[e.value] = at
		}
		n.Content = append(n.Content, key, e.value)
	}
	return n
}

// list makes a list of what lies at a field.
func (w *writer) list(field string, n int, item func(field string, i int) *yaml.Node) *yaml.Node {
	l := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	w.fields[l] = w.path + "." + field
	for i := range n {
		at := fmt.Sprintf("%s[%d]", field, i)
		value := item(at, i)
		if _, ok := w.fields[value]; !ok {
			w.fields[value] = w.path + "." + at
		}
		l.Content = append(l.Content, value)
	}
	return l
}

func leaf(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// nonZero is a value that stands for nothing where it is zero.
func nonZero[T comparable](v T, write func(T) string) *yaml.Node {
	var zero T
	if v == zero {
		return nil
	}
	return leaf(write(v))
}

func say[T any](v T) string              { return fmt.Sprint(v) }
func share(x float64) string             { return strconv.FormatFloat(100*x, 'g', -1, 64) + "%" }
func decimal(x float64) string           { return strconv.FormatFloat(x, 'g', -1, 64) }
func ends(r nemesis.Span) string         { return r.Min.String() + ".." + r.Max.String() }
func both(r client.Range) string         { return ends(nemesis.Span(r)) }
func pointed(r *client.Range) *yaml.Node { return orNone(r, both) }

func orNone[T any](p *T, write func(T) string) *yaml.Node {
	if p == nil {
		return nil
	}
	return leaf(write(*p))
}

// bytesOf is a size in the unit that a file can say it in.
func bytesOf(n int) string {
	if n%1024 == 0 {
		return strconv.Itoa(n/1024) + "KB"
	}
	return strconv.Itoa(n)
}

func (w *writer) words(field string, all []string) *yaml.Node {
	if len(all) == 0 {
		return nil
	}
	return w.list(field, len(all), func(_ string, i int) *yaml.Node { return leaf(all[i]) })
}
