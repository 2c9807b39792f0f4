package sim

import (
	"io"
	"slices"
	"syscall"
	"time"

	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// arrival is what came for a server while it could not run: bytes of a connection,
// or its end. The kernel of its machine keeps them, whatever the client does.
type arrival struct {
	conn *conn
	data []byte
	sent int64 // when it entered the link
	end  bool
}

// runs reports whether the Redis does something with what comes in now.
func (s *server) runs() bool { return s.node != nil && !s.paused && !s.waiting && len(s.backlog) == 0 }

// take does what an arrival asks for.
func (s *server) take(a arrival) {
	c := a.conn
	switch {
	case a.end:
		c.leave()
		s.net.record(c.link, c.unanswered())
		c.retire()
	case c.session != nil:
		out, hangUp := s.feed(a)
		out = slices.Clone(out)
		s.flush(func() { s.answer(c, out, hangUp) })
	}
}

// answer sends what the Redis answered.
func (s *server) answer(c *conn, out []byte, hangUp bool) {
	if c.session == nil {
		return // the client is gone
	}
	if len(out) > 0 {
		m := &message{payload: out}
		m.answers = c.stream.Reply(m.payload, s.net.now())
		m.locks = lockCommand(m.answers)
		m.content = sum(s.net.tokens.hide(m.payload, m.answers))
		m.deliver = func() { c.received(m) }
		c.link.match(m, nemesis.Reply, m.answers)
		c.down.send(m)
	}
	if hangUp {
		s.hangUp(c, io.EOF)
	}
}

// catchUp lets the Redis do what came meanwhile, one thing after the other.
func (s *server) catchUp() {
	if s.catching || len(s.backlog) == 0 {
		return
	}
	s.catching = true
	s.net.at(s.slot, s.net.now()+1, func() {
		s.catching = false
		if s.node == nil || s.paused || s.waiting || len(s.backlog) == 0 {
			return
		}
		a := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.take(a)
		s.catchUp()
	})
}

// syncTime is how long a sync takes on a disk that is well.
const (
	minSync    = 200 * time.Microsecond
	syncSpread = time.Millisecond
)

// tick is how often a Redis looks whether something is due (hz 10).
const tick = 100 * time.Millisecond

// flush does what a Redis does before it answers, and then answers, and tells others what
// they are to be told of it.
func (s *server) flush(reply func()) {
	pushed := s.node.Pushed()
	answer := func() {
		reply()
		for _, p := range pushed {
			if c := find(s.net.conns(nil, s), func(c *conn) bool { return c.session == p.To }); c != nil {
				s.answer(c, p.Data, p.HangUp)
			}
		}
	}
	switch s.node.Flush() {
	case node.GoOn:
		answer()
	case node.Background:
		s.sync(func() {})
		answer()
	case node.Wait:
		s.waiting = true
		s.sync(func() {
			s.waiting = false
			answer()
			s.catchUp()
		})
	case node.Die:
		s.end(syscall.ECONNRESET)
		return
	}
	s.lookAgain()
}

// sync asks the disk for a sync, and calls done when it comes back, if the Redis lives.
func (s *server) sync(done func()) {
	synced, life := s.disk.Sync(), s.lives
	now := uint64(s.net.now())
	took := int64(minSync) + int64(mix(s.net.seed, sum(s.name), sum("sync"), now)%uint64(syncSpread))
	var back func()
	back = func() {
		if s.disk.Stalled {
			s.stalled = append(s.stalled, back)
			s.disk.Met++
			return
		}
		synced()
		if s.node != nil && s.lives == life {
			s.node.Synced()
			done()
		}
	}
	s.net.at(s.slot, s.net.now()+took, back)
}

// lookAgain sees to it that what is due later is done, at a tick of the Redis.
func (s *server) lookAgain() {
	if s.looking || s.node == nil || !s.node.Restless() && !s.node.Watched() {
		return
	}
	s.looking = true
	phase := int64(mix(s.net.seed, sum(s.name), sum("tick")) % uint64(tick))
	now := s.net.now()
	next := now - (now-phase)%int64(tick)
	for next <= now {
		next += int64(tick)
	}
	s.net.at(s.slot, next, func() {
		s.looking = false
		if s.node != nil && !s.paused && !s.waiting {
			s.node.Expire()
			s.flush(func() {})
		}
	})
}
