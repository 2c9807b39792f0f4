package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockpick/harness/client"
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
	backlog  []*message     // what came while the Redis could not run: the machine's kernel keeps it, whatever the client does
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
	case s.off && !c.link.refuses && c.link.cut.Mode != nemesis.CutRefuse:
		s.dials = append(s.dials, c)
		return
	case s.node == nil || c.link.refuses || c.link.cut.Mode == nemesis.CutRefuse:
		c.down.send(&message{deliver: func() {
			c.ended(syscall.ECONNREFUSED)
			c.answerDial(syscall.ECONNREFUSED)
		}})
		return
	}
	c.session = s.node.Open()
	c.down.send(&message{deliver: func() { c.answerDial(nil) }})
	if c.link.cut.Mode == nemesis.CutReset {
		c.reset()
	}
}

// receive takes what a client sent.
func (s *server) receive(m *message) {
	c := m.flow.conn
	switch {
	case c.orphan && s.off:
		c.unheard = true
	case c.orphan: // the machine is up again, and knows nothing of it
		s.hangUp(c, syscall.ECONNRESET)
	case c.session == nil: // killed meanwhile; the end of the connection is on its way
	case !s.runs():
		s.backlog = append(s.backlog, m)
	default:
		s.take(m)
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
func (s *server) finished(end *message) {
	if end.flow.conn.session != nil && !s.runs() {
		s.backlog = append(s.backlog, end)
		return
	}
	s.take(end)
}

// host is the machine of one client. While it is paused, everything that its
// program does to the world or sees of it waits at a gate: it blocks, rather
// than being queued, or a retry loop would run through its tries in a pause. That
// gives only executions that a real pause can give, since the world knows a
// process by its messages alone. A gate blocks, so a program must not call the
// functions of its Env, or use a connection, under a mutex that others wait for.
type host struct {
	net     *network
	name    string
	addr    *net.TCPAddr
	slot    slot
	clocks  clocks
	own     *own     // bubble; nil: the program runs in that of the run
	ahead   []waiter // what true time has yet to come to, where the bubble is its own
	timers  []*timer // that have not fired, in the order in which they were set
	started bool
	paused  bool
	killed  bool
	ended   bool               // its program has returned
	hung    bool               // it was told to stop, and never did
	waiters []waiter           // what goes on when the pause ends
	cancel  context.CancelFunc // of the program's context
	dead    chan struct{}      // closed when it is killed
}

// waiter is something that a pause keeps from happening.
type waiter struct {
	slot slot
	f    func()
}

// env is the world as the client's program sees it; Lock is left to the caller.
func (h *host) env(at func(point string)) client.Env {
	return client.Env{
		Dial:  h.dial,
		Now:   func() time.Time { return h.read(h.clocks.monotonic) },
		Wall:  func() time.Time { return h.read(h.clocks.wall) },
		After: h.after,
		True: func() time.Duration {
			h.pass()
			return time.Duration(h.net.now())
		},
		Emit: h.emit,
		At: func(point string) {
			if !h.pass() {
				return
			}
			if h.own == nil {
				h.net.settle()
			} else {
				h.nap(h.slot)
			}
			if h.pass() {
				h.own.stopAt(at, point)
				h.pass()
			}
		},
	}
}

// gate waits while the host is paused, or ahead of true time. The network's mutex
// is held before and after.
func (h *host) gate(s slot) {
	for !h.killed && (h.paused || h.early()) {
		open := make(chan struct{})
		w := waiter{s, func() { h.own.in(func() { close(open) }) }}
		if h.early() {
			h.catchUp(w)
		} else {
			h.waiters = append(h.waiters, w)
		}
		h.net.mu.Unlock()
		<-open
		h.net.mu.Lock()
	}
}

// pass is gate without the mutex, and reports whether the host is alive.
func (h *host) pass() (alive bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.gate(h.slot)
	return !h.killed
}

// whenRunning calls f now, or when the pause is over.
func (h *host) whenRunning(s slot, f func()) {
	if h.paused && !h.killed {
		h.waiters = append(h.waiters, waiter{s, f})
		return
	}
	f()
}

func (h *host) emit(e history.Event) {
	if h.pass() {
		h.own.call(func() {
			h.net.mu.Lock()
			defer h.net.mu.Unlock()
			h.net.tell(e)
		})
	}
}

// resume ends a pause. What waited goes on one thing after the other, a quantum
// apart, in the order of slots and then of arrival, each on its own slot.
func (h *host) resume() (released int) {
	h.paused = false
	waiters := h.waiters
	h.waiters = nil
	slices.SortStableFunc(waiters, func(a, b waiter) int { return int(a.slot - b.slot) })
	now := h.net.now()
	for i, w := range waiters {
		h.net.at(w.slot, now+1+int64(i)*quantum, func() { h.whenRunning(w.slot, w.f) })
	}
	return len(waiters)
}

// kill ends the program without warning. Its goroutines are left to unwind:
// whatever they do from now on has no effect and doesn't wait.
func (h *host) kill() (closed int) {
	if h.killed {
		return 0
	}
	h.killed = true
	waiters := slices.Concat(h.waiters, h.ahead)
	h.waiters, h.ahead = nil, nil
	closed = h.hangUp()
	close(h.dead)
	for _, w := range waiters {
		w.f()
	}
	if h.cancel != nil {
		h.cancel()
	}
	return closed
}

// over is why nothing can be done to the client any more; nil: it lives, or is still to start.
func (h *host) over() error {
	switch {
	case h.killed:
		return fmt.Errorf("it was killed: %w", nemesis.ErrEnded)
	case h.ended:
		return nemesis.ErrEnded
	}
	return nil
}

// hangUp closes all connections, as the end of a process does.
func (h *host) hangUp() (closed int) {
	for _, c := range h.net.conns(h, nil) {
		if c.closed {
			continue
		}
		closed++
		c.shut()
		c.wake()
		c.answerDial(net.ErrClosed)
		if c.err == nil {
			c.finish()
		}
	}
	return closed
}

// witness records the life of each key on a lock node (history.Life).
type witness struct {
	server *server
	seq    int64
	link   *link                // whose bytes the node is fed; nil: nobody's, or the harness's own
	sent   int64                // when they entered the link
	had    map[string]node.Fact // by key, what the last life of the server had; nil: it goes on
	ended  int64                // when that ended
}

var _ node.Teller = (*witness)(nil)

// Tell records a fact.
func (w *witness) Tell(f node.Fact) {
	w.seq++
	e := w.event(f)
	e.Life.Seq = w.seq
	w.server.net.tell(e)
}

// Spare asks whoever wants to see a run in which this had not happened.
func (w *witness) Spare(f node.Fact) bool {
	spare := w.server.net.spare
	return spare != nil && spare(w.event(f))
}

func (w *witness) event(f node.Fact) history.Event {
	s := w.server
	l := f.Life
	l.Run, l.Value, l.Old = s.runID[:8], s.net.tokens.of(l.Value), s.net.tokens.of(l.Old)
	e := history.Event{T: s.net.now(), Process: s.name, Type: history.Info, Op: history.OpLife, Key: f.Key, Local: f.Now, Wall: true, Life: &l}
	switch {
	case l.Command == "":
	case w.link != nil:
		l.By, e.Sent = w.link.name, w.sent
	default:
		l.By = history.Harness
	}
	return e
}

// feed gives a node what a client sent.
func (s *server) feed(m *message) (replies []byte, hangUp bool) {
	if w := s.witness; w != nil {
		w.link, w.sent = m.flow.conn.link, m.sent
		defer func() { w.link = nil }()
	}
	return m.flow.conn.session.Take(m.commands, m.wrong)
}

// remembers keeps what a life of the server that is about to end has.
func (s *server) remembers() {
	if w := s.witness; w != nil {
		w.had, w.ended = s.node.Held(), s.net.now()
	}
}

// compare tells what became of each key of the server's last life in the one that has
// begun.
func (s *server) compare(why string) {
	w := s.witness
	if w == nil || w.had == nil {
		return
	}
	has := s.node.Living()
	for _, key := range slices.Sorted(maps.Keys(w.had)) {
		old := w.had[key]
		f := node.Fact{Key: key, Now: s.node.ExpiryClock(), Life: history.Life{What: history.KeyLost, Why: why,
			Old: old.Value, Before: old.Expires, Lo: w.ended, Hi: s.net.now()}}
		now, there := has[key]
		delete(has, key)
		f.Value, f.Expires = now.Value, now.Expires
		switch {
		case there && now.Value == old.Value && now.Expires == old.Expires:
			f.What = history.KeyKept
		case there:
			f.What = history.KeyReverted
		case old.Expires != 0 && f.Now/1e6 > old.Expires/1e6:
			f.What, f.Why = history.KeyExpired, ""
		}
		if f.What != history.KeyKept && f.What != history.KeyExpired && w.Spare(f) {
			s.node.Plant(f)
			continue
		}
		w.Tell(f)
	}
	for _, key := range slices.Sorted(maps.Keys(has)) {
		now := has[key]
		w.Tell(node.Fact{Key: key, Now: s.node.ExpiryClock(), Life: history.Life{What: history.KeyAppeared, Why: why,
			Value: now.Value, Expires: now.Expires, Lo: w.ended, Hi: s.net.now()}})
	}
	w.had = nil
}
