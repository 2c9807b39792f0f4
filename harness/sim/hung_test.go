package sim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// hangingLock is a lock with one call that ignores its context and never returns.
type hangingLock struct{ hangingCall string }

func (n hangingLock) hangIn(op string) {
	if n.hangingCall == op {
		<-make(chan int)
	}
}

func (n hangingLock) Acquire(context.Context, string) (lock.Handle, error) {
	n.hangIn("acquire")
	return n, nil
}
func (n hangingLock) Release(context.Context) error { n.hangIn("release"); return nil }
func (n hangingLock) Deadline() time.Time           { return time.Time{} }
func (n hangingLock) Close() error                  { n.hangIn("close"); return nil }

// A client that ignores the end of the run is abandoned, whether or not it has its own bubble. Its
// pending operation stays open in the history, and the run reports no error.
func TestHungClientIsAbandoned(t *testing.T) {
	for _, ownBubble := range []bool{false, true} {
		for _, op := range []string{"acquire", "release", "close"} {
			b := New(map[string]lock.Kind{"own": {OwnTime: ownBubble, New: func(lock.Env) (lock.Lock, error) { return hangingLock{op}, nil }}})
			s := clientBubbleScenario(1, 1)
			if !ownBubble {
				s.Plan = nil
			}
			var text bytes.Buffer
			var events []history.Event
			rec := history.NewRecorder(&text)
			rec.Watch(func(e history.Event) { events = append(events, e) })
			err := b.Run(t.Context(), s, 1, rec, func(_ context.Context, c harness.Cluster) error {
				ctx, cancel := context.WithCancel(context.Background())
				c.At(5*time.Second, cancel)
				return c.RunClient(ctx, client.Spec{Name: "c1", Lock: s.Lock, Keys: []string{"k"}, Cycles: 1, EndTime: time.Minute}, func(string) {})
			})
			called := slices.ContainsFunc(events, func(e history.Event) bool { return e.Op == op && e.Type == history.Invoke })
			returned := slices.ContainsFunc(events, func(e history.Event) bool { return e.Op == op && e.Type != history.Invoke })
			if err != nil || called != (op != "close") || returned {
				t.Errorf("%s hangs, own bubble %v: error %v\n%s", op, ownBubble, err, strings.TrimSpace(text.String()))
			}
		}
	}
}
