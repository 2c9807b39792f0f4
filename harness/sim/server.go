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

// server is a machine that runs a Redis server: a node or the resource.
type server struct {
	net        *network
	name       string
	addr       *net.TCPAddr
	slot       slot
	clock      *node.Clock
	disk       *node.Disk // nil means no persistence
	node       *node.Node // nil means down
	monotonic  bool       // keys expire as if the clock had never been set
	runID      string     // run ID of the current or the last process
	startCount int64

	poweredOff       bool           // the machine has no power
	paused           bool           // the Redis process is stopped
	waitingForDisk   bool           // Redis is waiting for its disk
	backlog          []*message     // requests that arrived while Redis could not run; the kernel keeps them even if the client disconnects
	catchUpScheduled bool           // the backlog's next message is scheduled
	tickScheduled    bool           // Redis's next tick is scheduled
	stalledSyncs     []func()       // completions of syncs that hang
	pendingDials     []*conn        // connection attempts made while the machine has no power
	replica          *replica       // may be nil
	promotedReplica  *replica       // former replica that has taken the master's place; may be nil
	recorder         *lifeRecorder  // records the life of the server's keys; nil for the resource
	unsupported      map[string]int // number of client requests, by unsupported Redis feature
}

// countUnsupported counts a request for a Redis feature that the simulation doesn't support. The
// network's mutex is held, as always while a node executes commands.
func (s *server) countUnsupported(feature string) {
	if s.unsupported == nil {
		s.unsupported = map[string]int{}
	}
	s.unsupported[feature]++
}

// start starts Redis with the data on its disk.
func (s *server) start() {
	s.startCount++
	s.poweredOff = false
	s.runID = runID(s.net.seed, s.name, s.startCount)
	c := node.Config{RunID: s.runID, ProcessID: 1000 + s.startCount, Clock: s.clock, Monotonic: s.monotonic, Disk: s.disk, Unsupported: s.countUnsupported}
	if s.replica != nil {
		c.Replicate = s.replica.send
	}
	s.startNode(c)
	s.recordRestart(history.Restart)
	if s.replica != nil {
		s.replica.resync()
	}
	s.retransmit()
}

func (s *server) startNode(c node.Config) {
	if s.recorder != nil {
		c.Observer = s.recorder
	}
	s.node = node.New(c)
}

// runID returns 40 hexadecimal digits that differ for each start of a server.
func runID(seed uint64, name string, startCount int64) string {
	id := ""
	for i := range 3 {
		id += fmt.Sprintf("%016x", hashWords(seed, hashBytes(name), uint64(startCount), uint64(i)))
	}
	return id[:40]
}

// retransmit simulates TCP's retransmission of packets that the machine missed while it had no
// power.
func (s *server) retransmit() {
	for _, c := range s.pendingDials {
		s.net.at(s.slot, s.net.now()+1, func() { s.accept(c) })
	}
	s.pendingDials = nil
	for _, c := range s.net.conns(nil, s) {
		if c.orphaned && c.sentSinceOutage {
			s.hangUp(c, syscall.ECONNRESET)
		}
	}
}

// stop ends the process and closes its connections with err. If err is nil, clients are not
// notified.
func (s *server) stop(err error) {
	s.saveKeys()
	s.node.Close()
	s.node = nil
	s.paused, s.waitingForDisk, s.backlog = false, false, nil
	for _, c := range s.net.conns(nil, s) {
		if c.session != nil && err != nil {
			s.hangUp(c, err)
		}
	}
}

// do runs a command directly on the node, even while Redis is stopped. The command's effects, such
// as syncs and pushes, follow once Redis can run.
func (s *server) do(args ...string) (any, error) {
	reply, err := s.node.Do(args...)
	switch {
	case !s.paused && !s.waitingForDisk:
		s.flush(response{})
	case s.node.HasListeners():
		s.scheduleTick()
	}
	return reply, err
}

// ping returns the result of a PING that arrives now.
func (s *server) ping() string {
	switch {
	case s.poweredOff || s.paused || s.waitingForDisk:
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

// identity describes the running process and its number of keys.
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

func (s *server) accept(c *conn) {
	switch {
	case c.closed:
		return // the client has given up
	case s.poweredOff && !c.link.unreachable && c.link.cut.Mode != nemesis.CutRefuse:
		s.pendingDials = append(s.pendingDials, c)
		return
	case s.node == nil || c.link.unreachable || c.link.cut.Mode == nemesis.CutRefuse:
		c.downstream.send(&message{deliver: func() {
			c.handleServerEnd(syscall.ECONNREFUSED)
			c.finishDial(syscall.ECONNREFUSED)
		}})
		return
	}
	c.session = s.node.Open()
	c.downstream.send(&message{deliver: func() { c.finishDial(nil) }})
	if c.link.cut.Mode == nemesis.CutReset {
		c.reset()
	}
}

// receive handles data from a client.
func (s *server) receive(m *message) {
	c := m.flow.conn
	switch {
	case c.orphaned && s.poweredOff:
		c.sentSinceOutage = true
	case c.orphaned: // the machine is up again and doesn't know the connection
		s.hangUp(c, syscall.ECONNRESET)
	case c.session == nil: // the node was killed in the meantime; the end of the connection is on its way
	case !s.isReady():
		s.backlog = append(s.backlog, m)
	default:
		s.process(m)
	}
}

// hangUp closes a connection from the server's side.
func (s *server) hangUp(c *conn, err error) {
	c.closeSession()
	c.orphaned = false
	c.downstream.send(&message{deliver: func() { c.handleServerEnd(err) }})
}

// receiveEnd handles the end of a client's stream. If Redis can't run, it notices the end only
// after it has handled all earlier messages.
func (s *server) receiveEnd(end *message) {
	if end.flow.conn.session != nil && !s.isReady() {
		s.backlog = append(s.backlog, end)
		return
	}
	s.process(end)
}

// host is a client's machine. While it is paused, every interaction of its program with the outside
// world blocks at a gate. Actions are not queued, because a retry loop would then use up its
// attempts during a pause. Every resulting execution is also possible with a real pause, since a
// process's messages are all that others see of it. Because a gate blocks, a program must not call
// functions of its Env or use a connection while holding a mutex that other goroutines wait for.
type host struct {
	net          *network
	name         string
	addr         *net.TCPAddr
	slot         slot
	clocks       clocks
	bubble       *clientBubble // nil if the client shares the run's bubble
	aheadWaiters []waiter      // goroutines that are ahead of true time
	timers       []*timer      // pending timers, in the order in which they were set
	started      bool
	paused       bool
	killed       bool
	ended        bool               // the program has returned
	hung         bool               // the program was canceled but did not return
	waiters      []waiter           // resumed when the pause ends
	cancel       context.CancelFunc // cancels the program's context
	killSignal   chan struct{}      // closed when the host is killed
}

// waiter is an action delayed by a pause.
type waiter struct {
	slot slot
	f    func()
}

// env returns the client program's environment, except for Lock, which the caller sets.
func (h *host) env(at func(point string)) client.Env {
	return client.Env{
		Dial:    h.dial,
		Now:     func() time.Time { return h.readClock(h.clocks.monotonic) },
		WallNow: func() time.Time { return h.readClock(h.clocks.wall) },
		After:   h.after,
		TrueTime: func() time.Duration {
			h.passGate()
			return time.Duration(h.net.now())
		},
		Emit: h.emit,
		OnPoint: func(point string) {
			if !h.passGate() {
				return
			}
			if h.bubble == nil {
				h.net.settle()
			} else {
				h.waitForSlot(h.slot)
			}
			if h.passGate() {
				h.bubble.reachPoint(at, point)
				h.passGate()
			}
		},
	}
}

// waitAtGate waits while the host is paused or ahead of true time. The caller must hold the
// network's mutex, which is released during the wait.
func (h *host) waitAtGate(s slot) {
	for !h.killed && (h.paused || h.aheadOfTrueTime()) {
		opened := make(chan struct{})
		w := waiter{s, func() { h.bubble.runInside(func() { close(opened) }) }}
		if h.aheadOfTrueTime() {
			h.waitForTrueTime(w)
		} else {
			h.waiters = append(h.waiters, w)
		}
		h.net.mu.Unlock()
		<-opened
		h.net.mu.Lock()
	}
}

// passGate is waitAtGate for callers that don't hold the mutex. It reports whether the host is
// alive.
func (h *host) passGate() (alive bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.waitAtGate(h.slot)
	return !h.killed
}

// whenRunning calls f now or, if the host is paused, when it resumes.
func (h *host) whenRunning(s slot, f func()) {
	if h.paused && !h.killed {
		h.waiters = append(h.waiters, waiter{s, f})
		return
	}
	f()
}

func (h *host) emit(e history.Event) {
	if h.passGate() {
		h.bubble.runOutside(func() {
			h.net.mu.Lock()
			defer h.net.mu.Unlock()
			h.net.recordEvent(e)
		})
	}
}

// resume ends a pause and returns the number of waiters. Waiters resume a quantum apart, each in
// its slot, ordered by slot and then by arrival.
func (h *host) resume() (count int) {
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

// kill ends the program without warning and returns the number of connections that it closed. The
// program's goroutines unwind by themselves: from now on, none of their actions blocks or has an
// effect.
func (h *host) kill() (count int) {
	if h.killed {
		return 0
	}
	h.killed = true
	waiters := slices.Concat(h.waiters, h.aheadWaiters)
	h.waiters, h.aheadWaiters = nil, nil
	count = h.hangUp()
	close(h.killSignal)
	for _, w := range waiters {
		w.f()
	}
	if h.cancel != nil {
		h.cancel()
	}
	return count
}

// endedError returns an error if the client was killed or has ended. It returns nil if the client
// is running or has not started yet.
func (h *host) endedError() error {
	switch {
	case h.killed:
		return fmt.Errorf("it was killed: %w", nemesis.ErrEnded)
	case h.ended:
		return nemesis.ErrEnded
	}
	return nil
}

// hangUp closes all connections, as the kernel does when a process ends, and returns their number.
func (h *host) hangUp() (count int) {
	for _, c := range h.net.conns(h, nil) {
		if c.closed {
			continue
		}
		count++
		c.closeClientEnd()
		c.wake()
		c.finishDial(net.ErrClosed)
		if c.err == nil {
			c.sendEnd()
		}
	}
	return count
}

// lifeRecorder records the life of each key on a lock node as history.Life events.
type lifeRecorder struct {
	server       *server
	seq          int64
	link         *link                    // link of the client request being executed; nil: not a client request
	sendTime     int64                    // when that request was sent
	previousKeys map[string]node.KeyEvent // keys of the previous process, set only between two processes
	endTime      int64                    // when the previous process ended
}

var _ node.Observer = (*lifeRecorder)(nil)

// Observe implements node.Observer. It records a key event.
func (w *lifeRecorder) Observe(f node.KeyEvent) {
	w.seq++
	e := w.event(f)
	e.Life.Seq = w.seq
	w.server.net.recordEvent(e)
}

// Preserve implements node.Observer. It reports whether to suppress a key event.
func (w *lifeRecorder) Preserve(f node.KeyEvent) bool {
	preserve := w.server.net.preserve
	return preserve != nil && preserve(w.event(f))
}

func (w *lifeRecorder) event(f node.KeyEvent) history.Event {
	s := w.server
	l := f.Life
	l.RunID, l.Value, l.OldValue = s.runID[:8], s.net.tokens.placeholder(l.Value), s.net.tokens.placeholder(l.OldValue)
	e := history.Event{T: s.net.now(), Process: s.name, Type: history.Info, Op: history.OpLife, Key: f.Key, Local: f.Now, WallClock: true, Life: &l}
	switch {
	case l.Command == "":
	case w.link != nil:
		l.Sender, e.SentAt = w.link.name, w.sendTime
	default:
		l.Sender = history.Harness
	}
	return e
}

// execute runs a client's commands on the node.
func (s *server) execute(m *message) (replies []byte, hangUp bool) {
	if w := s.recorder; w != nil {
		w.link, w.sendTime = m.flow.conn.link, m.sendTime
		defer func() { w.link = nil }()
	}
	return m.flow.conn.session.Execute(m.commands, m.protocolErr)
}

// saveKeys saves the keys of a process that is about to end, for recordRestart.
func (s *server) saveKeys() {
	if w := s.recorder; w != nil {
		w.previousKeys, w.endTime = s.node.AllKeys(), s.net.now()
	}
}

// recordRestart records how the new process's keys differ from the previous process's keys.
func (s *server) recordRestart(reason string) {
	w := s.recorder
	if w == nil || w.previousKeys == nil {
		return
	}
	liveKeys := s.node.LiveKeys()
	for _, key := range slices.Sorted(maps.Keys(w.previousKeys)) {
		old := w.previousKeys[key]
		f := node.KeyEvent{Key: key, Now: s.node.ExpiryClock(), Life: history.Life{Kind: history.KeyLost, Replacement: reason,
			OldValue: old.Value, OldExpiry: old.Expiry, MinT: w.endTime, MaxT: s.net.now()}}
		current, ok := liveKeys[key]
		delete(liveKeys, key)
		f.Value, f.Expiry = current.Value, current.Expiry
		switch {
		case ok && current.Value == old.Value && current.Expiry == old.Expiry:
			f.Kind = history.KeyKept
		case ok:
			f.Kind = history.KeyReverted
		case old.Expiry != 0 && f.Now/1e6 > old.Expiry/1e6:
			f.Kind, f.Replacement = history.KeyExpired, ""
		}
		if f.Kind != history.KeyKept && f.Kind != history.KeyExpired && w.Preserve(f) {
			s.node.Restore(f)
			continue
		}
		w.Observe(f)
	}
	for _, key := range slices.Sorted(maps.Keys(liveKeys)) {
		current := liveKeys[key]
		w.Observe(node.KeyEvent{Key: key, Now: s.node.ExpiryClock(), Life: history.Life{Kind: history.KeyAppeared, Replacement: reason,
			Value: current.Value, Expiry: current.Expiry, MinT: w.endTime, MaxT: s.net.now()}})
	}
	w.previousKeys = nil
}
