package scenario

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Write is the inverse of Parse: the text of a file that Parse reads as this scenario, below
// a comment. A variant is written as a scenario of its own, so what it is compared with in
// other variants is left out; dice that have been thrown (Drawn) leave a plan that is run as
// it was. The error is what no file can say, as of durations that were scaled.
func Write(s Scenario, comment string, known Known) ([]byte, error) {
	s = alone(s)
	root, at := s.tree(known)
	laidOut(root, 0)
	var text bytes.Buffer
	for line := range strings.Lines(comment) {
		text.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, &Error{Field: at.path, What: clip(err.Error(), 200), Hint: "write the file by hand"}
	}
	back, err := Parse(s.ID(), text.Bytes(), known)
	if err == nil {
		err = s.unlike(back[0])
	}
	if err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// alone is a variant as a scenario of its own.
func alone(s Scenario) Scenario {
	s.Variant = ""
	s.Numbers = maps.Clone(s.Numbers)
	maps.DeleteFunc(s.Numbers, func(_ string, b Bound) bool { return b.Than != "" })
	if len(s.Numbers) == 0 {
		s.Numbers = nil
	}
	return s
}

// laidOut gives each section a line of its own, and likewise each client, each step's two
// halves, and each property. What lies deeper is on one line.
func laidOut(n *yaml.Node, depth int) {
	n.Style = 0
	if depth == 0 {
		for i := 0; i+1 < len(n.Content); i += 2 {
			switch value := n.Content[i+1]; n.Content[i].Value {
			case "clients", "expect":
				laidOut(value, 1)
			case "plan":
				laidOut(value, 1)
				for _, step := range value.Content {
					if value.Kind == yaml.SequenceNode {
						laidOut(step, 1)
					}
				}
			default:
				onOneLine(value)
			}
		}
		return
	}
	for _, c := range n.Content {
		onOneLine(c)
	}
}

func onOneLine(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		onOneLine(c)
	}
}

// whole is where a value lies that is its section's own.
const whole = "."

// place is the field of a scenario that nodes are made from, by JSON's names, and notes
// it for each of them. What is left out, a reader of the nodes can't get: Check compares.
type place struct {
	fields map[*yaml.Node]string
	path   string
}

func (p place) in(name string) place {
	if name != whole {
		p.path += "." + name
	}
	return p
}

func (p place) item(i int) place {
	p.path += fmt.Sprintf("[%d]", i)
	return p
}

func (p place) node(kind yaml.Kind, value string) *yaml.Node {
	n := &yaml.Node{Kind: kind, Value: value}
	p.fields[n] = p.path
	return n
}

func (p place) leaf(text string) *yaml.Node { return p.node(yaml.ScalarNode, text) }

// text is a leaf that stands in quotes where it would be taken for something else without.
func (p place) text(text string) *yaml.Node {
	n := p.leaf(text)
	n.Tag = "!!str"
	return n
}

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
