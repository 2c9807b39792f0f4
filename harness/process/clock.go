//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
)

// turnable prepares that the clocks of nodes and clients can be turned: their
// processes start traced. The others' clocks are not touched.
func (c *cluster) turnable(s scenario.Scenario) {
	own := map[string]*vdso.Machine{}
	for _, name := range redisOf(s) {
		own[name] = &vdso.Machine{}
	}
	for _, name := range s.ClientNames() {
		own[name] = &vdso.Machine{Monotonic: true}
	}
	for name, m := range own {
		c.Clocks.Add(name, &real.Clock{ClockDriver: m, True: proc.TrueClock})
		c.group.Cleanup(m.Close)
	}
	if s.Lock.Kind == lockexec.Name {
		for _, name := range s.ClientNames() {
			m := &vdso.Machine{Monotonic: true}
			c.Clocks.Add(name, &real.Clock{ClockDriver: pair{own[name], m}, True: proc.TrueClock})
			own[adapterOf(name)] = m
			c.group.Cleanup(m.Close)
		}
	}
	c.group.AtStart = func(name string, pid int) error {
		if m := own[name]; m != nil {
			return startBy(m, pid)
		}
		return nil
	}
}

// startBy lets a process start by a machine's clocks.
func startBy(m *vdso.Machine, pid int) error {
	err := m.Start(pid)
	if errors.Is(err, vdso.ErrSignaled) {
		return fmt.Errorf("%w: %w", proc.ErrStruck, err)
	}
	return err
}

// tryClock is whether a process's clock can be turned on this machine: it really
// turns one, of a program that prints the time.
func tryClock(dir string) error {
	if err := vdso.Available(); err != nil {
		return err
	}
	return trial(context.Background(), dir, dateAhead)
}

func dateAhead(ctx context.Context, group *proc.Group) error {
	var m vdso.Machine
	defer m.Close()
	if _, _, err := m.Turn(24*time.Hour, 1); err != nil {
		return err
	}
	group.AtStart = func(_ string, pid int) error { return startBy(&m, pid) }
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
	select {
	case <-child.Done():
	case <-ctx.Done():
		return fmt.Errorf("date: %w", context.Cause(ctx))
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
