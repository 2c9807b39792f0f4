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

// ask asks whether the run is to end here. It ends once, and only while clients
// run. The engine's lock is held.
func (e *engine) ask(ev history.Event) {
	if e.until == nil || e.stop != "" {
		return
	}
	h := e.until(ev)
	switch {
	case e.running == 0:
	case h.Why != "":
		e.stop = fmt.Sprintf("stopped at event %d: %s", ev.N, h.Why)
		e.cluster.At(e.cluster.Now(), func() { e.halt(h.Key, time.Duration(ev.T)) })
	case h.After > e.asked:
		e.asked = h.After
		e.cluster.At(h.After+1, func() { e.note("time has passed in which one lock may have had two holders") })
	}
}

// halt keeps what can be seen of a lock now only, and lets the run end. The keys
// come first: they are on their way out.
func (e *engine) halt(key string, since time.Duration) {
	// The stamp of what led here may be ahead of ours by the error of the stamps.
	at := max(e.cluster.Now(), since)
	var keys []history.Event
	if key != "" {
		keys = e.readKeys(key)
	}
	e.quit()
	e.mu.Lock()
	why := e.stop
	e.mu.Unlock()
	e.record(history.Event{T: int64(at), Process: history.Harness, Type: history.Info, Op: history.OpStop, Key: key, Cause: why})
	for _, k := range keys {
		e.record(k)
	}
	close(e.halted)
}

// quit lets nothing be injected any more. What is being injected is recorded before.
func (e *engine) quit() {
	e.queues.stop()
	e.firing.stop()
}

// readKey is a script, so that what it tells was so at one instant.
const readKey = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"

// readKeys reads a lock's key on every node, past all links. One that doesn't
// answer must not keep the others waiting.
func (e *engine) readKeys(key string) []history.Event {
	nodes := e.s.NodeNames()
	events := make([]history.Event, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			ev := history.Event{Process: history.Harness, Op: history.OpKey, Key: key, Node: node}
			reply, err := e.cluster.Node(context.Background(), node, "EVAL", readKey, "1", key)
			ev.Type, ev.Token, ev.TTL = stands(reply)
			if err != nil {
				ev.Type, ev.Cause = history.Info, err.Error()
			}
			ev.T = int64(e.cluster.Now())
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
