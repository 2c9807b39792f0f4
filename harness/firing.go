package harness

import "sync"

// firing is the faults that are being injected. It is no sync.RWMutex: to inject one
// may take a while of the cluster's clock, and virtual time stands still while
// somebody waits for a mutex.
type firing struct {
	mu      sync.Mutex
	none    *sync.Cond
	now     int
	stopped bool
}

func newFiring() *firing {
	f := &firing{}
	f.none = sync.NewCond(&f.mu)
	return f
}

// enter says whether something may still be injected; if so, leave must follow.
func (f *firing) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.now++
	return true
}

func (f *firing) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now--; f.now == 0 {
		f.none.Broadcast()
	}
}

// settle returns once nothing is being injected.
func (f *firing) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.now > 0 {
		f.none.Wait()
	}
}

// stop lets nothing be injected any more, and settles.
func (f *firing) stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.settle()
}
