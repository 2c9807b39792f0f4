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

// Monitor collects interference with a run's programs, such as a signal that was not sent by any
// step of the plan. As long as there is no receiver, the first interference ends the run.
type Monitor struct {
	fail func(error)

	mu         sync.Mutex
	receiver   func(harness.UnplannedEvent) // nil before recording has begun and after it has ended
	when       string                       // see harness.Interference
	first      error                        // the first interference without a receiver
	interfered bool                         // whether there was any interference
}

// NewMonitor returns a monitor without a receiver. It calls fail to end the run. when describes
// the current phase of the run for error messages.
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
		m.first = &harness.Interference{UnplannedEvent: u, When: m.when}
		m.fail(m.first)
	}
}

// SetReceiver sets the function that receives all further reports. If to is nil, there is no
// receiver.
func (m *Monitor) SetReceiver(to func(harness.UnplannedEvent), when string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.receiver, m.when = to, when
}

// SettingUp reports whether the run is still being set up, so that there is no history yet.
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

// Explain joins an error with its likely cause: the first interference that was not reported, or a
// step of the plan that took too long.
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

// Poll keeps sending each probe until stop is called, and then sends each one a last time.
func (r *Run) Poll(patience time.Duration, all ...proc.Probe) (stop func()) {
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
