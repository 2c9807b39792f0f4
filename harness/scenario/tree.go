package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// source is a text that nodes come from.
type source struct {
	name  string
	lines []string
}

// document is the tree of a file, of which overrides may have replaced parts.
type document struct {
	file    *source
	foreign map[*yaml.Node]*source // nodes that come from elsewhere: from --set
	root    *yaml.Node
}

// The characters that end a line in YAML.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

func newSource(name, text string) *source {
	return &source{name, strings.Split(lineEnds.Replace(text), "\n")}
}

func (s *source) fail(line, column int, what, hint string) *Error {
	e := &Error{File: s.name, Line: max(line, 1), Column: max(column, 1), What: what, Hint: hint}
	if e.Line <= len(s.lines) {
		e.Text = s.lines[e.Line-1]
	}
	return e
}

// load reads the tree of a scenario file.
func load(name string, data []byte) (*document, error) {
	if len(data) > MaxFile {
		return nil, newSource(name, "").fail(1, 1, fmt.Sprintf("the file has %d bytes", len(data)),
			fmt.Sprintf("a scenario file has at most %d bytes", MaxFile))
	}
	if !utf8.Valid(data) {
		return nil, newSource(name, "").fail(1, 1, "the file is not UTF-8 text", "save it as UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	src := newSource(name, string(data))
	root, err := parseYAML(src, data)
	if err != nil {
		return nil, err
	}
	doc := &document{file: src, foreign: map[*yaml.Node]*source{}, root: root}
	if err := plain(root); err != nil {
		return nil, doc.locate(err, "")
	}
	return doc, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseYAML returns the one node that the text holds.
func parseYAML(src *source, data []byte) (root *yaml.Node, err error) {
	fail := func(err error) error {
		text, line := err.Error(), 1
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			if n, err := strconv.Atoi(m[1]); err == nil {
				line = min(n, len(src.lines))
			}
		}
		return src.fail(line, 1, "this is not YAML: "+clip(text, 200), "check indentation, brackets and quotes on this line and the one above")
	}
	// The YAML library reports its own errors; a panic beyond those would be a bug of
	// its own, and must not take the program down for the sake of one file.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fail(fmt.Errorf("%v", r))
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, src.fail(1, 1, "the file is empty", "a scenario has at least name, claim and source")
	} else if err != nil {
		return nil, fail(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, src.fail(more.Line, more.Column, "a second document begins here", "one file holds one scenario; use variants")
	case !errors.Is(err, io.EOF):
		return nil, fail(err)
	}
	if len(doc.Content) != 1 {
		return nil, src.fail(1, 1, "the file is empty", "a scenario has at least name, claim and source")
	}
	return doc.Content[0], nil
}

// plain refuses what a scenario has no need of: aliases, through which a small
// file can stand for a huge one, and tags.
func plain(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return bad(n, "write it out; for parts that repeat use variants", "anchors and aliases are not allowed")
	case n.Style&yaml.TaggedStyle != 0:
		return bad(n, "leave the tag out", "tags such as %s are not allowed", quote(n.Tag))
	case n.Kind == yaml.ScalarNode && n.Tag == "!!merge":
		return bad(n, "write the keys out; for parts that repeat use variants", "merge keys are not allowed")
	}
	for _, c := range n.Content {
		if err := plain(c); err != nil {
			return err
		}
	}
	return nil
}

// locate turns a problem into what the user sees. Other errors stay as they are.
func (d *document) locate(err error, name string) error {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		return err
	}
	n := p.node
	if n == nil {
		n = find(d.root, p.path)
	}
	src := d.file
	if s, ok := d.foreign[n]; ok {
		src = s
	}
	what := p.what
	if name != "" {
		what = "in variant " + name + ": " + what
	}
	return src.fail(n.Line, n.Column, what, p.hint)
}

// find returns the node at a dotted path, as in plan.1.fault.for, or the deepest
// one above it that the file has: what isn't written can't be pointed at.
func find(n *yaml.Node, path string) *yaml.Node {
	show := n
	for segment := range strings.SplitSeq(path, ".") {
		i := child(n, segment)
		if i < 0 {
			return show
		}
		if n.Kind == yaml.MappingNode {
			show = n.Content[i-1] // of a whole section show the key
		}
		n = n.Content[i]
		if n.Kind == yaml.ScalarNode || n.Style&yaml.FlowStyle != 0 {
			show = n
		}
	}
	return show
}

// child returns the index in n.Content of what a key, or a number from 1, means.
func child(n *yaml.Node, segment string) int {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == segment {
				return i + 1
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(segment); err == nil && i >= 1 && i <= len(n.Content) {
			return i - 1
		}
	}
	return -1
}

// replace returns a tree in which the value at path is another one. Path holds a
// key node for each step, so that errors point at what asked for it. Nodes on
// the path are copied, the others shared: n stays as it is.
func (d *document) replace(n *yaml.Node, path []*yaml.Node, value *yaml.Node) (*yaml.Node, error) {
	if len(path) == 0 {
		return value, nil
	}
	key, i := path[0], child(n, path[0].Value)
	switch {
	case n.Kind == yaml.SequenceNode && i < 0:
		return nil, bad(key, fmt.Sprintf("items are numbered from 1 to %d", len(n.Content)), "there is no item %s to set", quote(key.Value))
	case n.Kind != yaml.SequenceNode && n.Kind != yaml.MappingNode:
		return nil, bad(key, "replace the section as a whole", "%s can't be set inside of a single value", quote(key.Value))
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	if i < 0 {
		section := &yaml.Node{Kind: yaml.MappingNode, Line: key.Line, Column: key.Column}
		if src, ok := d.foreign[key]; ok {
			d.foreign[section] = src
		}
		c.Content = append(c.Content, key, section)
		i = len(c.Content) - 1
	} else if n.Kind == yaml.MappingNode && len(path) == 1 {
		c.Content[i-1] = key
	}
	var err error
	c.Content[i], err = d.replace(c.Content[i], path[1:], value)
	return &c, err
}
