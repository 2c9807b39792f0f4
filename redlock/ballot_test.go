package redlock

import (
	"sync"
	"testing"
	"testing/synctest"

	"lockpick/redlock/driver"
)

// What follows an answer counts as the ballot's work until it is done, also where the answer
// that came last was done with before.
func TestBallotWorksUntilAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		var done bool
		b, begun, onward := new(ballot), make(chan struct{}), make(chan struct{})
		b.begin([]int{0, 1}, &work)
		b.then(func(a driver.Answer) {
			if a.Node == 0 {
				close(begun)
				<-onward
			}
		})
		go b.answer(0, 1, nil)
		<-begun
		b.answer(1, 1, nil)
		go func() { work.Wait(); done = true }()
		synctest.Wait()
		if done {
			t.Error("its work counts as done while what follows an answer is under way")
		}
		close(onward)
		synctest.Wait()
		if !done {
			t.Error("its work never counts as done")
		}
	})
}
