package scenario

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

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
