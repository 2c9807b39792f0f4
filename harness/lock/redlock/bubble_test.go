package redlock

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/redisnode/redistest"
)

// Nodes may be unreachable in different ways. Whatever go-redis does with them, a round takes at
// most one timeout, and no goroutines are left once the lock is closed. A synctest bubble fails if
// a goroutine outlives it.
func TestUnreachableNodes(t *testing.T) {
	type dial = func(context.Context, string, string) (net.Conn, error)
	errRefused := errors.New("connection refused")
	for name, c := range map[string]struct {
		tries     int
		roundTime time.Duration
		dial      dial
	}{
		// Once as many connections as its pool can hold have been refused, go-redis dials only in
		// the background.
		"refused": {200, 0, func(context.Context, string, string) (net.Conn, error) { return nil, errRefused }},
		"silent dial": {20, 50 * time.Millisecond, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"silent node": {200, 50 * time.Millisecond, redistest.DialUnresponsive},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := env([]string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}, &drawRecorder{})
				e.Dial, e.Settings.Tries = c.dial, c.tries
				e.Settings.Timeout, e.Settings.RetryMin, e.Settings.RetryMax = 50*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
				l, err := New(e)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := l.Acquire(context.Background(), "k"); !errors.Is(err, redlock.ErrNoQuorum) {
					t.Errorf("error: %v, want %v", err, redlock.ErrNoQuorum)
				}
				// An attempt consists of a round of sets and a round of releases.
				want := time.Duration(c.tries)*2*c.roundTime + time.Duration(c.tries-1)*20*time.Millisecond
				if got := time.Since(start); got != want {
					t.Errorf("%d attempts took %v, want %v", c.tries, got, want)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}
