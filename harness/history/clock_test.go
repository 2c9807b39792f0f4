package history

import (
	"math"
	"testing"
)

// A client stops considering itself the holder when its clock first shows the deadline.
func TestActualDeadlinesAfterClockChanges(t *testing.T) {
	const s = int64(1e9)
	grant := func(wall bool) Event {
		return Event{T: 2 * s, Process: "c1", Type: OK, Op: OpAcquire, Local: 1002 * s, ValidUntil: 12 * s, WallClock: wall}
	}
	change := func(at, local, drift int64, wall bool) Event {
		return Event{T: at, Process: Nemesis, Type: Info, Op: OpClock, Node: "c1", Local: local, Drift: drift, WallClock: wall}
	}
	otherClock := change(3*s, 2000*s, 0, true)
	otherClock.Node = "c2"
	for name, c := range map[string]struct {
		turns []Event
		wall  bool
		want  int64
	}{
		"no change":                     {nil, true, 12 * s},
		"another client's clock":        {[]Event{otherClock}, true, 12 * s},
		"set back at the grant":         {[]Event{change(2*s, 990*s, 0, true)}, true, 12 * s},
		"set back":                      {[]Event{change(3*s, 998*s, 0, true)}, true, 17 * s},
		"other clock set back":          {[]Event{change(3*s, 998*s, 0, true)}, false, 12 * s},
		"set forward":                   {[]Event{change(3*s, 1006*s, 0, true)}, true, 9 * s},
		"set forward past the deadline": {[]Event{change(3*s, 1020*s, 0, true)}, true, 3 * s},
		"deadline shown twice":          {[]Event{change(3*s, 1020*s, 0, true), change(4*s, 1000*s, 0, true)}, true, 3 * s},
		"set back after the end":        {[]Event{change(13*s, 1000*s, 0, true)}, true, 12 * s},
		"back and forth":                {[]Event{change(3*s, 998*s, 0, true), change(5*s, 1005*s, 0, true)}, true, 12 * s},
		"slow before the grant":         {[]Event{change(1*s, 1001*s, -500_000_000, false)}, false, 22 * s},
		"fast before the grant":         {[]Event{change(1*s, 1001*s, 1_000_000_000, false)}, false, 7 * s},
		"slow after the grant":          {[]Event{change(4*s, 1004*s, -500_000_000, false)}, false, 20 * s},
		"slow, then correct":            {[]Event{change(4*s, 1004*s, -500_000_000, false), change(8*s, 1006*s, 0, false)}, false, 14 * s},
		"clock stopped":                 {[]Event{change(4*s, 1004*s, -1e9, false)}, false, math.MaxInt64},
		"clock stopped, then continues": {[]Event{change(4*s, 1004*s, -1e9, false), change(9*s, 1004*s, 0, false)}, false, 17 * s},
		"set back at the deadline":      {[]Event{change(12*s, 1000*s, 0, true)}, true, 12 * s},
	} {
		in := append([]Event{grant(c.wall)}, c.turns...)
		out := WithActualDeadlines(in)
		if out[0].ValidUntil != c.want {
			t.Errorf("%s: valid until %d, want %d", name, out[0].ValidUntil, c.want)
		}
		if in[0] != grant(c.wall) {
			t.Errorf("%s: the input events were changed", name)
		}
	}
}
