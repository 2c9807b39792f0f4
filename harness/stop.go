package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockpick/harness/history"
)

// Until is shown every event as it is recorded, and says whether the run is to end
// there. It must neither block nor record.
type Until func(history.Event) Halt

// Halt is an answer of Until's. The zero value lets the run go on.
type Halt struct {
	Why string // the run is to end, for this
	Key string // on account of this lock
	// After: this instant's passing decides. Where nothing else happens, a remark
	// is recorded then, so that Until is asked again. 0: nothing is undecided.
	After time.Duration
}

// stopping ends a run early where until says so. It ends once, and only while clients
// run.
type stopping struct {
	until   Until
	cluster Cluster
	rec     record
	nodes   []string
	prefix  string // of keys
	running func() bool
	quit    func()
	halted  chan struct{} // closed when the run is to end where it stands

	mu    sync.Mutex
	why   string        // the run ends early
	asked time.Duration // until is asked again after this
}

// see is shown every event as it is recorded, and asks whether the run is to end here.
func (s *stopping) see(ev history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil || s.why != "" {
		return
	}
	h := s.until(ev)
	switch {
	case h == Halt{} || !s.running():
	case h.Why != "":
		s.why = fmt.Sprintf("stopped at event %d: %s", ev.N, h.Why)
		key, at := h.Key, time.Duration(ev.T)
		s.cluster.At(s.cluster.Now(), func() { s.halt(key, at) })
	case h.After > s.asked:
		s.asked = h.After
		s.cluster.At(h.After+1, func() { s.rec.note("time has passed in which one lock may have had two holders") })
	}
}

// reason is why the run ends early, "": it doesn't.
func (s *stopping) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// halt keeps what can be seen of a lock now only, and lets the run end. The keys
// come first: they are on their way out.
func (s *stopping) halt(key string, since time.Duration) {
	// The stamp of what led here may be ahead of ours by the error of the stamps.
	at := max(s.cluster.Now(), since)
	var keys []history.Event
	if key != "" {
		keys = readKeys(s.cluster, s.nodes, s.prefix, key)
	}
	s.quit()
	s.rec.add(history.Event{T: int64(at), Process: history.Harness, Type: history.Info, Op: history.OpStop, Key: key, Cause: s.reason()})
	for _, k := range keys {
		s.rec.add(k)
	}
	close(s.halted)
}

// readKey is a script, so that what it tells was so at one instant.
const readKey = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"

// readKeys reads a lock's key on every node, past all links. One that doesn't
// answer must not keep the others waiting.
func readKeys(c Cluster, nodes []string, prefix, key string) []history.Event {
	events := make([]history.Event, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			ev := history.Event{Process: history.Harness, Op: history.OpKey, Key: key, Node: node}
			reply, err := c.Node(context.Background(), node, "EVAL", readKey, "1", prefix+key)
			ev.Type, ev.Token, ev.TTL = stands(reply)
			if err != nil {
				ev.Type, ev.Cause = history.Info, err.Error()
			}
			ev.T = int64(c.Now())
			events[i] = ev
		})
	}
	all.Wait()
	return events
}

// stands reads what readKey returned.
func stands(reply any) (typ history.Type, token string, left int64) {
	pair, ok := reply.([]any)
	if !ok || len(pair) != 2 {
		return history.Info, "", 0
	}
	token, ok = pair[0].(string)
	if !ok {
		return history.Fail, "", 0
	}
	ms, _ := pair[1].(int64)
	if ms < 0 {
		return history.OK, token, -1
	}
	return history.OK, token, ms * int64(time.Millisecond)
}
