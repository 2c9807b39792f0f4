package scenario

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Write is the inverse of Parse. It returns a scenario file, preceded by a comment. A variant is
// written as a separate scenario, without the bounds that compare it with other variants. A random
// plan that has been drawn is written as a fixed plan. Write returns an error if no file can
// express the scenario, for example because its durations were scaled.
func Write(s Scenario, comment string, known KnownNames) ([]byte, error) {
	s = standaloneCopy(s)
	root, _ := s.tree(known)
	layOut(root)
	var text bytes.Buffer
	for line := range strings.Lines(comment) {
		text.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, &Error{Field: "scenario", Message: clip(err.Error(), 200), Hint: "write the file by hand"}
	}
	reread, err := Parse(s.ID(), text.Bytes(), known)
	if err == nil {
		err = s.roundTripError(reread[0])
	}
	if err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// standaloneCopy returns a variant as a separate scenario.
func standaloneCopy(s Scenario) Scenario {
	s.Variant = ""
	s.Numbers = maps.Clone(s.Numbers)
	maps.DeleteFunc(s.Numbers, func(_ string, b Bound) bool { return b.Variant != "" })
	if len(s.Numbers) == 0 {
		s.Numbers = nil
	}
	return s
}

// layOut puts each section, each client, each property, and the two halves of each step on separate
// lines. Deeper levels stay on one line.
func layOut(root *yaml.Node) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		levels, value := 1, root.Content[i+1]
		switch {
		case !slices.Contains([]string{"clients", "expect", "plan"}, root.Content[i].Value):
			levels = 0
		case value.Kind == yaml.SequenceNode: // steps
			levels = 2
		}
		unfold(value, levels)
	}
}

// unfold spreads the given number of levels over several lines, and puts deeper levels on one line.
func unfold(n *yaml.Node, levels int) {
	if n.Style = 0; levels <= 0 && isSection(n) {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		unfold(c, levels-1)
	}
}

// writer creates nodes and records which field of a run.json each one was written from, so that
// errors can name the field.
type writer map[*yaml.Node]string

func (w writer) node(field string, kind yaml.Kind, value string) *yaml.Node {
	n := &yaml.Node{Kind: kind, Value: value}
	w[n] = field
	return n
}
