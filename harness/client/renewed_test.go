package client

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness/history"
)

// selfExtendingLease is a lease extended by its library.
type selfExtendingLease struct {
	*lease
	renewed, lost chan struct{}
}

func (r selfExtendingLease) Renewed() <-chan struct{} { return r.renewed }
func (r selfExtendingLease) Lost() <-chan struct{}    { return r.lost }

// When the library reports an extension, the client records it and adopts the new deadline. It
// ignores reports after it has released the lock.
func TestLibraryExtensionIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeEnv{}
		h := selfExtendingLease{&lease{fakeEnv: w, until: epoch.Add(10 * time.Second)}, make(chan struct{}), make(chan struct{})}
		c := &section{program: newProgram(Spec{}, w.env()), handle: h, lease: leaseDeadline{until: h.until}}
		c.watchLoss(t.Context())
		if w.trueTime = 9 * time.Second; !c.check() {
			t.Error("the lock is not considered held at 9 s")
		}
		h.until = epoch.Add(19 * time.Second)
		h.renewed <- struct{}{}
		synctest.Wait()
		if w.trueTime = 18 * time.Second; !c.check() {
			t.Error("the lock is not considered held at 18 s")
		}
		if w.trueTime = 20 * time.Second; c.check() {
			t.Error("the lock is considered held at 20 s")
		}
		c.loss.close()
		select {
		case h.renewed <- struct{}{}:
			t.Error("the client still listens after releasing the lock")
		default:
		}
		want := "9s ok check; 9s invoke extend; 9s ok extend until 19s; 18s ok check; 20s fail check"
		if got := strings.Join(w.events, "; "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// If the lock reports something while its holder is reading the clock, events are recorded in the
// order of their times, whether the report arrives just before or just after the reading.
func TestReportsAreRecordedInStampOrder(t *testing.T) {
	for name, at := range map[string]int{"before": 0, "after": 1} {
		for _, extended := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := &fakeEnv{}
				h := selfExtendingLease{&lease{fakeEnv: w, until: epoch.Add(10 * time.Second)}, make(chan struct{}, 1), make(chan struct{})}
				report := func() {
					if extended {
						h.renewed <- struct{}{}
					} else {
						close(h.lost)
					}
				}
				var stamps []int64
				var readings int
				env := w.env()
				env.Emit = func(e history.Event) { stamps = append(stamps, e.T) }
				env.TrueTime = func() time.Duration {
					w.trueTime += time.Millisecond
					now := w.trueTime
					if readings++; readings == at {
						report()
						synctest.Wait()
					}
					return now
				}
				c := &section{program: newProgram(Spec{}, env), handle: h, lease: leaseDeadline{until: h.until}}
				c.watchLoss(t.Context())
				synctest.Wait()
				if at == 0 {
					report()
				}
				c.check()
				synctest.Wait()
				if extended {
					c.recordExtension(h.until, "")
				}
				c.loss.close()
				if len(stamps) < 2 || !slices.IsSorted(stamps) {
					t.Errorf("report %s the reading, extended %v: events have times %v", name, extended, stamps)
				}
			})
		}
	}
}
