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
	all map[asking]time.Duration // by TrueClock, when it was last asked
}

// asking is a server and where it was asked from: another server may be connected to from
// the same port by anybody.
type asking struct{ server, from string }

// askedFor is how long an address that was asked from counts as ours. The kernel gives it
// away again.
const askedFor = time.Minute

func (a *askers) note(x asking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[asking]time.Duration{}
	}
	a.all[x] = TrueClock()
}

// Asked says whether Ask has asked a server lately from an address. Both are as their
// connection has them.
func Asked(server, from string) bool {
	asked.mu.Lock()
	defer asked.mu.Unlock()
	at, ok := asked.all[asking{server, from}]
	return ok && TrueClock()-at < askedFor
}
