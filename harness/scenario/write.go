package scenario

import (
	"bytes"
	"maps"
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
