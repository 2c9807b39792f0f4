package sim

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// server is a machine that a Redis runs on: a node or the resource.
type server struct {
	net   *network
	name  string
	addr  *net.TCPAddr
	clock *node.Clock
	node  *node.Node // nil: it is down
	runID string     // of the node, or of the last one
	lives int64
}

// start starts the Redis with what the disk kept: nothing, for there is no
// persistence yet.
func (s *server) start() {
	s.lives++
	s.runID = ""
	for i := range 3 {
		s.runID += fmt.Sprintf("%016x", mix(s.net.seed, sum(s.name), uint64(s.lives), uint64(i)))
	}
	s.runID = s.runID[:40]
	s.node = node.New(node.Config{RunID: s.runID, ProcessID: 1000 + s.lives, Clock: s.clock})
}

// crash ends the process. The machine's kernel resets its connections.
func (s *server) crash() {
	s.node.Close()
	s.node = nil
	for _, l := range s.net.links {
		if l.server != s {
			continue
		}
		for _, c := range l.conns {
			if c.session != nil {
				s.hangUp(c, syscall.ECONNRESET)
			}
		}
	}
}

// ping is what a PING that arrives now is answered.
func (s *server) ping() string {
	if s.node == nil {
		return "refused"
	}
	reply, err := s.node.Do("PING")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(reply)
}

// reportedRunID asks the node for its run_id.
func (s *server) reportedRunID() string {
	reply, err := s.node.Do("INFO", "server")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(fmt.Sprint(reply)) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return "unknown"
}

// identity asks the node who it is and what it has.
func (s *server) identity() string {
	keys, err := s.node.Do("DBSIZE")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("run_id %.8s, %d keys", s.reportedRunID(), keys)
}

// accept takes a client's wish to connect.
func (s *server) accept(c *conn) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.node == nil || c.link.refuses || c.link.cut.mode == nemesis.CutRefuse {
		c.down.send(&message{deliver: func() {
			c.ended(syscall.ECONNREFUSED)
			c.answerDial(syscall.ECONNREFUSED)
		}})
		return
	}
	c.session = s.node.Open()
	c.down.send(&message{deliver: func() { c.answerDial(nil) }})
	if c.link.cut.mode == nemesis.CutReset {
		c.reset()
	}
}

// receive takes what a client sent.
func (s *server) receive(c *conn, b []byte) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if c.session == nil {
		return // killed meanwhile; the end of the connection is on its way
	}
	out, hangUp := c.session.Feed(b)
	if len(out) > 0 {
		m := &message{payload: append([]byte(nil), out...)}
		m.answers = c.stream.Reply(m.payload, s.net.now())
		m.locks = lockCommand(m.answers)
		m.deliver = func() { c.received(m) }
		c.link.match(m, nemesis.Reply, m.answers)
		c.down.send(m)
	}
	if hangUp {
		s.hangUp(c, io.EOF)
	}
}

// hangUp ends a connection from the server's side.
func (s *server) hangUp(c *conn, err error) {
	c.session = nil
	c.down.send(&message{deliver: func() { c.ended(err) }})
}

// finished takes the end of what a client sends.
func (s *server) finished(c *conn) {
	c.settle()
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	c.session = nil
	c.retire()
}
