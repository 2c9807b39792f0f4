package facts

import (
	"math"
	"time"

	"lockpick/harness/history"
)

// Turn is how the wall clock of a client or a lock node ran from an instant on. A record
// without an Epoch doesn't tell by how much a clock is wrong, and has none.
type Turn struct {
	T       int64
	Process string
	Offset  int64   // how far it was ahead of a right clock at T, nanoseconds
	Rate    float64 // how fast it ran from then on; 1 is right
	Event   *history.Event
}

func (f *Facts) turn(e *history.Event) {
	if e.Op != history.OpClock || !e.Wall || f.Params.Epoch == 0 || e.Local == 0 {
		return
	}
	f.Turns = append(f.Turns, Turn{T: e.T, Process: e.Node, Offset: e.Local - f.Params.Epoch - e.T, Rate: 1 + float64(e.Drift)/1e9, Event: e})
}

// TurnsOf is the turns of one process's clock, in the order of time.
func (f *Facts) TurnsOf(process string) []Turn {
	var all []Turn
	for _, t := range f.Turns {
		if t.Process == process {
			all = append(all, t)
		}
	}
	return all
}

// readError bounds the error with which a clock is read where it is right.
const readError = int64(time.Millisecond) / 2

// Wrong reports whether the clock shows another time than a right one, or runs otherwise.
func (t Turn) Wrong() bool { return t.Offset >= readError || t.Offset <= -readError || t.Rate != 1 }

// Ahead is how far the clock is ahead at an instant from the turn on, if nobody turns it again.
func (t Turn) Ahead(at int64) int64 {
	gained := float64(at-t.T) * (t.Rate - 1)
	return int64(min(max(float64(t.Offset)+gained, math.MinInt64/2), math.MaxInt64/2))
}
