package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// fakeEnv is an environment whose timers fire at once and advance its clock.
type fakeEnv struct {
	trueTime time.Duration
	events   []string
}

var epoch = time.Unix(1000, 0)

func (w *fakeEnv) env() Env {
	return Env{
		Now:      func() time.Time { return epoch.Add(w.trueTime) },
		TrueTime: func() time.Duration { return w.trueTime },
		After: func(d time.Duration) <-chan time.Time {
			w.trueTime += d
			c := make(chan time.Time, 1)
			c <- time.Time{}
			return c
		},
		Emit: func(e history.Event) {
			text := fmt.Sprintf("%v %s %s", time.Duration(e.T), e.Type, e.Op)
			if e.ValidUntil != 0 {
				text += fmt.Sprintf(" until %v", time.Duration(e.ValidUntil))
			}
			w.events = append(w.events, text)
		},
	}
}

// lease is a handle that each extension renews for 10 s. The first extensions return the given
// errors, and all later ones succeed.
type lease struct {
	*fakeEnv
	until time.Time
	errs  []error
}

func (l *lease) Release(context.Context) error { return nil }
func (l *lease) Deadline() time.Time           { return l.until }

func (l *lease) Extend(context.Context) error {
	var err error
	if len(l.errs) > 0 {
		err, l.errs = l.errs[0], l.errs[1:]
	}
	if err == nil {
		l.until = epoch.Add(l.trueTime + 10*time.Second)
	}
	return err
}

func TestHold(t *testing.T) {
	unknown, lost := errors.New("no quorum"), fmt.Errorf("extend: %w", lock.ErrNotHeld)
	for _, row := range []struct {
		name    string
		spec    Spec
		hold    time.Duration
		answers []error
		proceed bool
		want    string
	}{
		{"without extension", Spec{}, 15 * time.Second, nil, true, ""},
		{"shorter than a step", Spec{ExtendInterval: 3 * time.Second}, 2 * time.Second, nil, true, ""},
		{"as long as a step", Spec{ExtendInterval: 3 * time.Second}, 3 * time.Second, nil, true, ""},
		{"in steps", Spec{ExtendInterval: 3 * time.Second}, 8 * time.Second, nil, true,
			"3s invoke extend; 3s ok extend until 13s; 6s invoke extend; 6s ok extend until 16s"},
		{"lost", Spec{ExtendInterval: 3 * time.Second}, 8 * time.Second, []error{nil, lost}, false,
			"3s invoke extend; 3s ok extend until 13s; 6s invoke extend; 6s fail extend"},
		{"unknown outcome, then expired", Spec{ExtendInterval: 6 * time.Second}, 14 * time.Second, []error{unknown}, false,
			"6s invoke extend; 6s info extend; 10s fail check"},
		{"unknown outcome, then success", Spec{ExtendInterval: 4 * time.Second}, 14 * time.Second, []error{unknown}, true,
			"4s invoke extend; 4s info extend; 8s invoke extend; 8s ok extend until 18s; 12s invoke extend; 12s ok extend until 22s"},
		{"without checking the deadline", Spec{ExtendInterval: 6 * time.Second, NoCheck: true}, 14 * time.Second, []error{unknown, unknown}, true,
			"6s invoke extend; 6s info extend; 12s invoke extend; 12s info extend"},
	} {
		w := &fakeEnv{}
		l := &lease{fakeEnv: w, until: epoch.Add(10 * time.Second), errs: row.answers}
		c := &section{program: newProgram(row.spec, w.env()), handle: l, lease: leaseDeadline{until: l.until}}
		proceed := c.hold(t.Context(), row.hold)
		if got := strings.Join(w.events, "; "); got != row.want || proceed != row.proceed {
			t.Errorf("%s: client continues %v, want %v\ngot  %s\nwant %s", row.name, proceed, row.proceed, got, row.want)
		}
		if proceed && w.trueTime != row.hold {
			t.Errorf("%s: held for %v, want %v", row.name, w.trueTime, row.hold)
		}
	}
}

// A client that was asked to stop no longer extends its lock.
func TestHoldEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &fakeEnv{}
	l := &lease{fakeEnv: w, until: epoch.Add(10 * time.Second)}
	c := &section{program: newProgram(Spec{ExtendInterval: time.Second}, w.env()), handle: l, lease: leaseDeadline{until: l.until}}
	if !c.hold(ctx, time.Hour) || len(w.events) > 0 || w.trueTime > time.Second {
		t.Errorf("client continued until %v: %v", w.trueTime, w.events)
	}
}
