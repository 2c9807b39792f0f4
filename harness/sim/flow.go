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
	flow     *flow // that it travels
	size     int   // bytes; 0: it is a beginning or an end
	state    state
	locks    bool            // there is a lock command in it
	paced    bool            // it has its turn where bytes are counted
	commands []*resp.Command // that a request makes complete, or a reply answers
	wrong    error           // what is wrong with what a request has behind them
	sent     int64           // when a request entered the link
	payload  []byte          // of a reply
	short    [24]byte        // room for most of these
	content  uint64          // a hash of what it has
	name     uint64          // what is drawn for it is drawn by this
	taps     []*tap          // that keep it, one after the other
	deliver  func()          // nil: a request or a reply is delivered
}

// answers are the commands that it answers.
func (m *message) answers() []*resp.Command {
	if m.flow == &m.flow.conn.up {
		return nil
	}
	return m.commands
}

func (m *message) happen() { m.flow.arrive(m) }

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
	if m.size == 0 {
		m.content = sum("")
	}
	m.name = f.conn.net.name(f.dir, m.content)
	f.queue = append(f.queue, m)
	f.depart(m, latency(m.name)+f.dir.late(m))
}

func (f *flow) depart(m *message, delay int64) {
	n := f.conn.net
	m.flow, m.state = f, flying
	now := n.now()
	due := n.will(f.dir.slot, max(now+delay, f.last+1), m)
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
		f.conn.net.record(f.dir.link, m.answers())
		return
	}
	switch {
	case m.deliver != nil:
		m.deliver()
	case f == &f.conn.up:
		f.dir.link.server.receive(arrival{conn: f.conn, commands: m.commands, wrong: m.wrong, sent: m.sent})
	default:
		f.conn.received(m)
	}
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
