package harness

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// stallingHost is a host that stalls now and then while timers are due.
type halting struct {
	clockwork
	now time.Duration
	ε   time.Duration
	due []func() // in the order of their times
	at  []time.Duration
}

func (h *halting) StampError() time.Duration { return h.ε }
func (h *halting) Now() time.Duration        { return h.now }
func (h *halting) At(at time.Duration, f func()) {
	h.at, h.due = append(h.at, at), append(h.due, f)
}

// runUntil runs all timers due until end, each one late.
func (h *halting) until(end, late time.Duration) {
	for len(h.due) > 0 && h.at[0] <= end {
		f := h.due[0]
		h.now = max(h.now, h.at[0]) + late
		h.at, h.due = h.at[1:], h.due[1:]
		f()
	}
	h.now = max(h.now, end)
}

func TestMachineThatStandsStill(t *testing.T) {
	for _, exact := range []bool{false, true} {
		h := &halting{ε: time.Millisecond}
		if exact {
			h.ε = 0
		}
		var said bytes.Buffer
		var got strings.Builder
		rec := history.NewRecorder(&said)
		rec.Watch(func(e history.Event) {
			fmt.Fprintf(&got, "%v %s %s %s %s %s\n", time.Duration(e.T), e.Process, e.Type, e.Op, e.Node, e.Cause)
		})
		s := &stalls{cluster: h, rec: record{h, rec}, queues: newQueues(h)}
		s.watch()
		h.until(100*time.Millisecond, 5*time.Millisecond) // normal load
		h.until(300*time.Millisecond, 0)
		h.until(310*time.Millisecond, 700*time.Millisecond)
		h.until(1500*time.Millisecond, 0)
		s.queues.close()
		h.until(1510*time.Millisecond, 700*time.Millisecond) // the run is over
		want := "295ms nemesis begin stall machine the host stalled for 710ms\n1.005s nemesis end stall machine \n"
		if exact {
			want = ""
		}
		if got.String() != want {
			t.Errorf("clock exact: %v: recorded\n%swant\n%s", exact, got.String(), want)
		}
		if len(h.due) > 0 {
			t.Errorf("clock exact: %v: stall detection is still active", exact)
		}
	}
}
