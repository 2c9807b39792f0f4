package redlock

import (
	"sync"
	"testing"
	"testing/synctest"

	"lockpick/redlock/driver"
)

// A ballot's work is done only when all callbacks have returned, even if the callback for an
// earlier answer takes longer than the callback for the last one.
func TestBallotWorkIncludesCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		var done bool
		b, started, proceed := new(ballot), make(chan struct{}), make(chan struct{})
		b.begin([]int{0, 1}, &work)
		b.forEach(func(a driver.Answer) {
			if a.Node == 0 {
				close(started)
				<-proceed
			}
		})
		go b.answer(0, 1, nil)
		<-started
		b.answer(1, 1, nil)
		go func() { work.Wait(); done = true }()
		synctest.Wait()
		if done {
			t.Error("the work was done while a callback was still running")
		}
		close(proceed)
		synctest.Wait()
		if !done {
			t.Error("the work was never done")
		}
	})
}
