package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"lockpick/nemesis"
)

// Parse reads a scenario file: the base first, then its variants in the order
// of the file. It is strict; what is wrong comes back as a *Error. name
// is used in errors only.
func Parse(name string, data []byte, known Known) ([]Scenario, error) {
	return ParseWith(name, data, known, nil, nil)
}

// ParseWith is Parse with overrides of the form key=value, which win over what
// file and variants say. A key is as in a variant's set: lock.ttl,
// plan.1.fault.for, or a whole section. What the scenario expects may no longer
// be true then; that is for the caller to say. wanted tells which variants to
// make, so that an override need not fit the others; nil is all of them.
func ParseWith(name string, data []byte, known Known, sets []string, wanted func(variant string) bool) ([]Scenario, error) {
	doc, err := load(name, data)
	if err != nil {
		return nil, err
	}
	base, err := doc.read(doc.root, known, "")
	if err != nil {
		return nil, err
	}
	if err := base.checkThan(base.variants); err != nil {
		return nil, doc.locate(err, "")
	}
	file := *doc
	var out []Scenario
	for _, v := range append([]variation{{}}, base.variants...) {
		if wanted != nil && !wanted(v.Name) {
			continue
		}
		tree, err := file.apply(v)
		if err != nil {
			return nil, file.locate(err, v.Name)
		}
		if tree, err = doc.override(tree, sets); err != nil {
			return nil, doc.locate(err, v.Name)
		}
		doc.root = tree
		r, err := doc.read(tree, known, v.Name)
		if err != nil {
			return nil, err
		}
		if err := r.checkThan(base.variants); err != nil {
			return nil, doc.locate(err, v.Name)
		}
		out = append(out, r.scenario)
	}
	return out, nil
}

// Schema returns the JSON Schema of scenario files, for editors. It is made
// from the tables that Parse reads by; what depends on more than one key
// (targets that must exist, a timeout that must fit the TTL) only Parse checks.
func Schema(known Known) []byte {
	s := newReading(fileUnit, "").form(known).schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "lockpick scenario"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, strings and numbers only: can't happen
	}
	return append(out, '\n')
}

// read makes a scenario of a tree.
func (d *document) read(tree *yaml.Node, known Known, variant string) (*reading, error) {
	r := newReading(fileUnit, variant)
	return r, d.locate(r.read(tree, known), variant)
}

func (r *reading) read(tree *yaml.Node, known Known) error {
	if err := r.form(known).read(tree, reflect.ValueOf(&r.scenario).Elem()); err != nil {
		return err
	}
	r.finish()
	if name := r.scenario.Name; slices.Contains(known.Folders, name) {
		return badAt("name", "call it otherwise: a store has a folder "+name+" for other things", "a scenario can't be called %s", quote(name))
	}
	return checkWhole(&r.scenario, known)
}

// finish fills in what depends on more than one key.
func (r *reading) finish() {
	s := &r.scenario
	if s.Workload.Cycles == 0 && s.Workload.For == 0 {
		s.Workload.Cycles = defaultCycles
	}
	if len(s.Clients) == 0 {
		s.Clients = clientsNamed(defaultClients)
	}
	for property, e := range s.Expect {
		if e.Cause != "" {
			e.Want = wantViolated
			s.Expect[property] = e
		}
	}
	Imply(s.Expect, s.Tier)
	if s.Random != nil || s.Vacuous {
		excuse(s.Expect)
	}
}

// checkThan: a bound can only lean on another variant of the file. What the base
// compares with a variant, that variant does not inherit.
func (r *reading) checkThan(variants []variation) error {
	names := []string{BaseVariant}
	for _, v := range variants {
		if v.Name == BaseVariant {
			return badAt("variants."+BaseVariant, "call it otherwise: expect.numbers calls the scenario itself "+BaseVariant, "a variant can't be called %s", BaseVariant)
		}
		names = append(names, v.Name)
	}
	self := r.scenario.Variant
	for _, name := range slices.Sorted(maps.Keys(r.scenario.Numbers)) {
		switch than := r.scenario.Numbers[name].Than; {
		case than == "":
		case than == BaseVariant && self == "":
			return badAt("expect.numbers."+name, "name a variant", "it is compared with itself")
		case !slices.Contains(names, than):
			return badAt("expect.numbers."+name, suggest(than, "variants", names), "there is no variant %s", quote(than))
		case than == self:
			delete(r.scenario.Numbers, name)
		}
	}
	return nil
}

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

// locate turns a problem into an Error. Other errors, and nil, stay as they are.
func (d *document) locate(err error, name string) error {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		return err
	}
	n, what := p.at(d.root), p.what
	if name != "" {
		what = "in variant " + name + ": " + what
	}
	return cmp.Or(d.foreign[n], d.file).fail(n.Line, n.Column, what, p.hint)
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
		d.foreign[section] = d.foreign[key]
		c.Content = append(c.Content, key, section)
		i = len(c.Content) - 1
	} else if n.Kind == yaml.MappingNode && len(path) == 1 {
		c.Content[i-1] = key
	}
	var err error
	c.Content[i], err = d.replace(c.Content[i], path[1:], value)
	return &c, err
}

// Error says what is wrong in a scenario file, and where.
type Error struct {
	File   string // as the caller named it; "--set" for an override
	Field  string // of a run.json, instead of a line: scenario.clients[0].name
	Line   int    // from 1
	Column int    // from 1, in characters
	Text   string // the line
	What   string // what is wrong
	Hint   string // what to do about it, or what is allowed
}

// Error renders the position, the line with a caret under the place, and the hint:
//
//	gc-pause.yaml:7:14: unknown lock kind "redlok"
//	    lock: {kind: redlok}
//	                 ^
//	hint: did you mean redlock? Known: broken, redlock
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Field == "":
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	case e.File == "":
		fmt.Fprintf(&b, "%s: ", e.Field)
	default:
		fmt.Fprintf(&b, "%s: %s: ", e.File, e.Field)
	}
	b.WriteString(e.What)
	if text, caret := excerpt(e.Text, e.Column); strings.TrimSpace(text) != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", text, caret)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\nhint: %s", e.Hint)
	}
	return b.String()
}

// excerptWidth is how much of a long line is shown around the place.
const excerptWidth = 100

// excerpt returns the part of a line that is worth showing, and the blanks that
// bring a caret under its column-th character.
func excerpt(line string, column int) (text, blanks string) {
	all := []rune(line)
	at := min(max(column-1, 0), len(all))
	from := 0
	if len(all) > excerptWidth {
		from = max(0, at-excerptWidth/2)
	}
	shown := all[from:min(len(all), from+excerptWidth)]
	var t, b strings.Builder
	for i, r := range shown {
		if !unicode.IsPrint(r) && r != '\t' {
			r = '\uFFFD'
		}
		t.WriteRune(r)
		switch {
		case from+i >= at:
		case r == '\t':
			b.WriteByte('\t')
		default:
			b.WriteByte(' ')
		}
	}
	return strings.TrimRightFunc(t.String(), unicode.IsSpace), b.String()
}

// problem is an error whose place is a node, or a path into the tree (which
// document.locate resolves). The reader returns problems, the document makes
// Errors of them.
type problem struct {
	node *yaml.Node
	path string
	what string
	hint string
}

func (p *problem) Error() string { return p.what }

// at returns the problem's node in a tree.
func (p *problem) at(root *yaml.Node) *yaml.Node {
	if p.node != nil {
		return p.node
	}
	return find(root, p.path)
}

func bad(n *yaml.Node, hint, what string, args ...any) error {
	return &problem{node: n, what: fmt.Sprintf(what, args...), hint: hint}
}

func badAt(path, hint, what string, args ...any) error {
	return &problem{path: path, what: fmt.Sprintf(what, args...), hint: hint}
}

// quote shows a piece of the file in a message; long ones are cut.
func quote(s string) string { return fmt.Sprintf("%q", clip(s, 40)) }

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// suggest is a hint for a word that isn't one of those allowed.
func suggest(given, label string, allowed []string) string {
	all := label + ": " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		all = label + ": none"
	}
	if near := Nearest(strings.ToLower(given), allowed); near != "" {
		return "did you mean " + near + "? " + strings.ToUpper(all[:1]) + all[1:]
	}
	return all
}

// Nearest is the name that a word was probably meant to be: one that takes a typing mistake, or
// as many as a third of its letters; "": none is.
func Nearest(word string, names []string) string {
	const longest = 40
	if len(word) > longest {
		return ""
	}
	best, fewest := "", 1+max(1, len(word)/3)
	for _, n := range names {
		if d := distance(word, n); d < fewest {
			best, fewest = n, d
		}
	}
	return best
}

// distance is the Damerau–Levenshtein distance: how many letters to insert, delete or replace, or
// neighbors to swap, to turn one word into the other.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// What a scenario refers to by name must be there: nodes, clients and the links between
// them.

func (s *Scenario) nodesHint() string {
	return fmt.Sprintf("the topology has %d nodes: n1 … n%d", s.Topology.Nodes, s.Topology.Nodes)
}

// hasNode and hasClient make no list of names: there may be a million targets to look up.
func (s *Scenario) hasNode(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	return err == nil && n <= s.Topology.Nodes && nodePattern.MatchString(name)
}

func (s *Scenario) hasClient(name string) bool {
	return slices.ContainsFunc(s.Clients, func(c Client) bool { return c.Name == name })
}

func checkClient(s *Scenario, path, name string) error {
	if s.hasClient(name) {
		return nil
	}
	return badAt(path, s.clientsHint(), "there is no client %s", name)
}

func (s *Scenario) clientsHint() string {
	all := s.ClientNames()
	if len(all) > 10 {
		all = append(all[:9:9], "…", all[len(all)-1])
	}
	return "clients: " + strings.Join(all, ", ")
}

func checkEvent(s *Scenario, path string, e nemesis.Event) error {
	switch {
	case e.After >= s.Limit:
		return badAt(path+".after", "shorten it, or set a longer limit", "%v after an event is later than the end of the run", e.After)
	case e.Every && e.Nth != 1:
		return badAt(path+".nth", "keep one of them", "every and nth exclude each other")
	}
	return checkClient(s, path+".client", e.Client)
}

// checkLink says whether a link exists: between a client and the resource, or a
// node that the client can reach.
func checkLink(s *Scenario, path, link string) error {
	const hint = "a link is a client and a node or r1, the resource, as in c1-n3"
	name, end, ok := nemesis.SplitLink(link)
	if !ok {
		return badAt(path, hint, "%s is not a link", quote(link))
	}
	if end == nemesis.Replica && s.Topology.Replicas > 0 && s.hasNode(name) {
		return nil
	}
	if err := checkClient(s, path, name); err != nil {
		return err
	}
	if end == ResourceName {
		return nil
	}
	if !s.hasNode(end) {
		return badAt(path, s.nodesHint()+"; the resource is r1", "there is no node %s", end)
	}
	for _, c := range s.Clients {
		if c.Name == name && !c.reaches(end) {
			return badAt(path, name+" reaches "+strings.Join(c.Reach, ", "), "there is no link %s: %s can't reach %s", link, name, end)
		}
	}
	return nil
}
