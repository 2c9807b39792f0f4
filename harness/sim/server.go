package sim

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"syscall"

	"lockpick/harness/history"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// server is a machine that a Redis runs on: a node or the resource.
type server struct {
	net   *network
	name  string
	addr  *net.TCPAddr
	slot  slot
	clock *node.Clock
	disk  *node.Disk // nil: it keeps nothing
	node  *node.Node // nil: it is down
	mono  bool       // its keys expire by a clock that nobody sets
	runID string     // of the node, or of the last one
	lives int64

	off      bool           // the machine has no power
	paused   bool           // the Redis is stopped
	waiting  bool           // the Redis waits for its disk
	backlog  []arrival      // what came while the Redis could not run
	catching bool           // what comes next of it is on the timeline
	looking  bool           // the Redis' next tick is
	stalled  []func()       // syncs that don't come back
	dials    []*conn        // to a machine without power
	replica  *replica       // nil: there is none
	promoted *replica       // the one that has taken this server's place
	witness  *witness       // of the life of its keys; nil: it is the resource
	lacking  map[string]int // what clients asked for that Redis has and the simulation doesn't, and how often
}

// lacks notes something that the Redis in the simulation doesn't have. The network's mutex
// is held, as it is whenever a node is fed.
func (s *server) lacks(what string) {
	if s.lacking == nil {
		s.lacking = map[string]int{}
	}
	s.lacking[what]++
}

// start starts the Redis with what the disk kept.
func (s *server) start() {
	s.lives++
	s.off = false
	s.runID = runID(s.net.seed, s.name, s.lives)
	c := node.Config{RunID: s.runID, ProcessID: 1000 + s.lives, Clock: s.clock, Monotonic: s.mono, Disk: s.disk, Lacks: s.lacks}
	if s.replica != nil {
		c.Replicate = s.replica.send
	}
	s.begin(c)
	s.compare(history.Restart)
	if s.replica != nil {
		s.replica.resync()
	}
	s.remind()
}

// begin begins a life of the server.
func (s *server) begin(c node.Config) {
	if s.witness != nil {
		c.Teller = s.witness
	}
	s.node = node.New(c)
}

// runID is 40 digits, another one for each life of a server.
func runID(seed uint64, name string, life int64) string {
	id := ""
	for i := range 3 {
		id += fmt.Sprintf("%016x", mix(seed, sum(name), uint64(life), uint64(i)))
	}
	return id[:40]
}

// remind lets TCP send again what a machine without power did not take.
func (s *server) remind() {
	for _, c := range s.dials {
		s.net.at(s.slot, s.net.now()+1, func() { s.accept(c) })
	}
	s.dials = nil
	for _, c := range s.net.conns(nil, s) {
		if c.orphan && c.unheard {
			s.hangUp(c, syscall.ECONNRESET)
		}
	}
}

// end ends the process, and its connections with err: ECONNRESET, as the machine's kernel
// resets them; nil: nobody hears of it.
func (s *server) end(err error) {
	s.remembers()
	s.node.Close()
	s.node = nil
	s.paused, s.waiting, s.backlog = false, false, nil
	for _, c := range s.net.conns(nil, s) {
		if c.session != nil && err != nil {
			s.hangUp(c, err)
		}
	}
}

// do runs a command past the network, even on a Redis that can't run, with all
// that follows from it once it can.
func (s *server) do(args ...string) (any, error) {
	reply, err := s.node.Do(args...)
	switch {
	case !s.paused && !s.waiting:
		s.flush(response{})
	case s.node.Watched():
		s.lookAgain()
	}
	return reply, err
}

// ping is what a PING that arrives now is answered.
func (s *server) ping() string {
	switch {
	case s.off || s.paused || s.waiting:
		return "no answer"
	case s.node == nil:
		return "refused"
	}
	reply, err := s.node.Do("PING")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(reply)
}

// identity asks the node who it is and what it has.
func (s *server) identity() string {
	info, err1 := s.node.Do("INFO", "server")
	keys, err2 := s.node.Do("DBSIZE")
	if err := cmp.Or(err1, err2); err != nil {
		return err.Error()
	}
	_, id, known := strings.Cut(fmt.Sprint(info), "run_id:")
	if !known {
		id = "unknown"
	}
	return fmt.Sprintf("run_id %.8s (keys: %d)", id, keys)
}

// accept takes a client's wish to connect.
func (s *server) accept(c *conn) {
	switch {
	case c.closed:
		return // it was given up
	case s.off && !c.link.refuses && c.link.cut.mode != nemesis.CutRefuse:
		s.dials = append(s.dials, c)
		return
	case s.node == nil || c.link.refuses || c.link.cut.mode == nemesis.CutRefuse:
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
func (s *server) receive(a arrival) {
	c := a.conn
	switch {
	case c.orphan && s.off:
		c.unheard = true
	case c.orphan: // the machine is up again, and knows nothing of it
		s.hangUp(c, syscall.ECONNRESET)
	case c.session == nil: // killed meanwhile; the end of the connection is on its way
	case !s.runs():
		s.backlog = append(s.backlog, a)
	default:
		s.take(a)
	}
}

// hangUp ends a connection from the server's side.
func (s *server) hangUp(c *conn, err error) {
	c.leave()
	c.orphan = false
	c.down.send(&message{deliver: func() { c.ended(err) }})
}

// finished takes the end of what a client sends. A Redis that can't run notices
// it later, and does before what was sent before.
func (s *server) finished(c *conn) {
	a := arrival{conn: c, end: true}
	if c.session != nil && !s.runs() {
		s.backlog = append(s.backlog, a)
		return
	}
	s.take(a)
}
