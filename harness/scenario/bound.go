package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// Bound is what a measured number is expected to keep: at least or at most a value,
// or a multiple of what another variant measures with the same seed in the same run.
type Bound struct {
	Is    string  `json:"is"`             // one of Comparisons
	Value float64 `json:"value"`          // or factor
	Than  string  `json:"than,omitempty"` // the other variant; BaseVariant: the scenario without variant
}

// BaseVariant names the scenario itself, in a bound.
const BaseVariant = "base"

// Comparisons are the ways in which a number can be bounded, the longer ones first.
var Comparisons = []string{">=", "<=", ">", "<"}

// Keeps says whether a number keeps the bound. other is what the other variant has.
func (b Bound) Keeps(x, other float64) bool {
	y := b.Value
	if b.Than != "" {
		y *= other
	}
	switch b.Is {
	case ">=":
		return x >= y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x < y
}

// String is the bound as a scenario file has it.
func (b Bound) String() string {
	switch {
	case b.Than == "":
		return fmt.Sprintf("%s %g", b.Is, b.Value)
	case b.Value == 1:
		return fmt.Sprintf("%s %s", b.Is, b.Than)
	}
	return fmt.Sprintf("%s %g * %s", b.Is, b.Value, b.Than)
}

// parseBound is the reverse. wrong is what is wrong, "" if nothing is.
func parseBound(text string) (b Bound, wrong string) {
	rest := strings.TrimSpace(text)
	for _, is := range Comparisons {
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
