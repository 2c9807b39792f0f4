//go:build linux

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/clock"
	"lockpick/harness/real/contender"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var _ nemesis.Clocker = (*cluster)(nil)

// machine is what a node or a client runs on, as far as its clocks go. A node's
// wall clock can be turned, by which Redis expires keys; its monotonic clock is
// true. A client's both can: a jump sets the wall clock, a rate is that of both.
// Nil is a machine whose clocks nobody turns.
type machine struct {
	clock.Machine
	turning sync.Mutex // held while its clocks are turned and read back, and while its process starts

	// Of a client's monotonic clock: how far what it shows is ahead of the machine's, at
	// least and at most.
	least, most int64
}

// turnable prepares that the clocks of nodes and clients can be turned: their
// processes start traced. The others' clocks are not touched.
func (c *cluster) turnable(s harness.Scenario) {
	for _, name := range s.NodeNames() {
		c.clocks[name] = &machine{}
	}
	for _, name := range s.ClientNames() {
		c.clocks[name] = &machine{Machine: clock.Machine{Monotonic: true}}
	}
	c.group.Born = func(name string, pid int) error {
		if k := c.clocks[name]; k != nil {
			return k.Start(pid)
		}
		return nil
	}
}

// TurnClock turns the clocks of a node's or a client's machine, and reads back what
// its process shows. While no process runs, its next one is read back at its start.
func (c *cluster) TurnClock(target string, by time.Duration, rate float64) (string, error) {
	k := c.clocks[target]
	if k == nil {
		return "", fmt.Errorf("turn clock of %s: no such node or client has a clock that can be turned", target)
	}
	if c.over(target) {
		return "", fmt.Errorf("turn clock of %s: %w", target, nemesis.ErrEnded)
	}
	k.turning.Lock()
	defer k.turning.Unlock()
	before := k.Rate()
	from, to, err := k.Turn(by, rate)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	var back string
	if c.Server(target) != nil {
		back, err = c.seeNode(target, k)
	} else {
		// A lock holder's belief is reckoned from what a client's clocks did: the turn is
		// stamped so that it comes out shorter.
		at := from
		if by < 0 || by == 0 && rate < before {
			at = to
		}
		c.recordTurn(target, k, at)
		back, err = c.seeClient(target, k)
	}
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	return back, nil
}

// recordTurn records what a client's clocks show from an instant on.
func (c *cluster) recordTurn(client string, k *machine, at time.Duration) {
	shown, _ := k.Wall(at)
	e := history.Event{
		T: int64(at) - int64(c.Origin()), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: client,
		Drift: int64(math.Round((k.Rate() - 1) * 1e9)),
	}
	e.Wall, e.Local = true, shown.UnixNano()
	c.rec.Record(e)
	e.Wall, e.Local = false, int64(k.Mono(at))+k.most
	c.rec.Record(e)
}

// seeNode reads back the clock of a node.
func (c *cluster) seeNode(node string, k *machine) (string, error) {
	server := c.Server(node)
	back, err := k.see("TIME shows", func() (reading, error) { return readTime(c.ctx, server) })
	if err != nil && !server.Runs() {
		return k.alone(), nil
	}
	return back, err
}

// seeClient reads back the clocks of a client.
func (c *cluster) seeClient(client string, k *machine) (string, error) {
	ch := c.running(client)
	if ch == nil && c.over(client) {
		return "", nemesis.ErrEnded
	}
	if ch == nil {
		return k.alone(), nil
	}
	back, err := k.see("wall clock shows", ch.readClock)
	switch {
	case errors.Is(err, proc.ErrEnded):
		return "", nemesis.ErrEnded
	case errors.Is(err, errPaused):
		return k.machines("it is paused"), nil
	}
	return back, err
}

// alone is the read-back of a machine on which no process can be asked.
func (k *machine) alone() string { return k.machines("no process runs there") }

// machines is what a process would show that can't be asked: what is written where it
// would read it, which was read back.
func (k *machine) machines(why string) string {
	shown, right := k.Wall(proc.TrueClock())
	return k.words(why+"; the machine's clock shows", shown, right)
}

func (k *machine) words(who string, shown, right time.Time) string {
	off := shown.Sub(right).Round(time.Millisecond) // to ask takes a tenth of that
	return fmt.Sprintf("%s %s, %s", who, stamp(shown), nemesis.ClockWords(off, k.Rate()))
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

const (
	clockError = time.Millisecond      // of a reading, beyond the time that it took: Redis caches the time of a command
	rateBound  = 50 * time.Millisecond // how long a rate is watched
	tellBound  = 2 * time.Second       // a client that runs tells its clocks within
)

// see reads clocks and compares them with what they should show. A rate is watched
// until it has made a difference that can be seen; one that is too near to 1 for
// that is seen by what it has made when the clock is turned again.
func (k *machine) see(who string, read func() (reading, error)) (string, error) {
	var first reading
	for {
		r, err := read()
		if err != nil {
			return "", err
		}
		if err := k.differs(r); err != nil {
			return "", err
		}
		if first == (reading{}) {
			first = r
		}
		passed := r.From - first.To
		gained := time.Duration(float64(passed) * math.Abs(k.Rate()-1))
		seen := gained > clockError+(first.To-first.From)+(r.To-r.From)
		if !seen && passed < rateBound && k.Rate() != 1 {
			time.Sleep(time.Millisecond)
			continue
		}
		_, right := k.Wall(r.To)
		back := k.words(who, time.Unix(0, r.Wall), right)
		if seen {
			back += fmt.Sprintf(", seen over %v", passed.Round(time.Millisecond))
		}
		return back, nil
	}
}

// differs is an error if clocks don't show what they should.
func (k *machine) differs(r reading) error {
	from, _ := k.Wall(r.From)
	to, right := k.Wall(r.To)
	if shown := time.Unix(0, r.Wall); shown.Before(from.Add(-clockError)) || shown.After(to.Add(clockError)) {
		return fmt.Errorf("its wall clock shows %s and should show %s; true time is %s", stamp(shown), stamp(to), stamp(right))
	}
	if r.Now == 0 || k.most == 0 {
		return nil
	}
	least, most := int64(k.Mono(r.From))+k.least, int64(k.Mono(r.To))+k.most
	if r.Now < least-int64(clockError) || r.Now > most+int64(clockError) {
		return fmt.Errorf("its monotonic clock is %v from what it should show", time.Duration(r.Now-most))
	}
	return nil
}

// starts keeps the clocks from being turned until its process has begun; the
// function that it returns may be called again.
func (k *machine) starts() (started func()) {
	if k == nil {
		return func() {}
	}
	k.turning.Lock()
	return sync.OnceFunc(k.turning.Unlock)
}

// began looks at a client's first reading of its clocks.
func (k *machine) began(r reading) error {
	if k == nil {
		return errors.New("it tells its clocks and was not asked to")
	}
	k.least, k.most = r.Now-int64(k.Mono(r.To)), r.Now-int64(k.Mono(r.From))
	return k.differs(r)
}

// readTime asks a node for its clock.
func readTime(ctx context.Context, node *proc.Redis) (reading, error) {
	r := reading{From: proc.TrueClock()}
	v, err := proc.Ask(ctx, node.Addr(), "TIME")
	r.To = proc.TrueClock()
	if err != nil {
		return r, err
	}
	if len(v.Items) != 2 {
		return r, fmt.Errorf("TIME answers %d values, want 2", len(v.Items))
	}
	seconds, err1 := strconv.ParseInt(v.Items[0].Str, 10, 64)
	micros, err2 := strconv.ParseInt(v.Items[1].Str, 10, 64)
	r.Wall = seconds*1e9 + micros*1e3
	return r, cmp.Or(err1, err2)
}

// errPaused says that a client can't tell its clocks.
var errPaused = errors.New("it is paused")

// readClock asks a client for its clocks.
func (ch *child) readClock() (reading, error) {
	asked := proc.TrueClock()
	if _, err := io.WriteString(ch.in, contender.TellClock); err != nil {
		return reading{}, proc.ErrEnded // nobody reads it any more
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case r := <-ch.clocks:
			if r.From >= asked { // or it answers an earlier question
				return r, nil
			}
		case <-ch.Done():
			return reading{}, proc.ErrEnded
		case <-look.C:
			switch {
			case ch.paused.Load():
				return reading{}, errPaused
			case proc.TrueClock()-asked > tellBound:
				return reading{}, fmt.Errorf("it did not tell its clocks within %v", tellBound)
			}
		}
	}
}

// tryClock is whether a process's clock can be turned on this machine: it really
// turns one, of a program that prints the time.
func tryClock(dir string) error {
	if err := clock.Available(); err != nil {
		return err
	}
	group, err := proc.NewGroup(dir)
	if err != nil {
		return err
	}
	return errors.Join(dateAhead(group), group.Close())
}

func dateAhead(group *proc.Group) error {
	var m clock.Machine
	defer m.Close()
	if _, _, err := m.Turn(24*time.Hour, 1); err != nil {
		return err
	}
	group.Born = func(_ string, pid int) error { return m.Start(pid) }
	out, err := os.Create(filepath.Join(group.Dir, "date"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("date", "+%s")
	cmd.Stdout = out
	child, err := group.Start("date", cmd)
	if err != nil {
		return err
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("date: %w", err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return err
	}
	got, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("date prints %q: %w", text, err)
	}
	want, _ := m.Wall(proc.TrueClock())
	if d := want.Sub(time.Unix(got, 0)); d.Abs() > time.Minute {
		return fmt.Errorf("date did not follow its clock: it was %v off", d)
	}
	return nil
}
