package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness/lock"
)

// contextLease is a lease with a context that ends when the lease does.
type contextLease struct {
	*lease
	ctx context.Context
}

func (c contextLease) Context() context.Context { return c.ctx }

// notifyingLease is a contextLease that notifies the client of its loss, too.
type notifyingLease struct{ contextLease }

func (c notifyingLease) Lost() <-chan struct{} { return c.ctx.Done() }

// A client whose lock has a context may write until the context is canceled. Continuing past the
// deadline is recorded as an extension. If the context is canceled before the deadline, that is a
// loss.
func TestContextDecidesWhetherToWrite(t *testing.T) {
	for name, row := range map[string]struct {
		notifies bool
		at       time.Duration // when the client checks; the deadline is 10 s
		ended    bool
		writes   bool
		want     string
	}{
		"in time":                               {false, 9 * time.Second, false, true, "9s ok check"},
		"after the deadline":                    {false, 11 * time.Second, true, false, "11s info lost"},
		"lost in time":                          {false, 9 * time.Second, true, false, "9s info lost"},
		"lost in time, notified":                {true, 9 * time.Second, true, false, "9s info lost; 9s fail check"},
		"valid past the deadline":               {false, 11 * time.Second, false, true, "11s invoke extend; 11s ok extend until 21s; 11s ok check"},
		"valid past the deadline, not notified": {true, 11 * time.Second, false, true, "11s invoke extend; 11s ok extend until 21s; 11s ok check"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			w := &fakeEnv{}
			lease := contextLease{&lease{fakeEnv: w, until: epoch.Add(10 * time.Second)}, ctx}
			var h lock.Handle = lease
			if row.notifies {
				h = notifyingLease{lease}
			}
			c := &section{program: newProgram(Spec{Lock: lock.Settings{TTL: 10 * time.Second}}, w.env()), handle: h, lease: leaseDeadline{until: lease.until}}
			c.watchLoss(t.Context())
			w.trueTime = row.at
			if row.ended {
				end(errors.New("over"))
			}
			if writes := c.stillHeld(t.Context()) && c.check(); writes != row.writes {
				t.Errorf("%s: client writes %v", name, writes)
			}
			if got := strings.Join(w.events, "; "); got != row.want {
				t.Errorf("%s:\ngot  %s\nwant %s", name, got, row.want)
			}
			c.loss.close()
		})
	}
}
