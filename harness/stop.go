package harness

import (
	"fmt"
	"sync"
	"time"

	"lockpick/harness/history"
)

// tooLong says why a run was stopped, and what to do about it.
const tooLong = "one run may record no more; let clients think or hold, or set a shorter limit"

// stopping ends a run that has recorded as many events as it may. It ends once, and only while
// clients run.
type stopping struct {
	most    int // events; 0: any number
	cluster Cluster
	rec     record
	running func() bool
	quit    func()
	halted  chan struct{} // closed when the run is to end where it stands

	mu  sync.Mutex
	why string // the run ends early
}

// see stops the run when the event that was just recorded is the last it may record.
func (s *stopping) see(ev history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 || ev.N < int64(s.most) || s.why != "" || !s.running() {
		return
	}
	s.why = fmt.Sprintf("stopped at event %d: %s", ev.N, tooLong)
	s.cluster.At(s.cluster.Now(), func() { s.halt(time.Duration(ev.T)) })
}

// reason is why the run ends early, "": it doesn't.
func (s *stopping) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// halt records that the run was stopped, and ends it.
func (s *stopping) halt(since time.Duration) {
	// The stamp of what led here may be ahead of ours by the error of the stamps.
	at := max(s.cluster.Now(), since)
	s.quit()
	s.rec.add(history.Event{T: int64(at), Process: history.Harness, Type: history.Info, Op: history.OpStop, Cause: s.reason()})
	close(s.halted)
}
