//go:build linux

package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/lock"
	"lockpick/harness/lock/exec"
	"lockpick/harness/owned"
	"lockpick/harness/real/clock"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/store"
)

// What a check gives the adapter.
const (
	checkTTL     = 2 * time.Second
	checkTimeout = 200 * time.Millisecond
	checkTrips   = 1000
	storeLoss    = 5 * checkTTL // clients of stores look whether a lease is over now and then; whether that is in time is for scenarios
	checked      = "adapter"    // its name among processes
)

// settings are those of a check.
var settings = lock.Settings{Kind: exec.Name, TTL: checkTTL, Timeout: checkTimeout, Drift: 0.01, RetryMin: 10 * time.Millisecond, RetryMax: 30 * time.Millisecond}

// trial is an adapter on servers of its own.
type trial struct {
	ctx     context.Context
	tell    func(Check)
	group   *proc.Group
	argv    []string
	redis   string // the program
	nodes   []*proc.Redis
	clock   clock.Machine
	program *Program
	adapter *exec.Adapter
	failed  int
	tap     *tap // of the first node; nil: there is none
}

// Try puts an adapter to the test on redis-servers of its own, and tells what came of each check
// as it is made. It returns how many failed; an error says that there was nothing to try with.
func Try(ctx context.Context, dir, redis string, argv []string, tell func(Check)) (failed int, err error) {
	g, err := proc.NewGroup(dir)
	if err != nil {
		return 0, err
	}
	t := &trial{ctx: ctx, tell: tell, group: g, argv: argv, redis: redis}
	defer func() { err = errors.Join(err, g.Close()) }()
	defer t.clock.Close()
	t.clock.Monotonic = true
	turnable := clock.Available()
	if turnable == nil {
		g.AtStart = func(name string, pid int) error {
			if name != checked {
				return nil
			}
			return t.clock.Start(pid)
		}
	}
	err = t.all(turnable)
	return t.failed, err
}

// say tells of a check; false: it failed.
func (t *trial) say(name, saw string, why error) bool {
	if why != nil {
		t.failed++
		if t.program != nil {
			why = fmt.Errorf("%w%s", why, t.program.Words())
		}
	}
	t.tell(Check{Name: name, Saw: saw, Why: why})
	return why == nil
}

func (t *trial) skip(name, why string) { t.tell(Check{Name: name, Skipped: why}) }

// all makes the checks in their order. What comes later needs what comes first.
func (t *trial) all(turnable error) error {
	if !t.hello() {
		return nil
	}
	if err := t.servers(); err != nil {
		return err
	}
	if t.untold() == "" {
		defer t.taps()()
	}
	if !t.opens() || !t.clocks("clocks") || !t.holds() {
		return nil
	}
	t.deadline()
	t.extends()
	t.loses()
	t.wire()
	t.waits()
	t.trips()
	const turned = "turned clocks"
	if turnable != nil {
		t.skip(turned, turnable.Error())
	} else if _, _, err := t.clock.Turn(time.Hour, 1.5); err != nil {
		t.say(turned, "", err)
	} else {
		t.clocks(turned)
		// A timer that waits for an instant of that clock, as a virtual machine's do, waits for
		// longer the longer the clock runs fast.
		if _, _, err := t.clock.Turn(-time.Hour, 1); err != nil {
			t.say(turned, "", err)
		}
	}
	if t.ends() {
		t.closes()
	}
	return nil
}

// meet starts it.
func (t *trial) meet() error {
	p, err := Start(t.group, checked, t.argv)
	if err != nil {
		return err
	}
	t.program = p
	if err = p.Speaks(t.ctx, exec.StartWithin); err != nil {
		return err
	}
	if argv := Replaced(p.PID(), t.argv[0]); argv != nil {
		if err := p.Kill(); err != nil {
			return err
		}
		t.argv = argv
		return t.meet()
	}
	t.adapter, err = exec.Meet(p.In, p.Out, time.Now)
	return err
}

// open lets it open the nodes.
func (t *trial) open() error {
	var nodes []lock.Node
	for _, n := range t.nodes {
		nodes = append(nodes, lock.Node{Name: n.Name, Addr: n.Addr()})
	}
	return t.adapter.Open(t.ctx, "c1", nodes, settings)
}

// closes looks at the other way to end: another one is asked to.
func (t *trial) closes() {
	err := t.meet()
	if err == nil {
		err = t.open()
	}
	if err == nil {
		err = t.adapter.Close(t.ctx)
	}
	t.say("close", "", err)
}

func (t *trial) hello() bool {
	began := time.Now()
	err := t.meet()
	if !t.say("hello", fmt.Sprintf("after %v", time.Since(began).Round(time.Millisecond)), err) {
		return false
	}
	h := t.adapter.Hello
	can := "nothing more"
	if len(h.Can) > 0 {
		can = strings.Join(h.Can, ", ")
	}
	t.tell(Check{Name: "who it is", Saw: h.Title() + ", besides acquire and release it can: " + can})
	return true
}

// opens is with one node dead, where there are more: a majority must do.
func (t *trial) opens() bool {
	name := "open with a dead node"
	if t.adapter.Hello.Nodes == "one" {
		name, t.nodes = "open", t.nodes[:1]
	} else if _, err := t.nodes[4].Kill(t.ctx); err != nil {
		return t.say(name, "", err)
	}
	err := t.open()
	if !t.say(name, fmt.Sprintf("%d nodes, quorum %d", len(t.nodes), t.adapter.Quorum), err) {
		return false
	}
	if len(t.nodes) > 1 { // what the lock does without it is for scenarios to show
		if _, err := t.nodes[4].Restart(t.ctx); err != nil {
			return t.say("restart of the dead node", "", err)
		}
		time.Sleep(100 * time.Millisecond) // for a client that connects again by itself
	}
	return true
}

// clocks must be those of the process that lockpick started.
func (t *trial) clocks(name string) bool {
	from := proc.TrueClock()
	mono, wall, err := t.adapter.Clocks(t.ctx)
	to := proc.TrueClock()
	if err != nil {
		return t.say(name, "", err)
	}
	s := t.clock.Shown()
	within := func(got int64, lo, hi time.Duration) time.Duration {
		switch slack := int64(2 * time.Millisecond); {
		case got < int64(lo)-slack:
			return time.Duration(got - int64(lo))
		case got > int64(hi)+slack:
			return time.Duration(got - int64(hi))
		}
		return 0
	}
	least, _ := s.Wall(from)
	most, _ := s.Wall(to)
	if off := within(wall, time.Duration(least.UnixNano()), time.Duration(most.UnixNano())); off != 0 {
		err = fmt.Errorf("its wall clock is %v off: tell nanoseconds since 1970, read when asked; and let no program start it as a child: the child's clock can't be turned", off)
	} else if off := within(mono, s.Mono(from), s.Mono(to)); off != 0 {
		err = fmt.Errorf("its monotonic clock is %v off: tell CLOCK_MONOTONIC in nanoseconds", off)
	}
	return t.say(name, fmt.Sprintf("told in %v", (to-from).Round(time.Microsecond)), err)
}

// acquire is a lock that nobody has.
func (t *trial) acquire(key string) (*exec.Handle, error) {
	ctx, cancel := context.WithTimeout(t.ctx, checkTTL)
	defer cancel()
	for {
		h, err := t.adapter.Acquire(ctx, key, 0)
		var no *exec.Refused
		if err == nil || !errors.As(err, &no) || no.No != "taken" && no.No != "unknown" || ctx.Err() != nil {
			return h, err
		}
		time.Sleep(10 * time.Millisecond) // what is left of the hold before, or a machine that is slow
	}
}

func (t *trial) holds() bool {
	h, err := t.acquire("check-1")
	if !t.say("acquire", "", err) {
		return false
	}
	_, err = t.adapter.Acquire(t.ctx, "check-1", 0)
	if err == nil {
		err = errors.New("it acquired twice what it has")
	} else if exec.Taken(err) {
		err = nil
	}
	if !t.say("taken", "", err) {
		return false
	}
	saw, err := released(h.Release(t.ctx))
	keys := t.keys()
	switch key := t.adapter.Hello.KeyPrefix + "check-1"; {
	case err != nil:
	case slices.Contains(keys, key):
		err = fmt.Errorf("after the release nodes still have the key %s", key)
	case len(keys) > 0:
		saw += "the nodes still have " + strings.Join(keys, ", ")
	}
	if !t.say("release", saw, err) {
		return false
	}
	again, err := t.acquire("check-1")
	if err == nil {
		_, err = released(again.Release(t.ctx))
	}
	return t.say("acquire again", "", err)
}

// released reads what came of a release. Not to know is an answer.
func released(err error) (saw string, _ error) {
	if no, ok := errors.AsType[*exec.Refused](err); ok && no.No == "unknown" {
		return "it says " + err.Error() + "; ", nil
	}
	return "", err
}

// keys are those of all nodes that live.
func (t *trial) keys() (all []string) {
	if t.untold() != "" {
		return nil
	}
	for _, n := range t.nodes {
		if !n.Runs() {
			continue
		}
		v, err := proc.Ask(t.ctx, n.Addr(), "KEYS", "*")
		if err != nil {
			continue
		}
		for _, k := range v.Strings() {
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}

// deadline must not be later than the keys live.
func (t *trial) deadline() {
	h, err := t.acquire("check-2")
	if err != nil {
		t.say("deadline", "", err)
		return
	}
	defer h.Release(t.ctx)
	until := h.Deadline()
	if until.IsZero() {
		t.skip("deadline", "it gives none")
		return
	}
	now := time.Now()
	left := until.Sub(now)
	if h.ByWall() {
		left = until.Sub(now.Round(0))
	}
	if why := t.untold(); why != "" {
		t.skip("deadline", why)
		return
	}
	key := t.adapter.Hello.KeyPrefix + "check-2"
	switch votes, longest := t.votes(key, left); {
	case left <= 0:
		err = fmt.Errorf("its deadline was %v ago: tell the instant by a clock, in nanoseconds", -left)
	case left > checkTTL:
		err = fmt.Errorf("its deadline is in %v, and a lock lasts %v: it must be reckoned from before the nodes were asked", left, checkTTL)
	case longest == 0:
		err = fmt.Errorf("no node has the key %s with a time to live: if the library makes its keys by a prefix, hello must say keyPrefix; the nodes have %s", key, strings.Join(t.keys(), ", "))
	case votes <= len(t.nodes)/2:
		err = fmt.Errorf("its deadline is in %v, when only %d of %d nodes still have the key", left, votes, len(t.nodes))
	}
	t.say("deadline", fmt.Sprintf("in %v of %v", left.Round(time.Millisecond), checkTTL), err)
}

// votes counts the nodes whose key lives so long.
func (t *trial) votes(key string, left time.Duration) (votes int, longest time.Duration) {
	for _, n := range t.nodes {
		if !n.Runs() {
			continue
		}
		v, err := proc.Ask(t.ctx, n.Addr(), "PTTL", key)
		if err != nil {
			continue
		}
		lives := time.Duration(v.Int) * time.Millisecond
		longest = max(longest, lives)
		if lives >= left-10*time.Millisecond { // to ask takes time
			votes++
		}
	}
	return votes, longest
}

// stays says whether no key of a kind of server can be taken away behind the lock's back: it goes
// with its lease.
func stays(kind string) bool {
	of, err := store.Of(kind)
	return err == nil && of.Keys == ""
}

// remove takes a key away behind the lock's back.
func (t *trial) remove(key string) error {
	if of, err := store.Of(t.adapter.Hello.Store()); err == nil {
		i := slices.IndexFunc(t.nodes, (*proc.Redis).Runs)
		return of.Remove(t.ctx, t.nodes[i].Addr(), t.adapter.Hello.KeyPrefix+key)
	}
	for _, n := range t.nodes {
		if n.Runs() {
			if _, err := proc.Ask(t.ctx, n.Addr(), "DEL", t.adapter.Hello.KeyPrefix+key); err != nil {
				return err
			}
		}
	}
	return nil
}

// waits looks whether an acquire keeps to its time, and to a cancel.
func (t *trial) waits() {
	h, err := t.acquire("check-5")
	if err != nil {
		t.say("within", "", err)
		return
	}
	defer h.Release(t.ctx)
	const within = 300 * time.Millisecond
	began := time.Now()
	_, err = t.adapter.Acquire(t.ctx, "check-5", within)
	took := time.Since(began)
	if exec.Taken(err) {
		err = nil
	}
	if err == nil && took > within+time.Second {
		err = fmt.Errorf("it was to wait for %v and took %v", within, took)
	}
	t.say("within", fmt.Sprintf("%v of %v", took.Round(time.Millisecond), within), err)
	if !slices.Contains(t.adapter.Hello.Can, exec.CanCancel) {
		t.skip("cancel", "it doesn't say that it can")
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	_, err = t.adapter.Acquire(ctx, "check-5", checkTTL)
	took = time.Since(began)
	var no *exec.Refused
	switch {
	case err == nil:
		err = errors.New("it acquired what another has")
	case took > time.Second:
		err = fmt.Errorf("it was cancelled after 100 ms and took %v", took)
	case errors.As(err, &no), ctx.Err() != nil:
		err = nil
	}
	t.say("cancel", fmt.Sprintf("after %v", took.Round(time.Millisecond)), err)
}

// trips are round trips to its reader.
func (t *trial) trips() {
	var all []time.Duration
	for range checkTrips {
		began := time.Now()
		if err := t.adapter.Ping(t.ctx); err != nil {
			t.say("ping", "", err)
			return
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	t.say("ping", fmt.Sprintf("%d round trips, p50 %v, p99 %v", checkTrips, all[len(all)/2].Round(time.Microsecond), all[len(all)*99/100].Round(time.Microsecond)), nil)
}

// ends is with its stdin; what it has started must end with it.
func (t *trial) ends() bool {
	group := t.program.PID()
	t.program.In.Close()
	began := time.Now()
	var err error
	select {
	case <-t.program.Done():
	case <-time.After(2 * time.Second):
		err = errors.New("its stdin ended 2 s ago, and it still runs")
	}
	if !t.say("ends with its stdin", fmt.Sprintf("after %v", time.Since(began).Round(time.Millisecond)), err) {
		return false
	}
	if left := members(group); len(left) > 0 {
		err = fmt.Errorf("it has left processes behind: %s", strings.Join(left, ", "))
		unix.Kill(-group, unix.SIGKILL)
	}
	return t.say("leaves nothing", "", err)
}

// members are the processes of a group.
func members(group int) (all []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if g, err := unix.Getpgid(pid); err != nil || g != group {
			continue
		}
		if s, err := owned.StatOf(pid); err == nil && !s.Ends() {
			all = append(all, e.Name())
		}
	}
	return all
}
