package campaign

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Say is a value in words.
func (u unit) Say(v float64) string {
	switch u {
	case seconds:
		return time.Duration(v*1e9 + 0.5).Round(100 * time.Microsecond).String()
	case rate:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// String is the setting in words.
func (s EnvelopeSetting) String() string {
	fence := "no fence"
	if s.Fence {
		fence = "fencing tokens"
	}
	return fmt.Sprintf("TTL %v, drift %g %% + 2 ms, %d nodes, %s; retries after %v to %v, messages take %v to %v",
		s.TTL, 100*s.Drift, s.Nodes, fence, s.Retry.Min, s.Retry.Max, s.OneWay.Min, s.OneWay.Max)
}

// String is what was measured, in a sentence.
func (r Envelope) String() string {
	of := " at TTL " + r.Setting.TTL.String()
	if r.Unit == Nodes {
		of = fmt.Sprintf(" of %d", r.Setting.Nodes)
	}
	if r.Undecided() {
		return fmt.Sprintf("%s: no run decides whether it holds for the most %s", r.Property, strings.TrimSuffix(r.Doc, ","))
	}
	if r.Broke == nil {
		return fmt.Sprintf("%s holds for %s, of all that were tried: %s to %s%s", r.Property, strings.TrimSuffix(r.Doc, ","), r.Unit.Say(r.Points[0].Value), r.Unit.Say(r.Points[len(r.Points)-1].Value), of)
	}
	held, broke := "holds for no "+r.Doc, r.At(*r.Broke)
	if r.Held != nil {
		held = fmt.Sprintf("holds for %s up to %s%s", r.Doc, r.Unit.Say(*r.Held), of)
		if r.Less {
			held = fmt.Sprintf("holds for %s from %s on%s", r.Doc, r.Unit.Say(*r.Held), of)
		}
	}
	cause := ""
	if broke.Cause != "" {
		cause = " (" + broke.Cause + ")"
	}
	return fmt.Sprintf("%s %s; breaks at %s%s, with %d of %d seeds", r.Property, held, r.Unit.Say(broke.Value), cause, broke.Broke, broke.Runs)
}

// Reckoned is what arithmetic says, and whether that is so.
func (r Envelope) Reckoned() string {
	text := "it never breaks"
	if e := r.Edge; e != nil {
		low, high := e.Safe, e.Certain
		if r.Less {
			low, high = high, low
		}
		text = fmt.Sprintf("it breaks at %s (%s)", r.Unit.Say(e.Sum), e.Formula)
		if r.Unit != Nodes {
			text += fmt.Sprintf(", with messages and retries between %s and %s", r.Unit.Say(low), r.Unit.Say(high))
		}
	}
	if r.Agrees {
		return "arithmetic agrees: " + text
	}
	return "ARITHMETIC SAYS OTHERWISE: " + text
}

// File is what the result's files are called.
func (r Envelope) File() string { return strings.Join([]string{r.Dimension, r.Property}, "-") }
