package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// shape describes the allowed content at one place in a scenario file. It reads a node into a
// value, writes a value as a node, and returns its JSON Schema, so that all three follow from one
// table (form.go).
type shape interface {
	read(n *yaml.Node, to reflect.Value) error
	// write returns nil if the file omits the value. path is v's field in a run.json.
	write(w writer, path string, v reflect.Value) *yaml.Node
	schema() map[string]any
}

// field is one key of a section.
type field struct {
	key         string
	doc         string
	shape       shape
	required    bool
	defaultText string // default value as written in a file; "": zero value
	// goPath is the path of Go fields from the section's value to this one, as in event.nth. ""
	// means the field whose name is key, and wholeSection means the section's value itself.
	goPath string
	dest   any // pointer to the value, if it is stored outside the section's value
	// jsonPath is the value's path in a run.json if it differs from goPath. It is relative to the
	// section's path, or to the scenario's if dest is set.
	jsonPath string
}

// wholeSection is the goPath of a field whose value is the section's value.
const wholeSection = "."

// value returns the field's value within the section's. optional reports whether the value is
// behind a pointer or in a map. A missing value is returned as the zero reflect.Value or, if create
// is set, created; the caller must put a created value into its map.
func (f *field) value(section reflect.Value, create bool) (v reflect.Value, optional bool) {
	switch {
	case f.dest != nil:
		return reflect.ValueOf(f.dest).Elem(), false
	case f.goPath == wholeSection:
		return section, false
	case section.Kind() == reflect.Map && create:
		return reflect.New(section.Type().Elem()).Elem(), true
	case section.Kind() == reflect.Map:
		return section.MapIndex(reflect.ValueOf(f.key)), true
	}
	v = section
	for name := range strings.SplitSeq(cmp.Or(f.goPath, f.key), ".") {
		v = v.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
		if optional = v.Kind() == reflect.Pointer; !optional {
			continue
		}
		if v.IsNil() && !create {
			return reflect.Value{}, true
		} else if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	return v, optional
}

func (f *field) read(n *yaml.Node, section reflect.Value) error {
	v, _ := f.value(section, true)
	if err := f.shape.read(n, v); err != nil || section.Kind() != reflect.Map || f.dest != nil {
		return err
	}
	if section.IsNil() {
		section.Set(reflect.MakeMap(section.Type()))
	}
	section.SetMapIndex(reflect.ValueOf(f.key), v)
	return nil
}

// write returns nil for default values.
func (f *field) write(w writer, path string, section reflect.Value) *yaml.Node {
	v, optional := f.value(section, false)
	if !v.IsValid() {
		return nil
	}
	if def := reflect.New(v.Type()).Elem(); !f.required && !optional && f.defaultText == "" {
		if f.setDefault(def); reflect.DeepEqual(v.Interface(), def.Interface()) {
			return nil
		}
	}
	n := f.shape.write(w, f.path(path), v)
	if f.defaultText != "" && n.Value == f.defaultText {
		return nil
	}
	return n
}

// setDefault sets a value to its default.
func (f *field) setDefault(v reflect.Value) {
	switch s := f.shape.(type) {
	case object:
		s.setDefaults(v, &yaml.Node{})
	case scalar:
		if f.defaultText != "" {
			def, _, _ := s.parse(f.defaultText)
			s.set(v, def)
		}
	}
}

// path returns the field's path in a run.json, given its section's path.
func (f *field) path(section string) string {
	switch {
	case f.dest != nil:
		return "scenario." + cmp.Or(f.jsonPath, f.key)
	case f.jsonPath != "":
		return section + "." + f.jsonPath
	case f.goPath == wholeSection:
		return section
	}
	return section + "." + cmp.Or(f.goPath, f.key)
}

// removedKeys contains hints for keys of earlier releases.
var removedKeys = map[string]string{
	"bypasses": "bypasses are no longer counted; delete the line, or bound jain-index or losing-streak",
}

// object is a section: a mapping with known keys.
type object struct {
	name   string
	fields []field
}

func (o object) read(n *yaml.Node, to reflect.Value) error {
	entries, err := pairs(n, o.name, "write key: value pairs; keys here: "+strings.Join(o.keys(), ", "))
	if err != nil {
		return err
	}
	for _, p := range entries {
		i := slices.Index(o.keys(), p.key.Value)
		if i < 0 {
			hint := cmp.Or(removedKeys[p.key.Value], suggest(p.key.Value, "keys here", o.keys()))
			return nodeProblem(p.key, hint, "unknown key %s in %s", quote(p.key.Value), o.name)
		}
		if err := o.fields[i].read(p.value, to); err != nil {
			return err
		}
	}
	for _, f := range o.fields {
		if f.required && childIndex(n, f.key) < 0 {
			return nodeProblem(n, "add "+f.key+": "+f.doc, "%s has no %s", o.name, f.key)
		}
	}
	o.setDefaults(to, n)
	return nil
}

// setDefaults sets the fields that a section omits to their defaults.
func (o object) setDefaults(to reflect.Value, n *yaml.Node) {
	for _, f := range o.fields {
		if childIndex(n, f.key) >= 0 {
			continue
		}
		if v, _ := f.value(to, f.defaultText != ""); v.IsValid() {
			f.setDefault(v)
		}
	}
}

func (o object) write(w writer, path string, v reflect.Value) *yaml.Node {
	n := w.node(path, yaml.MappingNode, "")
	for _, f := range o.fields {
		if value := f.write(w, path, v); value != nil {
			n.Content = append(n.Content, w.node(f.path(path), yaml.ScalarNode, f.key), value)
		}
	}
	return n
}

func (o object) keys() []string {
	var keys []string
	for _, f := range o.fields {
		keys = append(keys, f.key)
	}
	return keys
}

func (o object) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range o.fields {
		s := f.shape.schema()
		s["description"] = f.doc
		properties[f.key] = s
		if f.required {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// pair is an entry of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs returns the entries of a mapping. It rejects duplicate keys and keys that are not single
// words.
func pairs(n *yaml.Node, name, hint string) ([]pair, error) {
	if n.Kind != yaml.MappingNode {
		return nil, nodeProblem(n, hint, "%s must be a mapping, not %s", name, describeNode(n))
	}
	var out []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, nodeProblem(key, hint, "keys in %s must be single words", name)
		}
		if line, duplicate := seen[key.Value]; duplicate {
			hint := "keep one of them"
			if line > 0 {
				hint = fmt.Sprintf("it already appears on line %d; %s", line, hint)
			}
			return nil, nodeProblem(key, hint, "duplicate key %s in %s", quote(key.Value), name)
		}
		seen[key.Value] = key.Line
		out = append(out, pair{key, n.Content[i+1]})
	}
	return out, nil
}

// describeNode describes a node's kind for messages.
func describeNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return quote(n.Value)
}

// alternatives is a value that can be written in several forms. The first form is the default.
type alternatives []form

type form struct {
	field
	hasForm func(n *yaml.Node) bool // reports whether a node has this form; not used for the first form
	marker  string                  // path of a value that only this form has, or ""
}

// matches reports whether a value has this form.
func (f *form) matches(v reflect.Value) bool {
	if f.marker == "" {
		return false
	}
	marked, optional := (&field{goPath: f.marker}).value(v, false)
	return marked.IsValid() && (optional || !marked.IsZero())
}

// isSection reports whether a node is a section rather than a single value.
func isSection(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }

// hasKey returns a function that reports whether a node is a section with the given key.
func hasKey(key string) func(n *yaml.Node) bool {
	return func(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && childIndex(n, key) >= 0 }
}

func (e alternatives) read(n *yaml.Node, to reflect.Value) error {
	for _, f := range e[1:] {
		if f.hasForm(n) {
			return f.read(n, to)
		}
	}
	return e[0].read(n, to)
}

// write merges the sections of a value that matches several forms, so that reading the result
// reports the error.
func (e alternatives) write(w writer, path string, v reflect.Value) (n *yaml.Node) {
	for _, f := range e {
		if !f.matches(v) {
			continue
		}
		next := f.write(w, path, v)
		if n != nil && isSection(n) {
			next.Content = append(n.Content, next.Content...)
		}
		n = next
	}
	if n == nil {
		n = e[0].write(w, path, v)
	}
	return n
}

func (e alternatives) schema() map[string]any {
	var all []any
	for _, f := range e {
		all = append(all, f.shape.schema())
	}
	return map[string]any{"oneOf": all}
}

// trigger is the section "when", which must have the keys of exactly one form.
type trigger struct{ alternatives }

func (t trigger) read(n *yaml.Node, to reflect.Value) error {
	var keys, forms []string
	for _, f := range t.alternatives {
		keys, forms = append(keys, f.marker), append(forms, "{"+strings.Join(f.shape.(object).keys(), ", ")+"}")
	}
	entries, err := pairs(n, "when", "write one of: "+strings.Join(keys, ", "))
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(p pair) bool { return !slices.Contains(keys, p.key.Value) })
	switch {
	case len(entries) == 0:
		return nodeProblem(n, "use one of "+strings.Join(forms, " or "), `"when" needs one of %s`, strings.Join(keys, ", "))
	case len(entries) > 1:
		return nodeProblem(entries[1].key, "keep one, or use two steps", `two triggers in one "when": %s and %s`, entries[0].key.Value, entries[1].key.Value)
	}
	return t.alternatives.read(n, to)
}

type sequence struct {
	name       string
	min        int
	max        int
	item       shape
	isDistinct bool // the items are words, which must be distinct
}

func (l sequence) read(n *yaml.Node, to reflect.Value) error {
	if n.Kind != yaml.SequenceNode {
		return nodeProblem(n, "write [a, b], or one item per line, each after a dash", "%s must be a list, not %s", l.name, describeNode(n))
	}
	if len(n.Content) > l.max {
		return nodeProblem(n.Content[l.max], fmt.Sprintf("at most %d are allowed", l.max), "%s is too long", l.name)
	}
	if len(n.Content) < l.min {
		return nodeProblem(n, "add at least one item", "%s is empty", l.name)
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
		if l.isDistinct && seen[c.Value] {
			return nodeProblem(c, "remove one of them", "%s is repeated in %s", quote(c.Value), l.name)
		}
		seen[c.Value] = true
	}
	to.Set(all)
	return nil
}

func (l sequence) write(w writer, path string, v reflect.Value) *yaml.Node {
	if v.Len() == 0 {
		return nil
	}
	n := w.node(path, yaml.SequenceNode, "")
	n.Style = yaml.FlowStyle
	for i := range v.Len() {
		n.Content = append(n.Content, l.item.write(w, fmt.Sprintf("%s[%d]", path, i), v.Index(i)))
	}
	return n
}

func (l sequence) schema() map[string]any {
	s := map[string]any{"type": "array", "minItems": l.min, "maxItems": l.max, "items": l.item.schema()}
	if l.isDistinct {
		s["uniqueItems"] = true
	}
	return s
}

// distinctWords returns a list of distinct words.
func distinctWords(name string, word scalar) shape { return sequence{name, 1, maxItems, word, true} }

// dict is a mapping with names as keys. It is stored as a slice of structs in the same order.
type dict struct {
	name string
	key  scalar // the names
	max  int
	item shape
}

func (m dict) read(n *yaml.Node, to reflect.Value) error {
	entries, err := pairs(n, m.name, "write name: … pairs")
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return nodeProblem(n, "leave it out, or add at least one entry", "%s is empty", m.name)
	}
	if len(entries) > m.max {
		return nodeProblem(entries[m.max].key, fmt.Sprintf("at most %d are allowed", m.max), "too many entries in %s", m.name)
	}
	all := reflect.MakeSlice(to.Type(), len(entries), len(entries))
	for i, p := range entries {
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

func (m dict) write(w writer, path string, v reflect.Value) *yaml.Node {
	n := w.node(path, yaml.MappingNode, "")
	for i := range v.Len() {
		item := fmt.Sprintf("%s[%d]", path, i)
		name := w.node(item+".name", yaml.ScalarNode, v.Index(i).FieldByName("Name").String())
		n.Content = append(n.Content, name, m.item.write(w, item, v.Index(i)))
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

// deferredShape stores the node itself, which is read in a later step.
type deferredShape struct{ shape }

func (deferredShape) read(n *yaml.Node, to reflect.Value) error {
	to.Set(reflect.ValueOf(n).Elem())
	return nil
}

// scalar is a single value. If the text is invalid, parse returns a description of the mistake and
// a hint; "" means the general hint.
type scalar struct {
	name, hint string
	jsonSchema map[string]any
	parse      func(text string) (v any, wrong, hint string)
	assign     func(to reflect.Value, v any) // nil means assignment
	format     func(v reflect.Value) string  // nil means fmt.Sprint
}

func (s scalar) read(n *yaml.Node, to reflect.Value) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return nodeProblem(n, s.hint, "expected %s, not %s", s.name, describeNode(n))
	}
	v, errText, hint := s.parse(n.Value)
	if errText != "" {
		return nodeProblem(n, cmp.Or(hint, s.hint), "%s", errText)
	}
	s.set(to, v)
	return nil
}

func (s scalar) set(to reflect.Value, v any) {
	if s.assign != nil {
		s.assign(to, v)
	} else {
		to.Set(reflect.ValueOf(v).Convert(to.Type()))
	}
}

func (s scalar) write(w writer, path string, v reflect.Value) *yaml.Node {
	if s.format != nil {
		return w.node(path, yaml.ScalarNode, s.format(v))
	}
	n := w.node(path, yaml.ScalarNode, fmt.Sprint(v.Interface()))
	if v.Kind() == reflect.String {
		n.Tag = "!!str" // quote the value if it would otherwise be read as a different type
	}
	return n
}

func (s scalar) schema() map[string]any { return maps.Clone(s.jsonSchema) }

// newScalar returns a scalar with the same hint for all errors.
func newScalar[T any](name, hint string, jsonSchema map[string]any, parse func(text string) (v T, errText string)) scalar {
	return scalar{name: name, hint: hint, jsonSchema: jsonSchema, parse: func(s string) (any, string, string) {
		v, errText := parse(s)
		return v, errText, ""
	}}
}

// newScalarFunc returns a scalar with the same message and hint for all errors.
func newScalarFunc[T any](name, hint string, jsonSchema map[string]any, parse func(text string) (v T, ok bool)) scalar {
	return newScalar(name, hint, jsonSchema, func(s string) (T, string) {
		v, ok := parse(s)
		if !ok {
			return v, quote(s) + " is not allowed here"
		}
		return v, ""
	})
}

var nonEmptyText = newScalar("text", "write a sentence", map[string]any{"type": "string", "minLength": 1}, func(s string) (string, string) {
	if strings.TrimSpace(s) == "" {
		return "", "the text is empty"
	}
	return s, ""
})

// oneOf accepts the allowed words.
func oneOf(noun string, allowed ...string) scalar {
	return scalar{name: withArticle(noun), hint: suggest("", "known", allowed), jsonSchema: map[string]any{"enum": allowed}, parse: func(s string) (any, string, string) {
		if !slices.Contains(allowed, s) {
			return s, "unknown " + noun + " " + quote(s), suggest(s, "known", allowed)
		}
		return s, "", ""
	}}
}

func withArticle(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// nameScalar accepts names that match a pattern.
func nameScalar(noun string, pattern *regexp.Regexp, hint string) scalar {
	return scalar{name: "a " + noun, hint: "known: none", jsonSchema: patternSchema(pattern.String()), parse: func(s string) (any, string, string) {
		switch {
		case !pattern.MatchString(s):
			return nil, quote(s) + " is not a valid name for a " + noun, hint
		case len(s) > maxNameLen:
			return nil, fmt.Sprintf("the name of this %s has %d characters", noun, len(s)), fmt.Sprintf("at most %d characters", maxNameLen)
		}
		return s, "", ""
	}}
}

func patternSchema(pattern string) map[string]any {
	return map[string]any{"type": "string", "pattern": pattern}
}

const maxNameLen = 64 // a file name may contain two names joined by a plus

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	clientPattern = regexp.MustCompile(`^c[1-9][0-9]{0,2}$`)
	nodePattern   = regexp.MustCompile(`^n[1-9][0-9]{0,2}$`)

	clientName = nameScalar("client", clientPattern, "clients are called c1, c2, …")
	nodeName   = nameScalar("node", nodePattern, "nodes are called n1, n2, …")
	nodeOrSet  = nameScalar("node", regexp.MustCompile(`^(n[1-9][0-9]{0,2}|`+anyNodeSet+`)$`), "a node (n3), or one of "+strings.Join(nodeSetNames(), ", "))
	target     = nameScalar("target", regexp.MustCompile(`^([a-z0-9]+(-[a-z0-9]+)?|(c[1-9][0-9]{0,2}-)?(`+anyNodeSet+`)|(`+anyNodeSet+`)-`+nemesis.Replica+`)$`),
		"a client (c1), a node (n3), a link (c1-n3), or a set of nodes ("+strings.Join(nodeSetNames(), ", ")+") or of links to them (c1-shared)")
)

// anyNodeSet matches the name of any set of nodes.
var anyNodeSet = strings.Join(nodeSetNames(), "|")

func dashedName(noun string) scalar {
	return nameScalar(noun, namePattern, "lower-case letters and digits, separated by single dashes")
}

var nodeCounts = newScalar("numbers of nodes", "as in 4, 3.., 3..7, even, or 3.. odd",
	map[string]any{"oneOf": []any{map[string]any{"type": "integer", "minimum": 1}, patternSchema(sizesPattern.String())}}, func(s string) (string, string) {
		if !sizesPattern.MatchString(s) {
			return "", quote(s) + " does not describe numbers of nodes"
		}
		return s, ""
	})

// imagePattern checks an image name as far as possible without the registry: HOST:PORT/, a NAME in
// lower case, :TAG, @DIGEST.
var imagePattern = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// maxImageLen is the maximum length of an image name in registries.
const maxImageLen = 255

var imageName = newScalar("the name of an image", "as in redis:7, valkey/valkey:8 or localhost:5000/redis:7", patternSchema(imagePattern.String()), func(s string) (string, string) {
	if len(s) > maxImageLen || !imagePattern.MatchString(s) {
		return "", quote(s) + " is not an image name"
	}
	return s, ""
})

// integer accepts whole numbers from lower to upper.
func integer(lower, upper int) scalar {
	return newScalarFunc("a number", fmt.Sprintf("a whole number from %d to %d", lower, upper), map[string]any{"type": "integer", "minimum": lower, "maximum": upper},
		func(s string) (int, bool) {
			v, err := strconv.Atoi(s)
			return v, err == nil && v >= lower && v <= upper
		})
}

func decimal(name, hint string, jsonSchema map[string]any, isAllowed func(float64) bool) scalar {
	jsonSchema["type"] = "number"
	return newScalarFunc(name, hint, jsonSchema, func(s string) (float64, bool) {
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil && isAllowed(v)
	})
}

func factor(meaning string) scalar {
	return decimal("a number", "a number above 0 and up to 100; "+meaning, map[string]any{"exclusiveMinimum": 0, "maximum": maxScale},
		func(v float64) bool { return v > 0 && v <= maxScale })
}

var (
	scaleFactor = factor("1 runs as written in the file, 0.1 ten times as fast")
	clockRate   = factor("1 is correct, 1.1 runs 10% fast, 0.9 runs 10% slow")

	// cpuShare is a share of one processor. The minimum is a hundredth because kernels allocate
	// smaller shares too coarsely for a run.
	cpuShare = decimal("a share of one processor", "a number from 0.01 to 1, as in 0.02", map[string]any{"minimum": 0.01, "maximum": 1},
		func(v float64) bool { return v >= 0.01 && v <= 1 })
)

var boolean = newScalar("true or false", "write true or false", map[string]any{"type": "boolean"}, func(s string) (bool, string) {
	if s != "true" && s != "false" {
		return false, quote(s) + " is neither true nor false"
	}
	return s == "true", ""
})

// percent accepts percentages below a limit, written as "1%" or "0.5%".
func percent(limit float64) scalar {
	return share(fmt.Sprintf("to less than %g%%", 100*limit), func(v float64) bool { return v < limit })
}

// fullShare accepts percentages up to 100%.
var fullShare = share("to 100%", func(v float64) bool { return v <= 1 })

func share(upperBound string, isAllowed func(float64) bool) scalar {
	p := newScalarFunc("a percentage", "a percentage from 0% "+upperBound+", as in 1%", patternSchema(`^[0-9.]+%$`), func(s string) (float64, bool) {
		digits, ok := strings.CutSuffix(s, "%")
		v, err := strconv.ParseFloat(digits+"e-2", 64) // dividing by 100 would round twice
		return v, ok && err == nil && v >= 0 && isAllowed(v)
	})
	p.format = func(v reflect.Value) string { return formatPercent(v.Float()) }
	return p
}

// formatPercent formats a share as a percentage that parses to exactly the same share.
func formatPercent(x float64) string {
	switch {
	case x == 0:
		return "0%"
	case x < 0:
		return "-" + formatPercent(-x)
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	e, _ := strconv.Atoi(exponent)
	intPart, fraction, _ := strings.Cut(digits, ".")
	point := e + 2 // number of digits before the decimal point, minus one
	allDigits := intPart + fraction
	switch {
	case point < 0:
		return "0." + strings.Repeat("0", -point-1) + allDigits + "%"
	case point+1 >= len(allDigits):
		return allDigits + strings.Repeat("0", point+1-len(allDigits)) + "%"
	}
	return allDigits[:point+1] + "." + allDigits[point+1:] + "%"
}

// byteSize accepts a number of bytes with a unit. The minimum is the least memory that a container
// can have.
var byteSize = func() scalar {
	p := newScalarFunc("a number of bytes", "a number with a unit, from 6MB to 1GB, as in 8MB or 6500KB", patternSchema(`^[0-9]+(KB|MB|GB)$`),
		func(s string) (int, bool) {
			digits := strings.TrimRight(s, "KMGB")
			n, err := strconv.Atoi(digits)
			bytes := n * map[string]int{"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[s[len(digits):]]
			return bytes, err == nil && n <= 1<<20 && bytes >= 6<<20 && bytes <= 1<<30
		})
	p.format = func(v reflect.Value) string {
		if n := v.Int(); n%1024 != 0 {
			return strconv.FormatInt(n, 10)
		}
		return strconv.FormatInt(v.Int()/1024, 10) + "KB"
	}
	return p
}()

const (
	durationHint = "a number with a unit, as in 10s, 50ms or 1m30s"
	durationJSON = `([0-9.]+(ms|us|µs|s|m|h))+|0`
)

func parseDuration(s string, minimum time.Duration) (d time.Duration, errText, hint string) {
	if d, err := time.ParseDuration(s); err == nil && d < 0 {
		return 0, quote(s) + " is negative", "time only runs forward"
	}
	return parseSignedDuration(s, minimum)
}

// parseSignedDuration is like parseDuration, but accepts negative durations.
func parseSignedDuration(s string, minimum time.Duration) (d time.Duration, errText, hint string) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, quote(s) + " is not a duration", durationHint
	case d.Abs() < minimum:
		return 0, quote(s) + " is too short", fmt.Sprintf("at least %v", minimum)
	case d.Abs() > maxDuration:
		return 0, quote(s) + " is too long", fmt.Sprintf("at most %v", maxDuration)
	}
	return d, "", ""
}

func duration(minimum time.Duration) scalar {
	return scalar{name: "a duration", hint: durationHint, jsonSchema: patternSchema("^(" + durationJSON + ")$"), parse: func(s string) (any, string, string) { return parseDuration(s, minimum) }}
}

func signedDuration(minimum time.Duration) scalar {
	return scalar{name: "a duration", hint: "a number with a unit, as in 11s, or -5s to go back", jsonSchema: patternSchema("^-?(" + durationJSON + ")$"),
		parse: func(s string) (any, string, string) { return parseSignedDuration(s, minimum) }}
}

// durationRange accepts a range of durations, as in 50ms..500ms, or a single duration.
func durationRange(minimum time.Duration) scalar {
	return scalar{name: "a range of durations", hint: "a duration, as in 2s, or a range, as in 50ms..500ms",
		jsonSchema: patternSchema(fmt.Sprintf(`^(%s)(\.\.(%s))?$`, durationJSON, durationJSON)),
		parse: func(s string) (any, string, string) {
			from, to, isRange := strings.Cut(s, "..")
			if !isRange {
				to = from
			}
			lower, errText, hint := parseDuration(strings.TrimSpace(from), minimum)
			if errText != "" {
				return nil, errText, hint
			}
			upper, errText, hint := parseDuration(strings.TrimSpace(to), minimum)
			if errText == "" && lower > upper {
				return nil, "the range " + quote(s) + " is reversed", fmt.Sprintf("write the shorter duration first: %v..%v", upper, lower)
			}
			return client.Range{Min: lower, Max: upper}, errText, hint
		},
		format: func(v reflect.Value) string {
			return fmt.Sprint(v.Convert(reflect.TypeFor[nemesis.Span]()).Interface())
		}}
}
