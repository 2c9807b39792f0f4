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

// shape is what may stand at one place of a scenario file. It reads a node into a value,
// writes the node that a value would be read from, and describes itself: reader, writer
// and JSON Schema come from the same table, form.go.
type shape interface {
	read(n *yaml.Node, to reflect.Value) error
	// write returns nil for what no file says. like is what a file comes to that does not
	// say it, where there is such a value.
	write(at place, v, like reflect.Value) *yaml.Node
	schema() map[string]any
}

// field is one key of a section.
type field struct {
	key   string
	doc   string
	shape shape
	must  bool // it may not be left out
	more  bool // its section says what lies elsewhere, too, so it is written whatever its value
	// at is where its value lies in that of the section, by JSON's names as in event.nth;
	// "": by its key. Whole is the section's value itself.
	at string
}

// part finds the value of a field in that of its section, behind pointers, for which it
// makes room if it is told to. There is none behind nil, nor where a map lacks it.
func (f *field) part(section reflect.Value, room bool) reflect.Value {
	if !section.IsValid() || f.at == whole {
		return section
	}
	v := section
	for name := range strings.SplitSeq(f.path(), ".") {
		if v.Kind() == reflect.Map {
			item := reflect.New(v.Type().Elem()).Elem()
			if x := v.MapIndex(reflect.ValueOf(name)); x.IsValid() && !room {
				item.Set(x)
			} else if !room {
				return x
			}
			return item
		}
		for i := range v.NumField() {
			if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
				v = v.Field(i)
				break
			}
		}
		if v.Kind() == reflect.Pointer {
			if v.IsNil() && !room {
				return reflect.Value{}
			} else if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
	}
	return v
}

// path is where the value lies, by JSON's names.
func (f *field) path() string { return cmp.Or(f.at, f.key) }

func (f *field) read(n *yaml.Node, section reflect.Value) error {
	to := f.part(section, true)
	if err := f.shape.read(n, to); err != nil {
		return err
	}
	if section.Kind() == reflect.Map && f.at != whole {
		if section.IsNil() {
			section.Set(reflect.MakeMap(section.Type()))
		}
		section.SetMapIndex(reflect.ValueOf(f.key), to)
	}
	return nil
}

// removedKeys says what to use instead of keys that earlier releases had.
var removedKeys = map[string]string{
	"bypasses": "bypasses are no longer counted; delete the line, or bound jain-index or losing-streak",
}

// object is a section: a mapping with known keys.
type object struct {
	name   string
	fields []field
	fresh  func(v any) // makes what a section says that says nothing; nil: zero. v is a pointer
}

func (o object) read(n *yaml.Node, to reflect.Value) error {
	given, err := pairs(n, o.name, o.example())
	if err != nil {
		return err
	}
	if o.fresh != nil {
		o.fresh(to.Addr().Interface())
	}
	for _, p := range given {
		f := o.field(p.key.Value)
		if f == nil {
			hint := cmp.Or(removedKeys[p.key.Value], suggest(p.key.Value, "keys here", o.keys()))
			return bad(p.key, hint, "unknown key %s in %s", quote(p.key.Value), o.name)
		}
		if err := f.read(p.value, to); err != nil {
			return err
		}
	}
	for _, f := range o.fields {
		if f.must && child(n, f.key) < 0 {
			return bad(n, "add "+f.key+": "+f.doc, "%s has no %s", o.name, f.key)
		}
	}
	return nil
}

// write leaves out the keys that say nothing new.
func (o object) write(at place, v, like reflect.Value) *yaml.Node {
	if !like.IsValid() {
		like = reflect.New(v.Type()).Elem()
		if o.fresh != nil {
			o.fresh(like.Addr().Interface())
		}
	}
	n := at.node(yaml.MappingNode, "")
	for _, f := range o.fields {
		x, y := f.part(v, false), f.part(like, false)
		if !x.IsValid() || !f.must && !f.more && y.IsValid() && reflect.DeepEqual(x.Interface(), y.Interface()) {
			continue
		}
		in := at.in(f.path())
		if value := f.shape.write(in, x, y); value != nil {
			n.Content = append(n.Content, in.leaf(f.key), value)
		}
	}
	return n
}

// below is the same section of a value that lies below another one's.
func (o object) below(at string) object {
	o.fields = slices.Clone(o.fields)
	for i := range o.fields {
		o.fields[i].at = at + "." + o.fields[i].path()
	}
	return o
}

func (o object) field(key string) *field {
	for i := range o.fields {
		if o.fields[i].key == key {
			return &o.fields[i]
		}
	}
	return nil
}

func (o object) keys() []string {
	var keys []string
	for _, f := range o.fields {
		keys = append(keys, f.key)
	}
	return keys
}

func (o object) example() string {
	return "write key: value pairs; keys here: " + strings.Join(o.keys(), ", ")
}

func (o object) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range o.fields {
		s := f.shape.schema()
		s["description"] = f.doc
		properties[f.key] = s
		if f.must {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// pair is one entry of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs returns the entries of a mapping whose keys are single words, each once.
func pairs(n *yaml.Node, name, hint string) ([]pair, error) {
	if n.Kind != yaml.MappingNode {
		return nil, bad(n, hint, "%s must be a mapping, not %s", name, sortOf(n))
	}
	var out []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, bad(key, hint, "a key in %s must be a single word", name)
		}
		if line, again := seen[key.Value]; again {
			hint := "keep one of them"
			if line > 0 {
				hint = fmt.Sprintf("it stands in line %d already; %s", line, hint)
			}
			return nil, bad(key, hint, "key %s is given twice in %s", quote(key.Value), name)
		}
		seen[key.Value] = key.Line
		out = append(out, pair{key, n.Content[i+1]})
	}
	return out, nil
}

// sortOf names the sort of a node for messages.
func sortOf(n *yaml.Node) string {
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

// scalar is a shape with one value. parse returns what is wrong with the text, or nothing,
// and a hint that is better than the usual one, if there is any; show is the reverse.
type scalar[T any] struct {
	name, hint string
	as         map[string]any // the schema
	parse      func(text string) (v T, wrong, hint string)
	show       func(v T) string // nil: as fmt.Print does
}

// fitting is a scalar of which nothing is to be said but whether it fits.
func fitting[T any](name, hint string, as map[string]any, parse func(text string) (v T, fits bool), show func(T) string) shape {
	return scalar[T]{name, hint, as, func(s string) (T, string, string) {
		v, fits := parse(s)
		if !fits {
			return v, quote(s) + " is not allowed here", ""
		}
		return v, "", ""
	}, show}
}

func (s scalar[T]) read(n *yaml.Node, to reflect.Value) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return bad(n, s.hint, "expected %s, not %s", s.name, sortOf(n))
	}
	v, wrong, hint := s.parse(n.Value)
	if wrong != "" {
		return bad(n, cmp.Or(hint, s.hint), "%s", wrong)
	}
	to.Set(reflect.ValueOf(v).Convert(to.Type()))
	return nil
}

func (s scalar[T]) write(at place, v, _ reflect.Value) *yaml.Node {
	x := v.Convert(reflect.TypeFor[T]()).Interface().(T)
	switch text, isText := any(x).(string); {
	case isText:
		return at.text(text)
	case s.show == nil:
		return at.leaf(fmt.Sprint(x))
	}
	return at.leaf(s.show(x))
}

func (s scalar[T]) schema() map[string]any { return maps.Clone(s.as) }

// prose is a sentence or a line of prose.
var prose = scalar[string]{"a text", "write a sentence", map[string]any{"type": "string", "minLength": 1}, func(s string) (string, string, string) {
	if strings.TrimSpace(s) == "" {
		return "", "the text is empty", ""
	}
	return s, "", ""
}, nil}

// word is one of a few words, or of a pattern.
type word struct {
	sort    string
	allowed []string
	pattern *regexp.Regexp // instead of allowed
	hint    string         // with a pattern
}

func oneOf(sort string, allowed ...string) word { return word{sort: sort, allowed: allowed} }

func (w word) check(n *yaml.Node) error {
	switch v := n.Value; {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		return bad(n, suggest("", "known", w.allowed), "expected a %s, not %s", w.sort, sortOf(n))
	case w.pattern != nil && !w.pattern.MatchString(v):
		return bad(n, w.hint, "%s is no name for a %s", quote(v), w.sort)
	case w.pattern != nil && len(v) > longestName:
		return bad(n, fmt.Sprintf("at most %d characters", longestName), "the name of this %s has %d characters", w.sort, len(v))
	case w.pattern == nil && !slices.Contains(w.allowed, v):
		return bad(n, suggest(v, "known", w.allowed), "unknown %s %s", w.sort, quote(v))
	}
	return nil
}

func (w word) read(n *yaml.Node, to reflect.Value) error {
	if err := w.check(n); err != nil {
		return err
	}
	to.SetString(n.Value)
	return nil
}

func (w word) write(at place, v, _ reflect.Value) *yaml.Node { return at.text(v.String()) }

func (w word) schema() map[string]any {
	if w.pattern != nil {
		return map[string]any{"type": "string", "pattern": w.pattern.String()}
	}
	return map[string]any{"enum": w.allowed}
}

var longestName = 64 // a file name holds two with a plus between them

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	clientPattern = regexp.MustCompile(`^c[1-9][0-9]{0,2}$`)
	nodePattern   = regexp.MustCompile(`^n[1-9][0-9]{0,2}$`)

	clientName = word{sort: "client", pattern: clientPattern, hint: "clients are called c1, c2, …"}
	nodeName   = word{sort: "node", pattern: nodePattern, hint: "nodes are called n1, n2, …"}
	target     = word{sort: "target", pattern: regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)?$`), hint: "a client (c1), a node (n3) or a link (c1-n3)"}
)

func named(sort string) word {
	return word{sort: sort, pattern: namePattern, hint: "small letters and digits, with single dashes between them"}
}

// imagePattern is as much of an image's name as can be told without the registry:
// HOST:PORT/ and NAME, of small letters, :TAG, @DIGEST.
var imagePattern = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// longestImage is as long as a registry takes.
const longestImage = 255

var imageName = scalar[string]{"the name of an image", "as in redis:7, valkey/valkey:8 or localhost:5000/redis:7",
	map[string]any{"type": "string", "pattern": imagePattern.String()}, func(s string) (string, string, string) {
		if len(s) > longestImage || !imagePattern.MatchString(s) {
			return "", quote(s) + " is no name of an image", ""
		}
		return s, "", ""
	}, nil}

// integer is a whole number within bounds.
func integer(least, most int) shape {
	return fitting("a number", fmt.Sprintf("a whole number from %d to %d", least, most), map[string]any{"type": "integer", "minimum": least, "maximum": most},
		func(s string) (int, bool) {
			v, err := strconv.Atoi(s)
			return v, err == nil && v >= least && v <= most
		}, nil)
}

// factor is a number above zero; as says what some of them mean.
func factor(as string) shape {
	return fitting("a number", "a number above 0 and up to 100; "+as,
		map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": maxScale}, func(s string) (float64, bool) {
			v, err := strconv.ParseFloat(s, 64)
			return v, err == nil && v > 0 && v <= maxScale
		}, decimal)
}

var (
	pace = factor("1 is true to the file, 0.1 ten times as fast")
	rate = factor("1 is a clock that is right, 1.1 one that gains a tenth, 0.9 one that loses a tenth")
)

// truth is true or false.
var truth = scalar[bool]{"true or false", "write true or false", map[string]any{"type": "boolean"}, func(s string) (bool, string, string) {
	if s != "true" && s != "false" {
		return false, quote(s) + " is neither true nor false", ""
	}
	return s == "true", "", ""
}, nil}

// percent is a share of one that is below a bound, written as in "1%" or "0.5%".
func percent(below float64) shape {
	return share(fmt.Sprintf("to below %g%%", 100*below), func(v float64) bool { return v < below })
}

// upToAll is a share that may be all.
var upToAll = share("up to 100%", func(v float64) bool { return v <= 1 })

func share(until string, fits func(float64) bool) shape {
	return fitting("a percentage", "a percentage from 0% "+until+", as in 1%",
		map[string]any{"type": "string", "pattern": `^[0-9.]+%$`}, func(s string) (float64, bool) {
			digits, ok := strings.CutSuffix(s, "%")
			v, err := strconv.ParseFloat(digits+"e-2", 64) // divided by 100 it would be rounded twice
			return v, ok && err == nil && v >= 0 && fits(v)
		}, hundredfold)
}

// hundredfold is a share as a percentage that is read as exactly this share.
func hundredfold(x float64) string {
	if x == 0 {
		return "0%"
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	e, _ := strconv.Atoi(exponent)
	whole, fraction, _ := strings.Cut(digits, ".")
	point := e + 2 // digits of whole and fraction that stand before the point, less one
	all := whole + fraction
	switch {
	case point < 0:
		return "0." + strings.Repeat("0", -point-1) + all + "%"
	case point+1 >= len(all):
		return all + strings.Repeat("0", point+1-len(all)) + "%"
	}
	return all[:point+1] + "." + all[point+1:] + "%"
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// processor is a share of one processor. Less than a hundredth no kernel gives in
// slices that a run would notice.
var processor = fitting("a share of one processor", "a number from 0.01 to 1, as in 0.02", map[string]any{"type": "number", "minimum": 0.01, "maximum": 1},
	func(s string) (float64, bool) {
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil && v >= 0.01 && v <= 1
	}, decimal)

// size is a number of bytes with its unit. Less than the least no container gets.
var size = fitting("a number of bytes", "a number with its unit, from 6MB to 1GB, as in 8MB or 6500KB", map[string]any{"type": "string", "pattern": `^[0-9]+(KB|MB|GB)$`},
	func(s string) (int, bool) {
		digits := strings.TrimRight(s, "KMGB")
		n, err := strconv.Atoi(digits)
		bytes := n * map[string]int{"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[s[len(digits):]]
		return bytes, err == nil && n <= 1<<20 && bytes >= 6<<20 && bytes <= 1<<30
	}, func(n int) string {
		if n%1024 == 0 {
			return strconv.Itoa(n/1024) + "KB"
		}
		return strconv.Itoa(n)
	})

const (
	durationHint = "a number with its unit, as in 10s, 50ms or 1m30s"
	durationJSON = `([0-9.]+(ms|us|µs|s|m|h))+|0`
)

func parseDuration(s string, least time.Duration) (d time.Duration, wrong, hint string) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, quote(s) + " is not a duration", durationHint
	case d < 0:
		return 0, quote(s) + " is negative", "time runs forward only"
	case d < least:
		return 0, quote(s) + " is too short", fmt.Sprintf("at least %v", least)
	case d > maxDuration:
		return 0, quote(s) + " is too long", fmt.Sprintf("at most %v", maxDuration)
	}
	return d, "", ""
}

// duration is a length of time.
func duration(least time.Duration) shape {
	return scalar[time.Duration]{"a duration", durationHint, map[string]any{"type": "string", "pattern": "^(" + durationJSON + ")$"},
		func(s string) (time.Duration, string, string) { return parseDuration(s, least) }, nil}
}

// signed is a length of time, or one back.
func signed(unit time.Duration) shape {
	return scalar[time.Duration]{"a duration", "a number with its unit, as in 11s, or -5s to go back", map[string]any{"type": "string", "pattern": "^-?(" + durationJSON + ")$"},
		func(s string) (time.Duration, string, string) {
			digits, back := strings.CutPrefix(s, "-")
			d, wrong, hint := parseDuration(digits, unit)
			if back {
				d = -d
			}
			return d, wrong, hint
		}, nil}
}

// between is a range of durations, "50ms..500ms", or a single one.
func between(least time.Duration) shape {
	return scalar[client.Range]{"a range of durations", "one duration, as in 2s, or the two ends of a range, as in 50ms..500ms",
		map[string]any{"type": "string", "pattern": fmt.Sprintf(`^(%s)(\.\.(%s))?$`, durationJSON, durationJSON)},
		func(s string) (r client.Range, wrong, hint string) {
			from, upto, isRange := strings.Cut(s, "..")
			if !isRange {
				upto = from
			}
			if r.Min, wrong, hint = parseDuration(strings.TrimSpace(from), least); wrong != "" {
				return r, wrong, hint
			}
			if r.Max, wrong, hint = parseDuration(strings.TrimSpace(upto), least); wrong == "" && r.Min > r.Max {
				return r, "the range " + quote(s) + " ends before it begins", fmt.Sprintf("write the shorter end first: %v..%v", r.Max, r.Min)
			}
			return r, wrong, hint
		},
		func(r client.Range) string { return nemesis.Span(r).String() }}
}
