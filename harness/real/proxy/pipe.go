package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// pipe is one direction of a connection, with data that has arrived but has not been sent. Only the
// goroutine of its toxic uses it, but other goroutines may hold and release its pieces.
type pipe struct {
	conn      *conn
	direction string // nemesis.Request or nemesis.Reply
	splitter  resp.Scanner
	queue     []*piece // unbounded, because lock commands are small and clients give up
	ended     bool     // whether the source has closed its side
	dead      bool     // whether the pipe has lost a piece, so that all later pieces are lost too

	// If delayClose is set, a client's close is passed on only after the node has answered all
	// earlier requests, but at most closeGrace later. This way, the requests are delivered and
	// their results recorded.
	delayClose bool
	graceTimer <-chan time.Time
}

// piece is a sequence of bytes. It ends where a message ends, or earlier.
type piece struct {
	data           []byte
	command        *resp.Command // command whose reply ends with this piece, or nil
	holdCount      int           // number of taps that hold the piece; guarded by the link's mutex
	dueTime        time.Duration // earliest true time to send the piece
	throttled      bool          // whether the bytes count toward the bandwidth limit already
	lost           bool          // whether the piece is to be lost
	hasLockCommand bool          // whether the piece contains a lock command
}

// closeGrace limits the time for a node to answer a client that has disconnected.
const closeGrace = time.Second

// newPipe creates a pipe for the connection that is being opened.
func (l *Link) newPipe(direction string) *pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &pipe{conn: l.openingConn, direction: direction, delayClose: true}
}

// step describes what a pipe can do next.
type step struct {
	data     []byte        // data to send
	done     bool          // whether the pipe has nothing more to do
	waitTime time.Duration // time until the pipe can do more, or 0 if unknown
	changed  chan struct{} // closed when the pipe may be able to do more
}

// nextStep returns what the pipe can do now. It drops data that is lost or no longer has a
// receiver.
func (p *pipe) nextStep(now time.Duration) step {
	l, c := p.conn.link, p.conn
	l.mu.Lock()
	defer l.mu.Unlock()
	s := step{changed: l.changed}
	sinkGone := c.nodeGone
	if p.direction == nemesis.Reply {
		sinkGone = c.clientGone
	}
	if sinkGone || c.wasReset || l.closed {
		p.drop()
		s.done = p.ended
		return s
	}
	blocked := l.cut.Blocks(p.direction)
	if blocked && l.cut.Mode == nemesis.CutHold || l.closedGates > 0 {
		return s
	}
	for len(p.queue) > 0 {
		q := p.queue[0]
		if q.dueTime <= now && q.holdCount == 0 && !q.throttled {
			q.throttled, q.dueTime = true, l.transferEnd(p.direction, q, now)
		}
		switch {
		case q.holdCount > 0:
			return s
		case q.dueTime > now:
			s.waitTime = q.dueTime - now
			return s
		case !q.lost && !p.dead && !blocked:
			s.data = q.data
			return s
		}
		p.lose()
	}
	// The end of the data comes after all bytes.
	s.done = p.ended && !p.dead && !blocked && !p.shouldLinger()
	return s
}

// lose drops the first piece. Everything that follows on this connection is lost too, because the
// connection is broken until it is reset.
func (p *pipe) lose() {
	l, c := p.conn.link, p.conn
	l.recordCommand(p.queue[0].command)
	p.queue = p.queue[1:]
	p.dead, c.broken = true, true
	losing := slices.ContainsFunc(l.shapes, func(s *shape) bool { return s.Lose })
	if !losing && !l.cut.Blocks(p.direction) {
		c.reset() // the fault is already over
	}
}

func (p *pipe) shouldLinger() bool {
	if p.direction == nemesis.Reply || !p.delayClose || len(p.conn.stream.Pending()) == 0 {
		return false
	}
	if p.graceTimer == nil {
		p.graceTimer = time.After(closeGrace)
	}
	return true
}

// drop drops the queue and records the commands whose replies the client will never receive.
func (p *pipe) drop() {
	for _, q := range p.queue {
		p.conn.link.recordCommand(q.command)
	}
	p.queue = nil
}

// receive queues bytes from the source and finds the messages in them.
func (p *pipe) receive(b []byte) {
	l, c := p.conn.link, p.conn
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isReplication {
		p.queue = append(p.queue, &piece{data: b})
		return
	}
	at := l.now()
	if l.isOpaque {
		q := &piece{data: b}
		p.queue = append(p.queue, q)
		l.shapePiece(p.direction, q, nil, at)
		return
	}
	now := int64(at)
	for _, data := range p.splitter.Split(b) {
		q := &piece{data: data}
		p.queue = append(p.queue, q)
		if p.direction == nemesis.Request {
			commands := c.stream.Request(data, now)
			l.shapePiece(p.direction, q, commands, at)
			for _, cmd := range commands {
				if c.witness != nil {
					c.witness.Sent(cmd.Args, now)
				}
				l.applyTaps(c, p.direction, cmd.IsMessage, q)
			}
			continue
		}
		commands := c.stream.Reply(data, now)
		l.shapePiece(p.direction, q, commands, at)
		for _, cmd := range commands {
			if c.witness != nil {
				c.witness.Answered(now)
			}
			q.command = cmd
			l.applyTaps(c, p.direction, cmd.IsReply, q)
		}
	}
	if c.clientGone {
		l.wake() // the client's close may now be passed on
	}
}

// markSent removes the first piece from the queue. The piece was not sent before now.
func (p *pipe) markSent(now time.Duration) {
	q := p.queue[0]
	p.queue = p.queue[1:]
	if q.command != nil {
		q.command.AnsweredAt = int64(now)
		p.conn.link.recordCommand(q.command)
	}
}

// end records that the source has closed its side.
func (p *pipe) end() {
	p.ended = true
	p.conn.link.update(func() {
		if p.direction == nemesis.Request {
			p.conn.clientGone = true
		} else {
			p.conn.nodeGone = true
		}
	})
}

// finish records the unanswered commands once both pipes are done.
func (p *pipe) finish() {
	l, c := p.conn.link, p.conn
	l.update(func() {
		if c.finishedPipes++; c.finishedPipes < 2 {
			return
		}
		for _, cmd := range c.stream.Pending() {
			l.recordCommand(cmd)
		}
		delete(l.conns, c)
	})
}

// recordCommand records a command if locks use it.
func (l *Link) recordCommand(cmd *resp.Command) {
	if cmd != nil && cmd.IsRecorded() {
		for _, e := range cmd.Events(nil, l.name, l.node) {
			l.record(e)
		}
	}
}

// Cut cuts the link until Mend is called. The mode "" holds messages. Clients can still connect if
// the node is up and messages are held or dropped.
func (l *Link) Cut(mode, way string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut, err := l.cut.Begin(mode, way)
	if err != nil {
		return fmt.Errorf("cut link %s: %w", l.name, err)
	}
	if cut.Mode == nemesis.CutRefuse {
		release, err := occupy(l.Addr())
		if err != nil {
			return fmt.Errorf("cut link %s: %w", l.name, err)
		}
		l.releaseAddr = release
		l.listener.Close()
	}
	l.cut = cut
	if cut.Mode == nemesis.CutReset {
		for c := range l.conns {
			c.reset()
		}
	}
	l.wake()
	return nil
}

// Mend ends a cut. It delivers held messages in order and resets the connections that have lost a
// message.
func (l *Link) Mend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.cut.Mode == nemesis.CutRefuse {
		ln, err := listen(l.Addr())
		if err != nil {
			return fmt.Errorf("mend link %s: %w", l.name, err)
		}
		l.accept(ln)
		release := l.releaseAddr
		l.releaseAddr = nil
		if err := release(); err != nil {
			return fmt.Errorf("mend link %s: %w", l.name, err)
		}
	}
	l.cut = nemesis.LinkCut{}
	l.resetBroken()
	l.wake()
	return nil
}

// toxic is one direction of a link. toxiproxy creates toxics by their registered type.
type toxic struct {
	link      *Link
	direction string // nemesis.Request or nemesis.Reply
}

var _ toxics.StatefulToxic = (*toxic)(nil)

const toxicType = "lockpick"

// registerOnce registers the type just once, because toxiproxy has one registry for the whole
// process.
var registerOnce = sync.OnceFunc(func() { toxics.Register(toxicType, new(toxic)) })

// addToxic adds the toxic to the proxy, which must not have any connections yet.
func addToxic(l *Link, way string) error {
	direction := stream.Upstream
	if way == nemesis.Reply {
		direction = stream.Downstream
	}
	w, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(
		fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":{}}`, way, toxicType, direction)))
	if err != nil {
		return fmt.Errorf("add toxic: %w", err)
	}
	t := w.Toxic.(*toxic)
	t.link, t.direction = l, way
	return nil
}

// NewState returns one of the two pipes of the connection that is being opened.
func (t *toxic) NewState() any { return t.link.newPipe(t.direction) }

// Pipe moves data until the source has closed its side and everything is delivered, or until the
// chain of toxics changes. After a change, toxiproxy calls Pipe again with the same state.
func (t *toxic) Pipe(stub *toxics.ToxicStub) {
	p := stub.State.(*pipe)
	for {
		var in <-chan *stream.StreamChunk
		var out chan<- *stream.StreamChunk
		var chunk *stream.StreamChunk
		now := p.conn.link.now()
		next := p.nextStep(now)
		if next.done {
			stub.Close()
			p.finish()
			return
		}
		var timer <-chan time.Time
		if next.waitTime > 0 {
			timer = time.After(next.waitTime)
		}
		if !p.ended {
			in = stub.Input
		}
		if next.data != nil {
			out, chunk = stub.Output, &stream.StreamChunk{Data: next.data, Timestamp: time.Now()}
		}
		select {
		case <-stub.Interrupt:
			return
		case <-next.changed:
		case <-timer:
		case <-p.graceTimer:
			p.delayClose = false
		case c := <-in:
			if c == nil {
				p.end()
			} else {
				p.receive(c.Data)
			}
		case out <- chunk:
			p.markSent(now)
		}
	}
}

// shape is a fault that changes a link's traffic, with its impact so far.
type shape struct {
	nemesis.Traffic
	nemesis.Impact
	busyUntil map[string]time.Duration // by direction; when bandwidth is available again
}

// Shape changes the traffic until Unshape is called. Several shapes may be active simultaneously.
func (l *Link) Shape(t nemesis.Traffic) {
	l.update(func() { l.shapes = append(l.shapes, &shape{Traffic: t, busyUntil: map[string]time.Duration{}}) })
}

// Unshape removes a shape and returns its impact. It resets connections that have lost a message.
func (l *Link) Unshape(t nemesis.Traffic) (nemesis.Impact, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.shapes, func(s *shape) bool { return s.Traffic == t })
	if i < 0 {
		return nemesis.Impact{}, fmt.Errorf("remove shape from link %s: no such shape", l.name)
	}
	impact := l.shapes[i].Impact
	l.shapes = slices.Delete(l.shapes, i, i+1)
	if t.Lose {
		l.resetBroken()
	}
	l.wake()
	return impact, nil
}

// IsDisturbed reports whether any fault affects the link's traffic, which makes the result of a
// PING unpredictable.
func (l *Link) IsDisturbed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.shapes) > 0 || l.cut != nemesis.LinkCut{} || l.closedGates > 0
}

// shapePiece randomly decides what happens to an arriving piece. The caller holds the link's mutex.
func (l *Link) shapePiece(direction string, p *piece, commands []*resp.Command, now time.Duration) {
	p.hasLockCommand = l.isOpaque || slices.ContainsFunc(commands, func(c *resp.Command) bool { return c.Op != "" })
	for _, s := range l.shapes {
		if !s.AppliesTo(direction) {
			continue
		}
		hit, delay := s.Hits(l.random.Uint64()), time.Duration(0)
		switch {
		case !hit:
		case s.Lose:
			p.lost = true
		case s.DelayMax > 0:
			delay = s.Delay(l.random.Uint64())
			p.dueTime = max(p.dueTime, now) + delay
		}
		s.Count(p.hasLockCommand, hit, s.Lose || delay >= nemesis.MinNoticeable)
	}
}

// transferEnd returns when a piece will have been transferred if sending starts now, given the
// bandwidth limits. The caller holds the link's mutex.
func (l *Link) transferEnd(direction string, p *piece, now time.Duration) (end time.Duration) {
	for _, s := range l.shapes {
		if s.Bandwidth > 0 && s.AppliesTo(direction) {
			s.busyUntil[direction] = max(now, s.busyUntil[direction]) + s.TransmitTime(len(p.data))
			end = max(end, s.busyUntil[direction])
			s.Noticeable = s.Noticeable || p.hasLockCommand && s.busyUntil[direction]-now >= nemesis.MinNoticeable
		}
	}
	return end
}
