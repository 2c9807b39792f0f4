//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
)

// adapterOf is the name of a client's adapter among processes.
func adapterOf(client string) string { return client + "-adapter" }

// startAdapters starts those of all clients before time zero, and waits until each has said
// its hello, which is left for its client: that joins the adapter's process group and gets
// its pipes.
func (c *cluster) startAdapters(s scenario.Scenario) error {
	if s.Lock.Kind != lockexec.Name {
		return nil
	}
	if len(c.program) == 0 {
		return errors.New("run: lock exec has no program: say --adapter COMMAND")
	}
	c.adapters = map[string]*real.AdapterProcess{}
	for _, name := range s.ClientNames() {
		a, err := real.StartAdapter(c.group, adapterOf(name), c.program)
		if err != nil {
			return err
		}
		c.adapters[name] = a
	}
	for _, name := range s.ClientNames() {
		if err := c.adapters[name].Speaks(c.Ctx, lockexec.StartWithin); err != nil {
			return fmt.Errorf("start the adapter of %s (%s): %w%s", name, strings.Join(c.program, " "), err, c.adapters[name].Words())
		}
	}
	return nil
}

// RunClient is that of package runs; of a broken adapter it has the last words.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	err := c.Run.RunClient(ctx, s, at)
	if a := c.adapters[s.Name]; a != nil && err != nil && err != harness.ErrKilled && ctx.Err() == nil {
		return fmt.Errorf("%w%s", err, a.Words())
	}
	return err
}

// pair is the clocks of a client and of its adapter, which are turned as one.
type pair struct{ client, adapter *vdso.Machine }

// Shown is what they show.
func (p pair) Shown() vdso.Shown { return p.client.Shown() }

// Turn turns both.
func (p pair) Turn(by time.Duration, rate float64) (from, to time.Duration, err error) {
	other := make(chan error, 1)
	go func() {
		_, _, err := p.adapter.Turn(by, rate)
		other <- err
	}()
	from, to, err = p.client.Turn(by, rate)
	return from, to, errors.Join(err, <-other)
}
