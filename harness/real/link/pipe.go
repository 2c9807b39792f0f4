package link

import (
	"time"

	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// conn is one connection of a client to a node. Its fields are guarded by the link.
type conn struct {
	link       *Link
	stream     *resp.Stream
	clientGone bool
	nodeGone   bool
	finished   int // pipes
}

// pipe is one direction of a connection: what came in and has not gone out yet.
// Only its toxic's goroutine uses it, but for the holds of its pieces.
type pipe struct {
	conn  *conn
	of    string // requests or replies
	split splitter
	queue []*piece // without bound: lock commands are small, and clients give up
	ended bool     // the source has closed its side

	// A client's close is passed on only after the node has answered all that was
	// sent before, so that this is delivered and its fate is recorded; but no
	// longer than grace.
	patient bool
	grace   <-chan time.Time
}

// piece is bytes of which at most the last ones end a message.
type piece struct {
	data    []byte
	command *resp.Command // whose reply it ends
	holds   int           // taps that keep it; guarded by the link
}

// closeGrace is how long the node may take to answer a client that has gone.
const closeGrace = time.Second

// newPipe makes the next pipe: the first of a new connection, or its second.
func (l *Link) newPipe(of string) *pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.opening
	if c == nil {
		c = &conn{link: l, stream: resp.NewStream(l.scripts)}
		l.opening = c
		l.conns++
	} else {
		l.opening = nil
	}
	return &pipe{conn: c, of: of, patient: true}
}

// step is what a pipe can do next.
type step struct {
	data    []byte        // to be sent
	over    bool          // all is done
	changed chan struct{} // closed when it may be able to do more
}

// look says what can be done now, and drops what nobody will take any more.
func (p *pipe) look() step {
	l, c := p.conn.link, p.conn
	l.mu.Lock()
	defer l.mu.Unlock()
	s := step{changed: l.changed}
	sinkGone := c.nodeGone
	if p.of == nemesis.Reply {
		sinkGone = c.clientGone
	}
	if sinkGone || l.closed {
		p.drop()
		s.over = p.ended
		return s
	}
	if l.cut || l.gated {
		return s
	}
	if len(p.queue) > 0 {
		if p.queue[0].holds == 0 {
			s.data = p.queue[0].data
		}
		return s
	}
	s.over = p.ended && !p.lingers()
	return s
}

func (p *pipe) lingers() bool {
	if p.of == nemesis.Reply || !p.patient || len(p.conn.stream.Waiting()) == 0 {
		return false
	}
	if p.grace == nil {
		p.grace = time.After(closeGrace)
	}
	return true
}

// drop records replies that the client will never see.
func (p *pipe) drop() {
	for _, q := range p.queue {
		p.conn.link.write(q.command)
	}
	p.queue = nil
}

// take puts bytes from the source into the queue and looks for messages in them.
func (p *pipe) take(b []byte) {
	l, c := p.conn.link, p.conn
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raw {
		p.queue = append(p.queue, &piece{data: b})
		return
	}
	now := int64(l.now())
	for _, data := range p.split.after(b) {
		q := &piece{data: data}
		p.queue = append(p.queue, q)
		if p.of == nemesis.Request {
			for _, cmd := range c.stream.Request(data, now) {
				l.tapped(p.of, cmd.Counts, q)
			}
			continue
		}
		for _, cmd := range c.stream.Reply(data, now) {
			q.command = cmd
			l.tapped(p.of, cmd.CountsReply, q)
		}
	}
	if c.clientGone {
		l.wake() // its close may be passed on now
	}
}

// passed takes the first piece off the queue, which went out at an instant not before now.
func (p *pipe) passed(now time.Duration) {
	q := p.queue[0]
	p.queue = p.queue[1:]
	if q.command != nil {
		q.command.Answered = int64(now)
		p.conn.link.write(q.command)
	}
}

// end notes that the source has closed.
func (p *pipe) end() {
	p.ended = true
	p.conn.link.update(func() {
		if p.of == nemesis.Request {
			p.conn.clientGone = true
		} else {
			p.conn.nodeGone = true
		}
	})
}

// finish records what stayed without an answer, once both pipes are done.
func (p *pipe) finish() {
	l, c := p.conn.link, p.conn
	l.update(func() {
		if c.finished++; c.finished < 2 {
			return
		}
		for _, cmd := range c.stream.Waiting() {
			l.write(cmd)
		}
		l.conns--
	})
}

// write records a command, if it is one that locks use.
func (l *Link) write(cmd *resp.Command) {
	if cmd != nil && cmd.Recorded() {
		l.record(cmd.Event(l.name, l.node))
	}
}
