package sim

import (
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

var _ nemesis.Pauser = (*cluster)(nil)

// Pause stops a client at all its gates, or a node, whose machine goes on to take
// connections and what comes over them.
func (c *cluster) Pause(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.host(target)
	if h == nil {
		return c.pauseNode(target)
	}
	switch over := h.over(); {
	case over != nil:
		return "", fmt.Errorf("pause %s: %w", target, over)
	case h.paused:
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	h.paused = true
	return fmt.Sprintf("%s is stopped, its clock shows %s", target, wallClock()), nil
}

func (c *cluster) pauseNode(target string) (string, error) {
	s, err := c.up("pause", target, "it is down")
	switch {
	case err != nil:
		return "", err
	case s.paused:
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	s.paused = true
	return fmt.Sprintf("%s is stopped; PING: %s", target, s.ping()), nil
}

// Resume lets a client or a node go on. A node does what came for it meanwhile.
func (c *cluster) Resume(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.host(target)
	if h == nil {
		return c.resumeNode(target)
	}
	switch {
	case h.killed:
		return target + " was killed meanwhile", nil
	case !h.paused:
		return "", fmt.Errorf("resume %s: it isn't paused", target)
	}
	return fmt.Sprintf("%s runs again, %s, its clock shows %s", target, thatWaited(h.resume()), wallClock()), nil
}

func (c *cluster) resumeNode(target string) (string, error) {
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("resume %s: %w", target, err)
	case !s.paused:
		return target + " ended meanwhile", nil
	}
	s.paused = false
	waited := len(s.backlog)
	s.catchUp()
	s.lookAgain()
	return fmt.Sprintf("%s runs again, %s; PING: %s", target, thatWaited(waited), s.ping()), nil
}

// wallClock is what a right wall clock shows now.
func wallClock() string { return time.Now().UTC().Format("15:04:05.000000") }

// thatWaited says how much waited for a process that runs again.
func thatWaited(n int) string {
	if n == 1 {
		return "1 thing waited"
	}
	return fmt.Sprintf("%d things waited", n)
}

// runs reports whether the Redis does something with what comes in now.
func (s *server) runs() bool { return s.node != nil && !s.paused && !s.waiting && len(s.backlog) == 0 }

// take does what a message asks for: commands, or the end of its connection.
func (s *server) take(m *message) {
	c := m.flow.conn
	switch {
	case m.deliver != nil:
		c.leave()
		s.net.record(c.link, c.unanswered())
		c.retire()
	case c.session != nil:
		out, hangUp := s.feed(m)
		s.flush(response{c, out, hangUp})
	}
}

// response is what the Redis answers on a connection. The zero value: nothing.
type response struct {
	conn   *conn
	out    []byte
	hangUp bool
}

// answer sends what the Redis answered.
func (s *server) answer(r response) {
	c := r.conn
	if c == nil || c.session == nil {
		return // the client is gone
	}
	if len(r.out) > 0 {
		m := &message{size: len(r.out)}
		m.payload = append(m.short[:0], r.out...)
		m.commands = c.stream.Reply(m.payload, s.net.now())
		m.locks = lockCommand(m.commands)
		m.content = sum(s.net.tokens.hide(m.payload, m.commands))
		c.link.match(m, nemesis.Reply, m.commands)
		c.down.send(m)
	}
	if r.hangUp {
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
		m := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.take(m)
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
// they are to be told of it. The bytes of the reply are valid meanwhile.
func (s *server) flush(r response) {
	pushed := s.node.Pushed()
	switch s.node.Flush() {
	case node.GoOn:
		s.tell(r, pushed)
	case node.Background:
		s.sync(func() {})
		s.tell(r, pushed)
	case node.Wait:
		s.waiting = true
		late := response{r.conn, slices.Clone(r.out), r.hangUp}
		s.sync(func() {
			s.waiting = false
			s.tell(late, pushed)
			s.catchUp()
		})
	case node.Die:
		s.end(syscall.ECONNRESET)
		return
	}
	s.lookAgain()
}

// tell answers, and tells others.
func (s *server) tell(r response, others []node.Push) {
	s.answer(r)
	for _, p := range others {
		c := find(s.net.conns(nil, s), func(c *conn) bool { return c.session == p.To })
		s.answer(response{c, p.Data, p.HangUp})
	}
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
			s.flush(response{})
		}
	})
}
