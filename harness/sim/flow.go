package sim

import (
	"lockpick/harness/resp"
)

// state is how far a message has come.
type state int8

const (
	flying  state = iota
	waiting       // it arrived at a cut, or behind a message that has not been delivered
	held          // a tap keeps it
)

// message is a chunk of one direction of a connection, or its beginning or end.
type message struct {
	state   state
	payload []byte
	content uint64
	answers []*resp.Command // the commands that a reply answers
	taps    []*tap          // that keep it, one after the other
	deliver func()          // called without the network's mutex
}

// flow is one direction of one connection. As in TCP, what was sent first is
// delivered first, whatever a cut or a tap does to it in between.
type flow struct {
	conn  *conn
	dir   *direction
	queue []*message
	last  int64 // when the youngest message is due
}

// send puts a message on its way.
func (f *flow) send(m *message) {
	m.content = sum(m.payload)
	f.queue = append(f.queue, m)
	f.depart(m, f.conn.net.latency(f.dir, m.content))
}

func (f *flow) depart(m *message, delay int64) {
	n := f.conn.net
	m.state = flying
	now := n.now()
	due := n.at(f.dir.slot, max(now+delay, f.last+1), func() { f.arrive(m) })
	f.last = max(f.last, due)
	f.dir.digest += mix(uint64(now), uint64(due), m.content)
}

// arrive delivers a message, if nothing keeps it.
func (f *flow) arrive(m *message) {
	n := f.conn.net
	n.mu.Lock()
	m.state = waiting
	if f.queue[0] != m || !f.dir.link.delivers() {
		n.mu.Unlock()
		return
	}
	if t := m.nextTap(); t != nil {
		m.state = held
		t.message, t.flow = m, f
		n.mu.Unlock()
		go t.hit(t.pass)
		return
	}
	copy(f.queue, f.queue[1:])
	f.queue[len(f.queue)-1] = nil
	f.queue = f.queue[:len(f.queue)-1]
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.depart(f.queue[0], 1)
	}
	n.mu.Unlock()
	m.deliver()
}

// resume sends on what waited at a cut; the rest follows it.
func (f *flow) resume() {
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.depart(f.queue[0], f.conn.net.latency(f.dir, f.queue[0].content))
	}
}
