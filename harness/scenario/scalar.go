package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
)

// scalar is a shape with one value. parse returns what is wrong with the text
// and a hint, or nothing.
type scalar struct {
	name  string
	hint  string
	parse func(text string) (wrong, hint string)
	as    map[string]any // the schema
}

func (s scalar) read(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return bad(n, s.hint, "expected %s, not %s", s.name, sortOf(n))
	}
	if wrong, hint := s.parse(n.Value); wrong != "" {
		return bad(n, hint, "%s", wrong)
	}
	return nil
}

func (s scalar) schema() map[string]any {
	c := map[string]any{}
	for k, v := range s.as {
		c[k] = v
	}
	return c
}

// prose is a sentence or a line of prose.
func prose(to *string) shape {
	const hint = "write a sentence"
	return scalar{"a text", hint, func(s string) (string, string) {
		if strings.TrimSpace(s) == "" {
			return "the text is empty", hint
		}
		*to = s
		return "", ""
	}, map[string]any{"type": "string", "minLength": 1}}
}

// word is one of a few words, or of a pattern.
type word struct {
	to      *string
	sort    string
	allowed []string
	pattern *regexp.Regexp // instead of allowed
	hint    string         // with a pattern
}

func oneOf(to *string, sort string, allowed []string) word {
	return word{to: to, sort: sort, allowed: allowed}
}

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

func (w word) read(n *yaml.Node) error {
	if err := w.check(n); err != nil {
		return err
	}
	*w.to = n.Value
	return nil
}

func (w word) schema() map[string]any {
	if w.pattern != nil {
		return map[string]any{"type": "string", "pattern": w.pattern.String()}
	}
	return map[string]any{"enum": w.allowed}
}

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	longestName   = 64 // a file name holds two with a plus between them
	clientPattern = regexp.MustCompile(`^c[1-9][0-9]{0,2}$`)
	nodePattern   = regexp.MustCompile(`^n[1-9][0-9]{0,2}$`)
	targetPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)?$`)
)

func named(to *string, sort string) word {
	return word{to: to, sort: sort, pattern: namePattern, hint: "small letters and digits, with single dashes between them"}
}

func clientName(to *string) word {
	return word{to: to, sort: "client", pattern: clientPattern, hint: "clients are called c1, c2, …"}
}

func nodeName(to *string) word {
	return word{to: to, sort: "node", pattern: nodePattern, hint: "nodes are called n1, n2, …"}
}

func target(to *string) word {
	return word{to: to, sort: "target", pattern: targetPattern, hint: "a client (c1), a node (n3) or a link (c1-n3)"}
}

// imagePattern is as much of an image's name as can be told without the registry:
// HOST:PORT/ and NAME, of small letters, :TAG, @DIGEST.
var imagePattern = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// longestImage is as long as a registry takes.
const longestImage = 255

func imageName(to *string) shape {
	const hint = "as in redis:7, valkey/valkey:8 or localhost:5000/redis:7"
	return scalar{"the name of an image", hint, func(s string) (string, string) {
		if len(s) > longestImage || !imagePattern.MatchString(s) {
			return quote(s) + " is no name of an image", hint
		}
		*to = s
		return "", ""
	}, map[string]any{"type": "string", "pattern": imagePattern.String()}}
}

// integer is a whole number within bounds.
func integer(to *int, least, most int) shape {
	hint := fmt.Sprintf("a whole number from %d to %d", least, most)
	return scalar{"a number", hint, func(s string) (string, string) {
		v, err := strconv.Atoi(s)
		if err != nil || v < least || v > most {
			return quote(s) + " is not allowed here", hint
		}
		*to = v
		return "", ""
	}, map[string]any{"type": "integer", "minimum": least, "maximum": most}}
}

// factor is a number above zero.
func factor(to *float64) shape {
	const hint = "a number above 0 and up to 100; 1 is true to the file, 0.1 ten times as fast"
	return scalar{"a number", hint, func(s string) (string, string) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v > 0 && v <= maxScale) {
			return quote(s) + " is not allowed here", hint
		}
		*to = v
		return "", ""
	}, map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": maxScale}}
}

// truth is true or false.
func truth(set func(bool)) shape {
	const hint = "write true or false"
	return scalar{"true or false", hint, func(s string) (string, string) {
		if s != "true" && s != "false" {
			return quote(s) + " is neither true nor false", hint
		}
		set(s == "true")
		return "", ""
	}, map[string]any{"type": "boolean"}}
}

// percent is a share of one, written as in "1%" or "0.5%".
func percent(to *float64, below float64) shape {
	hint := fmt.Sprintf("a percentage from 0%% to below %g%%, as in 1%%", 100*below)
	return scalar{"a percentage", hint, func(s string) (string, string) {
		digits, ok := strings.CutSuffix(s, "%")
		v, err := strconv.ParseFloat(digits, 64)
		if !ok || err != nil || !(v >= 0 && v/100 < below) {
			return quote(s) + " is not allowed here", hint
		}
		*to = v / 100
		return "", ""
	}, map[string]any{"type": "string", "pattern": `^[0-9.]+%$`}}
}

// processor is a share of one processor. Less than a hundredth no kernel gives in
// slices that a run would notice.
func processor(to *float64) shape {
	const hint = "a number from 0.01 to 1, as in 0.02"
	return scalar{"a share of one processor", hint, func(s string) (string, string) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0.01 && v <= 1) {
			return quote(s) + " is not allowed here", hint
		}
		*to = v
		return "", ""
	}, map[string]any{"type": "number", "minimum": 0.01, "maximum": 1}}
}

// size is a number of bytes with its unit. Less than the least no container gets.
func size(to *int) shape {
	const hint = "a number with its unit, from 6MB to 1GB, as in 8MB or 6500KB"
	units := map[string]int{"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
	return scalar{"a number of bytes", hint, func(s string) (string, string) {
		digits := strings.TrimRight(s, "KMGB")
		n, err := strconv.Atoi(digits)
		bytes := n * units[s[len(digits):]]
		if err != nil || n > 1<<20 || bytes < 6<<20 || bytes > 1<<30 {
			return quote(s) + " is not allowed here", hint
		}
		*to = bytes
		return "", ""
	}, map[string]any{"type": "string", "pattern": `^[0-9]+(KB|MB|GB)$`}}
}

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
func duration(to *time.Duration, least time.Duration) shape {
	return scalar{"a duration", durationHint, func(s string) (string, string) {
		d, wrong, hint := parseDuration(s, least)
		if wrong == "" {
			*to = d
		}
		return wrong, hint
	}, map[string]any{"type": "string", "pattern": "^(" + durationJSON + ")$"}}
}

// signed is a length of time, or one back.
func signed(to *time.Duration, unit time.Duration) shape {
	const hint = "a number with its unit, as in 11s, or -5s to go back"
	return scalar{"a duration", hint, func(s string) (string, string) {
		digits, back := strings.CutPrefix(s, "-")
		d, wrong, more := parseDuration(digits, unit)
		if wrong != "" {
			return wrong, more
		}
		if *to = d; back {
			*to = -d
		}
		return "", ""
	}, map[string]any{"type": "string", "pattern": "^-?(" + durationJSON + ")$"}}
}

// between is a range of durations, "50ms..500ms", or a single one.
func between(to *client.Range, least time.Duration) shape {
	const hint = "one duration, as in 2s, or the two ends of a range, as in 50ms..500ms"
	return scalar{"a range of durations", hint, func(s string) (string, string) {
		from, upto, isRange := strings.Cut(s, "..")
		if !isRange {
			upto = from
		}
		var r client.Range
		for _, end := range []struct {
			text string
			to   *time.Duration
		}{{from, &r.Min}, {upto, &r.Max}} {
			d, wrong, more := parseDuration(strings.TrimSpace(end.text), least)
			if wrong != "" {
				return wrong, more
			}
			*end.to = d
		}
		if r.Min > r.Max {
			return "the range " + quote(s) + " ends before it begins", fmt.Sprintf("write the shorter end first: %v..%v", r.Max, r.Min)
		}
		*to = r
		return "", ""
	}, map[string]any{"type": "string", "pattern": fmt.Sprintf(`^(%s)(\.\.(%s))?$`, durationJSON, durationJSON)}}
}
