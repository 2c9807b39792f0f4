package sim

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
)

// inBubble runs f in a bubble of virtual time, which begins on 2000-01-01, and
// returns when all goroutines of the bubble have ended. A panic in f, or that
// all goroutines wait for each other, is an error; in the latter case they stay
// behind for the rest of the process. A panic in another goroutine ends the
// process, and one that blocks on anything outside the bubble (a contended
// mutex, a socket, a channel from outside) stops virtual time for good: those
// who start many runs do so in subprocesses, with a watchdog on the wall clock.
//
// synctest wants a testing.T and gets an empty one, which go1.26 is content with
// as long as nobody uses it; that is why f runs in a goroutine of its own, where
// even runtime.Goexit does no harm. Should a later Go refuse it,
// testing.MainStart with its own testDeps and one InternalTest gives a real T.
func inBubble(f func()) (err error) {
	var inner error
	defer func() {
		if r := recover(); r != nil {
			err = errors.Join(inner, fmt.Errorf("run simulation: %v", r))
		}
	}()
	forgetTimers()
	synctest.Test(new(testing.T), func(*testing.T) {
		inner = protect("run simulation", f)
	})
	return inner
}

// leftBehind says whether all that is wrong with a bubble is that goroutines of it never end.
func leftBehind(err error) bool {
	return err != nil && strings.Contains(err.Error(), "main bubble goroutine has exited but blocked goroutines remain")
}

// protect runs f in a goroutine and turns a panic or a Goexit there into an error.
func protect(what string, f func()) (err error) {
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%s: panic: %v\n%s", what, r, debug.Stack())
			} else if !returned {
				err = fmt.Errorf("%s: it called runtime.Goexit", what)
			}
		}()
		f()
		returned = true
	}()
	<-done
	return err
}
