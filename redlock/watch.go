package redlock

import (
	"container/heap"
	"sync"
	"time"
)

// watch closes the Done channels of leases' contexts at their deadlines, by one goroutine for all
// of a Locker. Whoever asks a context need not wait for it: see leaseContext.
type watch struct {
	locker *Locker

	mu     sync.Mutex // nothing else is locked under it, nor is the clock asked
	leases soonest
	awake  bool          // the goroutine runs
	sooner chan struct{} // it is to look again
}

// watched is what the watch notes of a lease.
type watched struct {
	due time.Time // when it is looked at: its deadline, or one before
	at  int       // its place among them, from 1; 0: it is not watched
}

// add watches s, unless the Locker is closed.
func (w *watch) add(s *Lease, due time.Time) bool {
	if w.locker.enter() != nil {
		return false
	}
	defer w.locker.work.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.watched.due = due
	heap.Push(&w.leases, s)
	switch {
	case !w.awake:
		w.awake = true
		w.locker.work.Go(w.run)
	case w.leases[0] == s:
		select {
		case w.sooner <- struct{}{}:
		default:
		}
	}
	return true
}

// remove watches s no longer.
func (w *watch) remove(s *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.watched.at > 0 {
		heap.Remove(&w.leases, s.watched.at-1)
	}
}

// run looks whenever a deadline comes, until there are none.
func (w *watch) run() {
	for {
		var closed error
		if w.locker.life.Err() != nil {
			closed = ErrClosed
		}
		wait, more := w.look(closed)
		if !more {
			return
		}
		select {
		case <-w.locker.cfg.After(wait):
		case <-w.sooner:
		case <-w.locker.life.Done():
		}
	}
}

// look ends the leases that are over, all of them if closed says so, and says when it is to be
// called again.
func (w *watch) look(closed error) (wait time.Duration, more bool) {
	for {
		now := w.locker.cfg.Now()
		w.mu.Lock()
		if len(w.leases) == 0 {
			w.awake = false
			w.mu.Unlock()
			return 0, false
		}
		if wait = w.leases[0].watched.due.Sub(now); wait > 0 && closed == nil {
			w.mu.Unlock()
			return wait, true
		}
		s := heap.Pop(&w.leases).(*Lease)
		w.mu.Unlock()
		if closed != nil {
			s.over(closed)
		} else if s.ended(now) == nil {
			s.watchAgain()
		}
	}
}

// watchAgain has s watched until its deadline, which has moved.
func (s *Lease) watchAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	w := &s.locker.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	s.watched.due = s.until
	heap.Push(&w.leases, s)
}

// soonest is a heap of leases, by when they are due.
type soonest []*Lease

func (h soonest) Len() int           { return len(h) }
func (h soonest) Less(i, j int) bool { return h[i].watched.due.Before(h[j].watched.due) }
func (h soonest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].watched.at, h[j].watched.at = i+1, j+1
}

func (h *soonest) Push(s any) {
	*h = append(*h, s.(*Lease))
	s.(*Lease).watched.at = len(*h)
}

func (h *soonest) Pop() any {
	all := *h
	s := all[len(all)-1]
	all[len(all)-1] = nil
	*h = all[:len(all)-1]
	s.watched.at = 0
	return s
}
