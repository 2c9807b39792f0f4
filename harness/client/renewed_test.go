package client

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// renewing is a lease that its library extends by itself.
type renewing struct {
	*lease
	renewed, lost chan struct{}
}

func (r renewing) Renewed() <-chan struct{} { return r.renewed }
func (r renewing) Lost() <-chan struct{}    { return r.lost }

// What a library extends by itself is believed from when it says so, and recorded then; after the
// lock is given back nobody listens.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := renewing{&lease{world: w, until: epoch.Add(10 * time.Second)}, make(chan struct{}), make(chan struct{})}
		c := &section{program: &program{e: w.env()}, handle: h, own: belief{until: h.until}}
		c.listen(t.Context())
		if w.now = 9 * time.Second; !c.check() {
			t.Error("it does not believe at 9 s")
		}
		h.until = epoch.Add(19 * time.Second)
		h.renewed <- struct{}{}
		synctest.Wait()
		if w.now = 18 * time.Second; !c.check() {
			t.Error("it does not believe at 18 s")
		}
		if w.now = 20 * time.Second; c.check() {
			t.Error("it believes at 20 s")
		}
		c.loss.ignore()
		select {
		case h.renewed <- struct{}{}:
			t.Error("somebody listens to a lock that was given back")
		default:
		}
		want := "9s ok check; 9s invoke extend; 9s ok extend until 19s; 18s ok check; 20s fail check"
		if got := strings.Join(w.events, "; "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
