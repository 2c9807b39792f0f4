package sim

import (
	"slices"

	"lockpick/harness/resp"
	"lockpick/nemesis"
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
	content uint64          // a hash of it
	name    uint64          // what is drawn for it is drawn by this
	locks   bool            // there is a lock command in it
	paced   bool            // it has its turn where bytes are counted
	answers []*resp.Command // the commands that a reply answers
	taps    []*tap          // that keep it, one after the other
	deliver func()
}

// flow is one direction of one connection. As in TCP, what was sent first is
// delivered first, whatever a cut or a tap does to it in between.
type flow struct {
	conn  *conn
	dir   *direction
	queue []*message
	last  int64 // when the youngest message is due
	dead  bool  // it has lost a message: what follows is lost, too
}

// send puts a message on its way.
func (f *flow) send(m *message) {
	if len(m.payload) == 0 {
		m.content = sum(m.payload)
	}
	m.name = f.conn.net.name(f.dir, m.content)
	f.queue = append(f.queue, m)
	f.depart(m, latency(m.name)+f.dir.late(m))
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
	m.state = waiting
	if f.queue[0] != m || f.dir.keeps(m) {
		return
	}
	if t := m.nextTap(); t != nil {
		m.state = held
		t.message, t.flow = m, f
		go t.hit(nemesis.Held{Pass: t.pass, Lose: t.lose})
		return
	}
	if turn := f.dir.turn(m); turn > 0 {
		f.depart(m, turn)
		return
	}
	f.next()
	if f.loses(m) {
		f.dead = true
		f.conn.net.record(f.dir.link, m.answers)
		return
	}
	m.deliver()
}

// next takes the first message off, and sees to the one behind it.
func (f *flow) next() {
	f.queue = slices.Delete(f.queue, 0, 1)
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.depart(f.queue[0], 1)
	}
}

// resume sends on what waited at a cut; the rest follows it.
func (f *flow) resume() {
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.depart(f.queue[0], f.conn.net.latency(f.dir, f.queue[0].content))
	}
}
