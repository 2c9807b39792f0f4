package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// reentrantLock is a lock that its holder can acquire repeatedly. Each acquire takes the given
// time, and acquires and releases return the given errors.
type reentrantLock struct {
	lease
	delay   time.Duration
	errs    []error
	numHeld int
}

func (l *reentrantLock) Close() error { return nil }

func (l *reentrantLock) next() (err error) {
	if len(l.errs) > 0 {
		err, l.errs = l.errs[0], l.errs[1:]
	}
	return err
}

func (l *reentrantLock) Acquire(context.Context, string) (lock.Handle, error) {
	time.Sleep(l.delay)
	l.numHeld++
	return l, l.next()
}

func (l *reentrantLock) Release(context.Context) error {
	l.numHeld--
	return l.next()
}

// Reacquiring a held lock and releasing such an acquisition are recorded as extensions. The client
// releases every acquisition, whatever the results.
func TestReentryExtendsTheHold(t *testing.T) {
	lost, unknown := fmt.Errorf("oh: %w", lock.ErrNotHeld), errors.New("no answer")
	for _, row := range []struct {
		name    string
		until   time.Duration // deadline of the first acquire
		lock    reentrantLock
		proceed bool
		left    int
		want    string
	}{
		{"twice", 5 * time.Second, reentrantLock{}, true, 0,
			"0s invoke extend acquire; 0s ok extend until 10s acquire; 0s invoke extend acquire; 0s ok extend until 10s acquire; " +
				"1s invoke extend release; 1s ok extend until 10s release; 1s invoke extend release; 1s ok extend until 10s release"},
		{"lost at the second", 5 * time.Second, reentrantLock{errs: []error{nil, lost}}, false, 1,
			"0s invoke extend acquire; 0s ok extend until 10s acquire; 0s invoke extend acquire; 0s fail extend; " +
				"0s invoke extend release; 0s ok extend until 10s release"},
		{"of unknown outcome", 5 * time.Second, reentrantLock{errs: []error{unknown, unknown}}, true, 2,
			"0s invoke extend acquire; 0s info extend; 0s invoke extend acquire; 0s info extend"},
		{"after the lease is over", 5 * time.Second, reentrantLock{delay: 6 * time.Second}, false, 0,
			"0s invoke extend acquire; 6s info extend acquire; 6s invoke extend release; 6s ok extend until 5s release"},
		{"the first deadline is later", 20 * time.Second, reentrantLock{errs: []error{nil, nil, lost}}, false, 0,
			"0s invoke extend acquire; 0s ok extend until 20s acquire; 0s invoke extend acquire; 0s ok extend until 20s acquire; " +
				"1s invoke extend release; 1s fail extend; 1s invoke extend release; 1s ok extend until 20s release"},
		{"lease already over", -time.Second, reentrantLock{}, false, 0, "0s fail check"},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var events []string
			env := Env{Now: time.Now, TrueTime: func() time.Duration { return time.Since(start) }, After: time.After, Emit: func(e history.Event) {
				text := fmt.Sprintf("%v %s %s", time.Duration(e.T), e.Type, e.Op)
				if e.ValidUntil != 0 {
					text += fmt.Sprintf(" until %v", time.Duration(e.ValidUntil))
				}
				events = append(events, strings.TrimSpace(text+" "+e.Value))
			}}
			row.lock.until = start.Add(10 * time.Second)
			c := &section{program: &program{s: Spec{Reentries: 2}, e: env, lock: &row.lock, recordLock: make(chan struct{}, 1)}, handle: &row.lock, lease: leaseDeadline{until: start.Add(row.until)}}
			proceed := c.reenter(t.Context(), time.Second)
			if got := strings.Join(events, "; "); proceed != row.proceed || got != row.want || row.lock.numHeld != row.left {
				t.Errorf("%s: client continues %v, want %v; %d acquisitions not released, want %d\ngot  %s\nwant %s", row.name, proceed, row.proceed, row.lock.numHeld, row.left, got, row.want)
			}
		})
	}
}
