//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lockpick/harness"
	"lockpick/harness/real/clock"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/skew"
	"lockpick/nemesis"
)

var _ nemesis.Clocker = (*cluster)(nil)

// turnable prepares that the clocks of nodes and clients can be turned: their
// processes start traced. The others' clocks are not touched.
func (c *cluster) turnable(s harness.Scenario) {
	own := map[string]*clock.Machine{}
	for _, name := range s.NodeNames() {
		own[name] = &clock.Machine{}
	}
	for _, name := range s.ClientNames() {
		own[name] = &clock.Machine{Monotonic: true}
	}
	for name, m := range own {
		c.clocks[name] = &skew.Machine{Clocks: m, True: proc.TrueClock}
		c.group.Cleanup(m.Close)
	}
	c.group.Born = func(name string, pid int) error {
		if m := own[name]; m != nil {
			return m.Start(pid)
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
	turned := func(at time.Duration) { k.Record(c.rec, target, at, c.Origin()) }
	see := func() (string, error) { return c.seeClient(target, k) }
	if c.Server(target) != nil {
		turned = func(time.Duration) {}
		see = func() (string, error) { return c.seeNode(target, k) }
	}
	back, err := k.Turn(by, rate, turned, see)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	return back, nil
}

// seeNode reads back the clock of a node.
func (c *cluster) seeNode(node string, k *skew.Machine) (string, error) {
	server := c.Server(node)
	back, err := k.See("TIME shows", func() (skew.Reading, error) { return skew.ReadTime(c.ctx, server.Addr()) })
	if err != nil && !server.Runs() {
		return k.Alone(), nil
	}
	return back, err
}

// seeClient reads back the clocks of a client.
func (c *cluster) seeClient(client string, k *skew.Machine) (string, error) {
	ch := c.running(client)
	if ch == nil && c.over(client) {
		return "", nemesis.ErrEnded
	}
	if ch == nil {
		return k.Alone(), nil
	}
	back, err := k.See("wall clock shows", ch.readClock)
	switch {
	case errors.Is(err, proc.ErrEnded):
		return "", nemesis.ErrEnded
	case errors.Is(err, skew.ErrPaused):
		return k.Unasked("it is paused"), nil
	}
	return back, err
}

// readClock asks a client for its clocks.
func (ch *child) readClock() (skew.Reading, error) {
	return skew.Client{In: ch.in, Clocks: ch.clocks, Ended: ch.Done(), Paused: ch.paused.Load, True: proc.TrueClock}.Read()
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
	want, _ := m.Shown().Wall(proc.TrueClock())
	if d := want.Sub(time.Unix(got, 0)); d.Abs() > time.Minute {
		return fmt.Errorf("date did not follow its clock: it was %v off", d)
	}
	return nil
}
