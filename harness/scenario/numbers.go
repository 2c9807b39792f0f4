package scenario

import (
	"strconv"
	"strings"
)

// bound is what a number is expected to keep.
var bound = scalar[Bound]{"a bound", "write '>= 0.8', or '< 0.2 * NAME' to compare with another variant, or with base",
	map[string]any{"type": "string", "pattern": `^ *(>=|<=|>|<) *[-+.0-9a-z]+( *\* *[-a-z0-9]+)? *$`},
	func(s string) (Bound, string, string) {
		b, wrong := parseBound(s)
		return b, wrong, ""
	}, nil}

// parseBound is the reverse of Bound.String. wrong is what is wrong, "" if nothing is.
func parseBound(text string) (b Bound, wrong string) {
	rest := strings.TrimSpace(text)
	for _, is := range comparisons {
		if after, ok := strings.CutPrefix(rest, is); ok {
			b.Is, rest = is, strings.TrimSpace(after)
			break
		}
	}
	if b.Is == "" {
		return b, quote(text) + " has no comparison"
	}
	value, than, product := strings.Cut(rest, "*")
	if !product && namePattern.MatchString(rest) && !numeric(rest) {
		value, than, product = "1", rest, true
	}
	value, b.Than = strings.TrimSpace(value), strings.TrimSpace(than)
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || v-v != 0: // neither infinite nor no number
		return b, quote(value) + " is no number"
	case product && (!namePattern.MatchString(b.Than) || numeric(b.Than)):
		return b, quote(b.Than) + " is no variant's name"
	case len(b.Than) > longestName:
		return b, quote(b.Than) + " is too long for a variant's name"
	case product && v <= 0:
		return b, "the factor " + quote(value) + " is not positive"
	}
	b.Value = v
	return b, ""
}

func numeric(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
