package harness

import (
	"slices"
	"sync"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// wait is somebody who waits for an event.
type wait struct {
	event nemesis.Event
	seen  int
	// onMatch is called at once, under the record's lock; nil: nothing.
	onMatch func()
	f       func()
}

// waits are all who wait for events.
type waits struct {
	cluster Cluster

	mu  sync.Mutex
	all []*wait
}

// await calls f once the event has been seen, in a goroutine of its own and soon
// after, never exactly then.
func (w *waits) await(ev nemesis.Event, onMatch func(), f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, &wait{event: ev, onMatch: onMatch, f: f})
}

// see is shown every event as it is recorded.
func (w *waits) see(ev history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return
	}
	var due []*wait
	w.all = slices.DeleteFunc(w.all, func(one *wait) bool {
		if !one.event.Matches(ev) {
			return false
		}
		one.seen++
		last := !one.event.Every && one.seen == max(one.event.Nth, 1)
		if last || one.event.Every {
			due = append(due, one)
		}
		return last
	})
	for _, one := range due {
		if one.onMatch != nil {
			one.onMatch()
		}
		w.cluster.At(w.cluster.Now()+one.event.After, one.f)
	}
}
