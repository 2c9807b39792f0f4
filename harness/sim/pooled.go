package sim

import (
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

// semTimers is go-redis's own pool of the timers by which it waits for a turn where all of a client's
// connections are taken. A timer belongs to the bubble that it was made in, and in another it ends the
// process. TestTurnsOfAnotherRun tells if a newer go-redis calls it otherwise.
//
//go:linkname semTimers github.com/redis/go-redis/v9/internal.semTimers
var semTimers sync.Pool

// renewing is held while the pool is replaced: runs may begin at once.
var renewing sync.Mutex

// forgetTimers has a run begin without the timers of those before it.
func forgetTimers() {
	renewing.Lock()
	defer renewing.Unlock()
	semTimers = sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
}
