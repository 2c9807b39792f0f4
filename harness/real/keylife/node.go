package keylife

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/history"
)

// node is one node of the run. While it is attached, only its reader knows what its keys
// are; whoever attaches or detaches it holds the mutex, and it has no reader then.
type node struct {
	lives   *Lives
	name    string
	senders sync.Map    // *Sender by the address that the node sees
	awaited atomic.Bool // its end was announced, and its return will be
	orderly atomic.Bool // and it ends in good order

	mu       sync.Mutex
	addr     string
	notify   *string // its notify-keyspace-events of before; nil: as it is now
	stream   *stream // that it tells by; nil: it doesn't
	over     bool    // the run is
	retrying bool
	running  sync.WaitGroup

	run  string // run_id of the life that tells, or told last
	seq  int64
	keys map[string]*state
	past map[string][]*state // what keys were, of those that have been something else since

	pending []item // events whose command is not told yet
	low     int64  // by Clock: what was told last did not happen before
	told    int64  // when it was read
	t       int64  // what was taken for its instant
	ahead   int64  // how far the node's clock was ahead of Clock then
	script  cause  // of the commands of a script that follow
}

// first lets it tell from the run's begin.
func (n *node) first() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, err := n.attach()
	if err != nil {
		return err
	}
	maps.Copy(n.keys, s.found)
	n.listen(s)
	return nil
}

// again lets it tell in another life, or what has taken its place.
func (n *node) again(addr, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over || n.stream != nil && n.addr == addr && n.stream.lives() { // nobody had announced its end
		return
	}
	if s := n.stream; s != nil {
		s.finish()
		n.detach()
	}
	if addr != n.addr {
		n.addr, n.notify = addr, nil // which was the other's
	}
	s, err := n.attach()
	if err != nil {
		n.awaited.Store(false) // nobody will say it again
		n.retry()
		return
	}
	n.resume(s, why)
}

// resume lets it tell again, once what it has was compared with what it was seen to have.
// The mutex is held.
func (n *node) resume(s *stream, why string) {
	if n.run == s.run {
		why = "" // it has lived on
	}
	n.run = s.run
	n.compare(s, why)
	n.listen(s)
}

// listen lets a reader take what is told from now on. The mutex is held.
func (n *node) listen(s *stream) {
	n.run, n.stream = s.run, s
	n.awaited.Store(false)
	n.orderly.Store(false)
	n.pending, n.script = nil, cause{}
	n.low, n.told, n.t, n.ahead = s.from, s.at, s.from, s.ahead
	n.running.Go(func() {
		for {
			items, err := s.items(n.lives.cfg.Clock)
			n.take(s, items)
			if err != nil {
				break
			}
		}
		close(s.done)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.stream == s {
			n.detach()
			n.retry()
		}
	})
}

// endBound is how long a node that is about to be killed may take to tell what it has done.
const endBound = 100 * time.Millisecond

// catchUp waits until that is taken, if it tells in time.
func (n *node) catchUp() {
	n.mu.Lock()
	s := n.stream
	n.mu.Unlock()
	if s != nil {
		s.drained(endBound)
	}
}

// detach takes in that it tells no more: its reader has ended. The mutex is held.
func (n *node) detach() {
	n.stream.close()
	n.stream = nil
	now := n.lives.now()
	if !n.orderly.Load() {
		n.gap(now)
	}
	n.told = now
}

// gap tells that facts may be missing since what was told last, which is its instant: the
// node may have been dead at the end of the gap.
func (n *node) gap(until int64) {
	since := max(min(n.told, until), n.lives.origin.Load()) // before the run there is nothing to miss
	n.record(fact{what: history.KeyGap, bounds: bounds{since, since, until}, clock: since + n.ahead})
}

// retryAfter is how long a node is left alone that could not be attached.
const retryAfter = 20 * time.Millisecond

// retry attaches it as soon as that is possible, unless somebody will say that it is back.
// The mutex is held.
func (n *node) retry() {
	if n.retrying || n.over || n.awaited.Load() {
		return
	}
	n.retrying = true
	n.running.Go(func() {
		for {
			time.Sleep(retryAfter)
			if n.tried() {
				return
			}
		}
	})
}

// tried says whether no more need be tried.
func (n *node) tried() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over && n.stream == nil {
		s, err := n.attach()
		if err != nil {
			return false
		}
		n.gap(s.at) // its links were not held
		n.resume(s, history.Restart)
	}
	n.retrying = false
	return true
}

// leave lets it tell no more, and leaves it as it was. Of a run that has begun, all it has
// to tell is recorded before.
func (n *node) leave(begun bool) error {
	n.mu.Lock()
	n.over = true
	if s := n.stream; s != nil {
		drained := begun && s.drained(drainBound)
		if drained {
			s.close()
		}
		s.finish()
		n.stream = nil
		s.close()
		if begun && !drained {
			n.gap(n.lives.now())
		}
	}
	err := n.restore()
	n.mu.Unlock()
	n.running.Wait()
	return err
}
