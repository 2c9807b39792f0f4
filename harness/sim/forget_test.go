package sim

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// A library may pool its timers, as go-redis does for clients waiting for a connection. A timer
// created in one run's bubble must not be reused in the next run, where waiting for it would end
// the process.
func TestPooledTimersAcrossRuns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // pools are per processor
	created := 0
	timers := sync.Pool{New: func() any { created++; return time.NewTimer(time.Hour) }}
	errWaited := errors.New("waited")
	b := New(map[string]lock.Kind{"pooled": {OwnTime: true, New: func(lock.Env) (lock.Lock, error) {
		timer := timers.Get().(*time.Timer)
		timer.Reset(time.Millisecond)
		<-timer.C
		timers.Put(timer)
		return nil, errWaited
	}}})
	s := testScenario(1, 1)
	s.Lock = lock.Settings{Kind: "pooled", TTL: time.Second}
	const runs = 5
	for range runs {
		err := b.Run(t.Context(), s, 1, history.NewRecorder(io.Discard), func(_ context.Context, c harness.Cluster) error {
			return c.RunClient(context.Background(), client.Spec{Name: "c1", Lock: s.Lock, Keys: []string{"k"}, Cycles: 1}, func(string) {})
		})
		if !errors.Is(err, errWaited) {
			t.Fatal(err)
		}
	}
	if created != runs {
		t.Errorf("%d timers were created in %d runs", created, runs)
	}
}
