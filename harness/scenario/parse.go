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

// Parse reads a scenario file: the base first, then its variants in file order. It is strict and
// returns an *Error for any mistake. name is used in errors only.
func Parse(name string, data []byte, known KnownNames) ([]Scenario, error) {
	all, err := ParseWithOptions(name, data, known, ParseOptions{}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]Scenario, len(all))
	for i, p := range all {
		out[i] = p.Scenario
	}
	return out, nil
}

// ParseOptions change the scenarios of a file and its variants.
type ParseOptions struct {
	// Overrides have the form key=value. A key has the same form as in a variant's set: lock.ttl,
	// plan.1.fault.for, or a whole section. The scenario's expectations may no longer apply; the
	// caller must report that.
	Overrides []string
	// Nodes is the number of nodes for scenarios with more than one, or 0 to use the file's. The
	// expectations still apply.
	Nodes int
}

// Parsed is a scenario from a file.
type Parsed struct {
	Scenario
	// Unsuitable is why the scenario makes no sense with ParseOptions.Nodes, or "". If it isn't empty,
	// the scenario has the file's number of nodes.
	Unsuitable string
}

// ParseWithOptions is like Parse, but applies options. includeVariant selects the variants to
// build, so that an override need not fit the others. If it is nil, all are built.
func ParseWithOptions(name string, data []byte, known KnownNames, o ParseOptions, includeVariant func(variant string) bool) ([]Parsed, error) {
	doc, err := load(name, data)
	if err != nil {
		return nil, err
	}
	file := *doc
	base, err := doc.read(doc.root, known, "", 0)
	if err != nil {
		return nil, err
	}
	if err := base.checkBoundVariants(base.variants); err != nil {
		return nil, doc.locate(err, "")
	}
	var out []Parsed
	for _, v := range append([]variantEntry{{}}, base.variants...) {
		if includeVariant != nil && !includeVariant(v.Name) {
			continue
		}
		tree, err := file.applyVariant(v)
		if err != nil {
			return nil, file.locate(err, v.Name)
		}
		if tree, err = doc.applyOverrides(tree, o.Overrides); err != nil {
			return nil, doc.locate(err, v.Name)
		}
		r, err := doc.read(tree, known, v.Name, o.Nodes)
		if err != nil {
			return nil, err
		}
		if err := r.checkBoundVariants(base.variants); err != nil {
			return nil, doc.locate(err, v.Name)
		}
		out = append(out, Parsed{r.scenario, r.unsuitable})
	}
	return out, nil
}

// Schema returns the JSON Schema of scenario files, for editors. It is generated from the same
// tables that Parse uses. Rules that involve more than one key, such as the existence of targets or
// a timeout below the TTL, are checked by Parse only.
func Schema(known KnownNames) []byte {
	s := newReader(minFileDuration, "").form(known).schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "lockpick scenario"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // can't happen with maps, strings and numbers
	}
	return append(out, '\n')
}

// read converts a tree to a scenario. nodes, unless 0, is the number of nodes if the tree has several.
// If the scenario makes no sense with it, read uses the tree's own number and records the reason.
func (d *document) read(tree *yaml.Node, known KnownNames, variant string, nodes int) (*reader, error) {
	r := newReader(minFileDuration, variant)
	expanded, err := d.expandNodeSets(tree, nodes)
	if err == nil {
		d.root = expanded
		err = r.read(expanded, known)
	}
	if nodes == 0 || err == nil {
		return r, d.locate(err, variant)
	}
	original, originalErr := d.read(tree, known, variant, 0)
	if originalErr != nil {
		return nil, originalErr
	}
	original.unsuitable = err.Error()
	if _, ok := errors.AsType[unsuitableError](err); !ok {
		original.unsuitable = fmt.Sprintf("makes no sense with %s: %v", countNodes(nodes), err)
		if last := lastNamedNode(tree); last > nodes {
			original.unsuitable = fmt.Sprintf("needs %d or more nodes, because it names n%d", last, last)
		}
	}
	return original, nil
}

func (r *reader) read(tree *yaml.Node, known KnownNames) error {
	if err := r.form(known).read(tree, reflect.ValueOf(&r.scenario).Elem()); err != nil {
		return err
	}
	r.setDerivedValues()
	if name := r.scenario.Name; slices.Contains(known.Folders, name) {
		return pathProblem("name", "choose another name: a store uses the folder "+name+" for other purposes", "a scenario can't be named %s", quote(name))
	}
	return checkConsistency(&r.scenario, known)
}

// setDerivedValues sets the values that depend on more than one key.
func (r *reader) setDerivedValues() {
	s := &r.scenario
	if s.Workload.Cycles == 0 && s.Workload.For == 0 {
		s.Workload.Cycles = defaultCycles
	}
	if len(s.Clients) == 0 {
		s.Clients = newClients(defaultClients)
	}
	for property, e := range s.Expect {
		if e.Cause != "" {
			e.Want = wantViolated
			s.Expect[property] = e
		}
	}
	AddImplied(s.Expect, s.Tier)
	if s.Random != nil || s.MayBeVacuous {
		allowUnexercised(s.Expect)
	}
}

// checkBoundVariants checks that bounds refer to other variants of the file. It removes a bound
// that a variant inherits from the base if the bound refers to that variant itself.
func (r *reader) checkBoundVariants(variants []variantEntry) error {
	names := []string{BaseVariant}
	for _, v := range variants {
		if v.Name == BaseVariant {
			return pathProblem("variants."+BaseVariant, "choose another name: in expect.numbers, "+BaseVariant+" means the scenario itself", "a variant can't be named %s", BaseVariant)
		}
		names = append(names, v.Name)
	}
	self := r.scenario.Variant
	for _, name := range slices.Sorted(maps.Keys(r.scenario.Numbers)) {
		switch other := r.scenario.Numbers[name].Variant; {
		case other == "":
		case other == BaseVariant && self == "":
			return pathProblem("expect.numbers."+name, "name a variant", "the number is compared with itself")
		case !slices.Contains(names, other):
			return pathProblem("expect.numbers."+name, suggest(other, "variants", names), "there is no variant %s", quote(other))
		case other == self:
			delete(r.scenario.Numbers, name)
		}
	}
	return nil
}

// source is the file or string that nodes were parsed from.
type source struct {
	name  string
	lines []string
}

// document is the tree of a file. Parts of it may have been replaced by overrides.
type document struct {
	file         *source
	foreignNodes map[*yaml.Node]*source // nodes from other sources, such as --set
	root         *yaml.Node
}

// lineEnds normalizes YAML line breaks.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

func newSource(name, text string) *source {
	return &source{name, strings.Split(lineEnds.Replace(text), "\n")}
}

func (s *source) newError(line, column int, what, hint string) *Error {
	e := &Error{File: s.name, Line: max(line, 1), Column: max(column, 1), Message: what, Hint: hint}
	if e.Line <= len(s.lines) {
		e.Text = s.lines[e.Line-1]
	}
	return e
}

// load reads the tree of a scenario file.
func load(name string, data []byte) (*document, error) {
	if len(data) > MaxFile {
		return nil, newSource(name, "").newError(1, 1, fmt.Sprintf("the file has %d bytes", len(data)),
			fmt.Sprintf("a scenario file has at most %d bytes", MaxFile))
	}
	if !utf8.Valid(data) {
		return nil, newSource(name, "").newError(1, 1, "the file is not UTF-8 text", "save it as UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	src := newSource(name, string(data))
	root, err := parseYAML(src, data)
	if err != nil {
		return nil, err
	}
	doc := &document{file: src, foreignNodes: map[*yaml.Node]*source{}, root: root}
	if err := checkPlainYAML(root); err != nil {
		return nil, doc.locate(err, "")
	}
	return doc, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseYAML returns the single root node of data.
func parseYAML(src *source, data []byte) (root *yaml.Node, err error) {
	syntaxError := func(err error) error {
		text, line := err.Error(), 1
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			if n, err := strconv.Atoi(m[1]); err == nil {
				line = min(n, len(src.lines))
			}
		}
		return src.newError(line, 1, "this is not YAML: "+clip(text, 200), "check indentation, brackets and quotes on this line and the one above")
	}
	// A panic would be a bug in the YAML library, but a file must not crash the program.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, syntaxError(fmt.Errorf("%v", r))
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, src.newError(1, 1, "the file is empty", "a scenario needs at least a name and a claim")
	} else if err != nil {
		return nil, syntaxError(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, src.newError(second.Line, second.Column, "a second document begins here", "a file can contain only one scenario; use variants instead")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err)
	}
	if len(doc.Content) != 1 {
		return nil, src.newError(1, 1, "the file is empty", "a scenario needs at least a name and a claim")
	}
	return doc.Content[0], nil
}

// checkPlainYAML rejects YAML features that scenarios don't need: tags, and aliases, which can
// expand a small file to a huge one.
func checkPlainYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nodeProblem(n, "write it out; use variants for repeated parts", "anchors and aliases are not allowed")
	case n.Style&yaml.TaggedStyle != 0:
		return nodeProblem(n, "leave the tag out", "tags such as %s are not allowed", quote(n.Tag))
	case n.Kind == yaml.ScalarNode && n.Tag == "!!merge":
		return nodeProblem(n, "write the keys out; use variants for repeated parts", "merge keys are not allowed")
	}
	for _, c := range n.Content {
		if err := checkPlainYAML(c); err != nil {
			return err
		}
	}
	return nil
}

// locate converts a problem to an Error. It returns other errors, and nil, unchanged.
func (d *document) locate(err error, name string) error {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		return err
	}
	n, what := p.nodeIn(d.root), p.message
	if name != "" {
		what = "in variant " + name + ": " + what
	}
	return cmp.Or(d.foreignNodes[n], d.file).newError(n.Line, n.Column, what, p.hint)
}

// find returns the node at a dotted path, as in plan.1.fault.for, or the deepest existing node on
// that path.
func find(n *yaml.Node, path string) *yaml.Node {
	deepest := n
	for segment := range strings.SplitSeq(path, ".") {
		i := childIndex(n, segment)
		if i < 0 {
			return deepest
		}
		if n.Kind == yaml.MappingNode {
			deepest = n.Content[i-1] // point to the key rather than the whole section
		}
		n = n.Content[i]
		if n.Kind == yaml.ScalarNode || n.Style&yaml.FlowStyle != 0 {
			deepest = n
		}
	}
	return deepest
}

// childIndex returns the index in n.Content of the value with the given key, or of the item with
// the given number (from 1). It returns -1 if there is none.
func childIndex(n *yaml.Node, segment string) int {
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

// replace returns a tree with a different value at path. path contains a key node for each level, so
// that errors point to the key in the override or variant. replace copies the nodes on the path and
// shares all others, so n remains unchanged.
func (d *document) replace(n *yaml.Node, path []*yaml.Node, value *yaml.Node) (*yaml.Node, error) {
	if len(path) == 0 {
		return value, nil
	}
	key, i := path[0], childIndex(n, path[0].Value)
	switch {
	case n.Kind == yaml.SequenceNode && i < 0:
		return nil, nodeProblem(key, fmt.Sprintf("items are numbered from 1 to %d", len(n.Content)), "there is no item %s to set", quote(key.Value))
	case n.Kind != yaml.SequenceNode && n.Kind != yaml.MappingNode:
		return nil, nodeProblem(key, "replace the section as a whole", "can't set %s inside a single value", quote(key.Value))
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	if i < 0 {
		section := &yaml.Node{Kind: yaml.MappingNode, Line: key.Line, Column: key.Column}
		d.foreignNodes[section] = d.foreignNodes[key]
		c.Content = append(c.Content, key, section)
		i = len(c.Content) - 1
	} else if n.Kind == yaml.MappingNode && len(path) == 1 {
		c.Content[i-1] = key
	}
	var err error
	c.Content[i], err = d.replace(c.Content[i], path[1:], value)
	return &c, err
}

// Error reports a mistake in a scenario file, with its position.
type Error struct {
	File    string // as named by the caller, or "--set" for an override
	Field   string // field of a run.json, instead of a line: scenario.clients[0].name
	Line    int    // from 1
	Column  int    // from 1, in characters
	Text    string // text of the line
	Message string // the mistake
	Hint    string // how to fix the mistake, or the allowed values
}

// Error returns the position and the mistake, the line with a caret below the column, and the hint:
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
	b.WriteString(e.Message)
	if text, caret := excerpt(e.Text, e.Column); strings.TrimSpace(text) != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", text, caret)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\nhint: %s", e.Hint)
	}
	return b.String()
}

// excerptWidth is the number of characters shown of a long line.
const excerptWidth = 100

// excerpt returns the relevant part of a line, and the blanks that place a caret below column.
func excerpt(line string, column int) (text, blanks string) {
	runes := []rune(line)
	at := min(max(column-1, 0), len(runes))
	from := 0
	if len(runes) > excerptWidth {
		from = max(0, at-excerptWidth/2)
	}
	visible := runes[from:min(len(runes), from+excerptWidth)]
	var t, b strings.Builder
	for i, r := range visible {
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

// problem is an error located by a node, or by a path that document.locate looks up in the tree.
// The reader returns problems, and the document converts them to Errors.
type problem struct {
	node    *yaml.Node
	path    string
	message string
	hint    string
}

func (p *problem) Error() string { return p.message }

// nodeIn returns the problem's node in a tree.
func (p *problem) nodeIn(root *yaml.Node) *yaml.Node {
	if p.node != nil {
		return p.node
	}
	return find(root, p.path)
}

func nodeProblem(n *yaml.Node, hint, format string, args ...any) error {
	return &problem{node: n, message: fmt.Sprintf(format, args...), hint: hint}
}

func pathProblem(path, hint, format string, args ...any) error {
	return &problem{path: path, message: fmt.Sprintf(format, args...), hint: hint}
}

// quote quotes a piece of the file for a message, shortened if necessary.
func quote(s string) string { return fmt.Sprintf("%q", clip(s, 40)) }

func clip(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

// suggest returns a hint with the allowed words and the word that was probably intended.
func suggest(given, label string, allowed []string) string {
	all := label + ": " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		all = label + ": none"
	}
	if nearest := Nearest(strings.ToLower(given), allowed); nearest != "" {
		return "did you mean " + nearest + "? " + strings.ToUpper(all[:1]) + all[1:]
	}
	return all
}

// Nearest returns the name that was probably intended by word, which differs by one typing mistake
// or by up to a third of the letters. It returns "" if there is none.
func Nearest(word string, names []string) string {
	const maxLen = 40
	if len(word) > maxLen {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(word)/3)
	for _, n := range names {
		if d := distance(word, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the Damerau–Levenshtein distance: the number of letters to insert, delete, replace,
// or swap with a neighbor to turn one word into the other.
func distance(a, b string) int {
	prevRow, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		nextRow := make([]int, len(b)+1)
		nextRow[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			nextRow[j+1] = min(row[j+1]+1, nextRow[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				nextRow[j+1] = min(nextRow[j+1], prevRow[j-1]+1)
			}
		}
		prevRow, row = row, nextRow
	}
	return row[len(b)]
}

func (s *Scenario) nodesHint() string {
	return fmt.Sprintf("the topology has %d nodes: n1 … n%d", s.Topology.Nodes, s.Topology.Nodes)
}

// hasNode doesn't build a list of names because there may be a million lookups.
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
	return pathProblem(path, s.clientsHint(), "there is no client %s", name)
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
		return pathProblem(path+".after", "shorten it, or set a longer limit", "%v after an event is later than the end of the run", e.After)
	case e.Every && e.Nth != 1:
		return pathProblem(path+".nth", "keep one of them", "every and nth are mutually exclusive")
	}
	return checkClient(s, path+".client", e.Client)
}

// checkLink checks that a link exists between a client and the resource, a client and a node that
// it can reach, or a node and its replica.
func checkLink(s *Scenario, path, link string) error {
	const hint = "a link connects a client to a node or to the resource r1, as in c1-n3"
	name, end, ok := nemesis.SplitLink(link)
	if !ok {
		return pathProblem(path, hint, "%s is not a link", quote(link))
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
		return pathProblem(path, s.nodesHint()+"; the resource is r1", "there is no node %s", end)
	}
	for _, c := range s.Clients {
		if c.Name == name && !c.canReach(end) {
			return pathProblem(path, name+" reaches "+strings.Join(c.Reach, ", "), "there is no link %s: %s can't reach %s", link, name, end)
		}
	}
	return nil
}
