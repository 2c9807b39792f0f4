package harness

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// stallingHost simulates a host that sometimes stalls while timers are due.
type stallingHost struct {
	tickingCluster
	now    time.Duration
	ε      time.Duration
	timers []func() // in the order of their times
	times  []time.Duration
}

func (h *stallingHost) StampError() time.Duration { return h.ε }
func (h *stallingHost) Now() time.Duration        { return h.now }
func (h *stallingHost) At(at time.Duration, f func()) {
	h.times, h.timers = append(h.times, at), append(h.timers, f)
}

// runUntil runs all timers due until end, each of them with the given delay.
func (h *stallingHost) runUntil(end, delay time.Duration) {
	for len(h.timers) > 0 && h.times[0] <= end {
		f := h.timers[0]
		h.now = max(h.now, h.times[0]) + delay
		h.times, h.timers = h.times[1:], h.timers[1:]
		f()
	}
	h.now = max(h.now, end)
}

func TestHostStallIsRecorded(t *testing.T) {
	for _, exact := range []bool{false, true} {
		h := &stallingHost{ε: time.Millisecond}
		if exact {
			h.ε = 0
		}
		var recordText bytes.Buffer
		var got strings.Builder
		rec := history.NewRecorder(&recordText)
		rec.Watch(func(e history.Event) {
			fmt.Fprintf(&got, "%v %s %s %s %s %s\n", time.Duration(e.T), e.Process, e.Type, e.Op, e.Node, e.Cause)
		})
		s := &stallDetector{cluster: h, rec: stampingRecorder{h, rec}, queues: newQueues(h)}
		s.start()
		h.runUntil(100*time.Millisecond, 5*time.Millisecond) // normal load
		h.runUntil(300*time.Millisecond, 0)
		h.runUntil(310*time.Millisecond, 700*time.Millisecond)
		h.runUntil(1500*time.Millisecond, 0)
		s.queues.close()
		h.runUntil(1510*time.Millisecond, 700*time.Millisecond) // the run is over
		want := "295ms nemesis begin stall machine the host stalled for 710ms\n1.005s nemesis end stall machine \n"
		if exact {
			want = ""
		}
		if got.String() != want {
			t.Errorf("exact clock %v: recorded\n%swant\n%s", exact, got.String(), want)
		}
		if len(h.timers) > 0 {
			t.Errorf("exact clock %v: stall detection is still active", exact)
		}
	}
}
