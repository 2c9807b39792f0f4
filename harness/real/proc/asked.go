package proc

import (
	"sync"
	"time"
)

// asked is where this process has asked servers from. A server that tells who asked it
// knows a connection by its address alone, and may tell when that is long closed.
var asked askers

type askers struct {
	mu  sync.Mutex
	all map[string]time.Duration // by TrueClock, when an address was last asked from
}

// askedFor is how long an address that was asked from counts as ours. The kernel gives it
// away again.
const askedFor = time.Minute

func (a *askers) from(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]time.Duration{}
	}
	a.all[addr] = TrueClock()
}

// Asked says whether Ask has asked a server from an address lately.
func Asked(addr string) bool {
	asked.mu.Lock()
	defer asked.mu.Unlock()
	at, ok := asked.all[addr]
	return ok && TrueClock()-at < askedFor
}
