// Package skew turns the clocks of nodes and clients of a real backend, and reads back
// what they show.
//
// Its nouns are Machine, on which a node or a client runs, as far as its clocks go;
// Machines, those of a run; Clocks, which really turns them; and Reading, what a process
// said that they show. Node and Client get readings. The clocks of a process in a
// container are turned by an Agent, beside it or Here, and Remote is who calls that.
//
//	Machine ──► Clocks: clock.Machine, of a child of this process
//	                    Remote ── wire ── Agent ── clock.Machine, of a container's process
//
// A node's wall clock is turned, by which Redis expires keys; its monotonic clock is
// true. A client's are turned both: a jump sets the wall clock, a rate is that of both.
//
// Deliberately missing: how the clocks of a process are rewritten (package clock), how
// processes and containers come to be, and the faults' meaning (package nemesis).
package real

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/vdso"
	"lockpick/nemesis"
)

// Clocks are clocks that can be turned.
type ClockDriver interface {
	// Turn sets the wall clock by `by` and lets the clocks run at rate; it came to be
	// between two instants of true time.
	Turn(by time.Duration, rate float64) (from, to time.Duration, err error)
	// Shown is what they show.
	Shown() vdso.Shown
}

// Machine is what a node or a client runs on, as far as its clocks go. Nil is one
// whose clocks nobody turns.
type Clock struct {
	ClockDriver
	True func() time.Duration // true time, by CLOCK_MONOTONIC of where it is

	turning sync.Mutex // held while its clocks are turned and read back, and while its process starts

	// Of a client's monotonic clock: how far what it shows is ahead of the machine's, at
	// least and at most.
	least, most int64
}

// Turn turns the clocks, and reads them back by see. turned is told from when on they
// count as such.
func (m *Clock) Turn(by time.Duration, rate float64, turned func(at time.Duration), see func() (string, error)) (string, error) {
	m.turning.Lock()
	defer m.turning.Unlock()
	before := m.Shown().Rate()
	at, to, err := m.ClockDriver.Turn(by, rate)
	if err != nil {
		return "", err
	}
	// A lock holder's belief is reckoned from what a client's clocks did: the turn is
	// stamped so that it comes out shorter.
	if by < 0 || by == 0 && rate < before {
		at = to
	}
	turned(at)
	return see()
}

// Record records what a node's clock shows from an instant of true time on, or a client's
// clocks.
func (m *Clock) Record(rec *history.Recorder, whose string, client bool, at, origin time.Duration) {
	s := m.Shown()
	shown, _ := s.Wall(at)
	e := history.Event{
		T: int64(at) - int64(origin), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: whose,
		Drift: int64(math.Round((s.Rate() - 1) * 1e9)),
	}
	e.Wall, e.Local = true, shown.UnixNano()
	rec.Record(e)
	if !client { // its monotonic clock is true
		return
	}
	e.Wall, e.Local = false, int64(s.Mono(at))+m.most
	rec.Record(e)
}

// alone is the read-back of a machine on which no process can be asked.
func (m *Clock) alone() string { return m.unasked("no process runs there") }

// unasked is what a process would show that can't be asked: what is written where it
// would read it, which was read back.
func (m *Clock) unasked(why string) string {
	shown, right := m.Shown().Wall(m.True())
	return m.words(why+"; the machine's clock shows", shown, right)
}

func (m *Clock) words(who string, shown, right time.Time) string {
	off := shown.Sub(right).Round(time.Millisecond) // to ask takes a tenth of that
	return fmt.Sprintf("%s %s, %s", who, stamp(shown), nemesis.ClockWords(off, m.Shown().Rate()))
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

const (
	clockError = time.Millisecond      // of a reading, beyond the time that it took: Redis caches the time of a command
	rateBound  = 50 * time.Millisecond // how long a rate is watched
)

// See reads clocks and compares them with what they should show. A rate is watched
// until it has made a difference that can be seen; one that is too near to 1 for
// that is seen by what it has made when the clock is turned again.
func (m *Clock) See(who string, read func() (ClockReading, error)) (string, error) {
	var first ClockReading
	rate := m.Shown().Rate()
	for {
		r, err := read()
		if err != nil {
			return "", err
		}
		if err := m.differs(r); err != nil {
			return "", err
		}
		if first == (ClockReading{}) {
			first = r
		}
		passed := r.From - first.To
		gained := time.Duration(float64(passed) * math.Abs(rate-1))
		seen := gained > clockError+(first.To-first.From)+(r.To-r.From)
		if !seen && passed < rateBound && rate != 1 {
			time.Sleep(time.Millisecond)
			continue
		}
		_, right := m.Shown().Wall(r.To)
		back := m.words(who, time.Unix(0, r.Wall), right)
		if seen {
			back += fmt.Sprintf(", seen over %v", passed.Round(time.Millisecond))
		}
		return back, nil
	}
}

// Differs is an error if a wall clock does not show what it should.
func ClockDiffers(s vdso.Shown, r ClockReading) error {
	from, _ := s.Wall(r.From)
	to, right := s.Wall(r.To)
	if shown := time.Unix(0, r.Wall); shown.Before(from.Add(-clockError)) || shown.After(to.Add(clockError)) {
		return fmt.Errorf("its wall clock shows %s and should show %s; true time is %s", stamp(shown), stamp(to), stamp(right))
	}
	return nil
}

// differs is an error if clocks don't show what they should.
func (m *Clock) differs(r ClockReading) error {
	s := m.Shown()
	if err := ClockDiffers(s, r); err != nil || r.Now == 0 || m.most == 0 {
		return err
	}
	least, most := int64(s.Mono(r.From))+m.least, int64(s.Mono(r.To))+m.most
	if r.Now < least-int64(clockError) || r.Now > most+int64(clockError) {
		return fmt.Errorf("its monotonic clock is %v from what it should show", time.Duration(r.Now-most))
	}
	return nil
}

// starts keeps the clocks from being turned until its process has begun; the
// function that it returns may be called again.
func (m *Clock) starts() (started func()) {
	if m == nil {
		return func() {}
	}
	m.turning.Lock()
	return sync.OnceFunc(m.turning.Unlock)
}

// began looks at a client's first reading of its clocks.
func (m *Clock) began(r ClockReading) error {
	if m == nil {
		return errors.New("it tells its clocks and was not asked to")
	}
	s := m.Shown()
	m.least, m.most = r.Now-int64(s.Mono(r.To)), r.Now-int64(s.Mono(r.From))
	return m.differs(r)
}
