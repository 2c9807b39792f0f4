//go:build linux

package real

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/real/proc"
)

// Monitor collects interference with a run's programs, such as a signal that no step of the plan sent.
// While it has no receiver, the first interference ends the run.
type Monitor struct {
	fail func(error)

	mu         sync.Mutex
	receiver   func(harness.UnplannedEvent) // nil: recording has not begun, or has ended
	when       string                       // as in harness.Interference
	first      error                        // the first interference without a receiver
	interfered bool                         // there was interference
}

// NewMonitor returns a monitor without a receiver. fail ends the run.
func NewMonitor(when string, fail func(error)) *Monitor { return &Monitor{when: when, fail: fail} }

// Handle reports interference to the receiver.
func (m *Monitor) Handle(u harness.UnplannedEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interfered = true
	switch {
	case m.receiver != nil:
		m.receiver(u)
	case m.first == nil:
		m.first = &harness.Interference{UnplannedEvent: u, When: m.when}
		m.fail(m.first)
	}
}

// SetReceiver sets the receiver of further reports; nil: none.
func (m *Monitor) SetReceiver(to func(harness.UnplannedEvent), when string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.receiver, m.when = to, when
}

// DuringSetup reports whether the run is still being set up, so that there is no record yet.
func (m *Monitor) SettingUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.receiver == nil && m.when == harness.DuringSetup
}

// Interfered reports whether there was any interference.
func (m *Monitor) Interfered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.interfered
}

// Explain joins an error with its likely cause: the first interference that was not reported, or a step
// that took too long.
func (m *Monitor) Explain(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case m.first == nil:
		return harness.TimeoutAsInterference(err, m.when)
	case errors.Is(err, m.first):
		return err
	}
	return errors.Join(m.first, err)
}

// Poll repeats questions until over is called, and then asks each one last time.
func (r *Run) Poll(patience time.Duration, all ...proc.Probe) (over func()) {
	ctx, cancel := context.WithCancel(r.Ctx)
	var asking sync.WaitGroup
	for _, q := range all {
		asking.Go(func() {
			q.Run(ctx)
			if r.Ctx.Err() == nil { // otherwise the run is over and everything is stopped
				q.AskOnce(patience)
			}
		})
	}
	return func() {
		cancel()
		asking.Wait()
	}
}
