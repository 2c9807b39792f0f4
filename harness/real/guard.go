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

// Monitor collects interference with a run's programs, such as a signal that no step of the plan
// sent. Without a receiver, the first interference ends the run.
type Monitor struct {
	fail func(error)

	mu         sync.Mutex
	receiver   func(harness.UnplannedEvent) // nil before and after recording
	when       string                       // phase of the run; see harness.Interference
	first      error                        // first interference that had no receiver
	interfered bool                         // whether there was any interference
}

// NewMonitor returns a monitor without a receiver. It calls fail to end the run. when describes the
// run's current phase in error messages.
func NewMonitor(when string, fail func(error)) *Monitor { return &Monitor{when: when, fail: fail} }

// Handle passes interference to the receiver. If there is none, it ends the run.
func (m *Monitor) Handle(u harness.UnplannedEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interfered = true
	switch {
	case m.receiver != nil:
		m.receiver(u)
	case m.first == nil:
		m.first = &harness.Interference{UnplannedEvent: u, Phase: m.when}
		m.fail(m.first)
	}
}

// SetReceiver sets the function that receives all further interference; nil means no receiver.
func (m *Monitor) SetReceiver(receiver func(harness.UnplannedEvent), when string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.receiver, m.when = receiver, when
}

// SettingUp reports whether the run is still being set up and has no history yet.
func (m *Monitor) SettingUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.receiver == nil && m.when == harness.DuringSetup
}

// SawInterference reports whether there was any interference.
func (m *Monitor) SawInterference() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.interfered
}

// Explain joins an error with its likely cause: outside interference that no process
// has reported, or a step of the plan that took too long.
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

// Poll sends all probes repeatedly until stop is called, and then sends each probe a last time.
func (r *Run) Poll(patience time.Duration, probes ...proc.Probe) (stop func()) {
	ctx, cancel := context.WithCancel(r.Ctx)
	var wg sync.WaitGroup
	for _, probe := range probes {
		wg.Go(func() {
			probe.Run(ctx)
			if r.Ctx.Err() == nil { // otherwise, the run is over and its programs are stopped
				probe.AskOnce(patience)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}
