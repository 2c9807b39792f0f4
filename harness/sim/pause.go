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

// Pause stops a node, or a client, which then blocks at every gate. A stopped node's machine still
// accepts connections and receives data.
func (c *cluster) Pause(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.host(target)
	if h == nil {
		return c.pauseNode(target)
	}
	switch endErr := h.endedError(); {
	case endErr != nil:
		return "", fmt.Errorf("pause %s: %w", target, endErr)
	case h.paused:
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	h.paused = true
	return fmt.Sprintf("%s is stopped, its clock shows %s", target, wallClock()), nil
}

func (c *cluster) pauseNode(target string) (string, error) {
	s, err := c.runningNode("pause", target, "it is down")
	switch {
	case err != nil:
		return "", err
	case s.paused:
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	s.paused = true
	return fmt.Sprintf("%s is stopped; PING: %s", target, s.ping()), nil
}

// Resume resumes a client, or a node, which then handles the requests that arrived in the meantime.
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
	return fmt.Sprintf("%s runs again, %s, its clock shows %s", target, describeWaiters(h.resume()), wallClock()), nil
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
	count := len(s.backlog)
	s.catchUp()
	s.scheduleTick()
	return fmt.Sprintf("%s runs again, %s; PING: %s", target, describeWaiters(count), s.ping()), nil
}

// wallClock returns the reading of a correct wall clock.
func wallClock() string { return time.Now().UTC().Format("15:04:05.000000") }

// describeWaiters describes how many actions waited for a process that has resumed.
func describeWaiters(n int) string {
	if n == 1 {
		return "1 thing waited"
	}
	return fmt.Sprintf("%d things waited", n)
}

// isReady reports whether Redis would handle an arriving request at once.
func (s *server) isReady() bool {
	return s.node != nil && !s.paused && !s.waitingForDisk && len(s.backlog) == 0
}

// process handles commands or the end of a connection.
func (s *server) process(m *message) {
	c := m.flow.conn
	switch {
	case m.deliver != nil:
		c.closeSession()
		s.net.recordCommands(c.link, c.takeUnanswered())
		c.removeIfDone()
	case c.session != nil:
		replies, hangUp := s.execute(m)
		s.flush(response{c, replies, hangUp})
	}
}

// response is a reply on a connection. In the zero value there is no reply to send.
type response struct {
	conn   *conn
	data   []byte
	hangUp bool
}

func (s *server) sendReply(r response) {
	c := r.conn
	if c == nil || c.session == nil {
		return // the client is gone
	}
	if len(r.data) > 0 {
		m := &message{size: len(r.data)}
		m.payload = append(m.smallBuf[:0], r.data...)
		m.commands = c.stream.Reply(m.payload, s.net.now())
		m.hasLockCommand = lockCommand(m.commands)
		m.contentHash = hashBytes(s.net.tokens.maskReply(m.payload, m.commands))
		c.link.match(m, nemesis.Reply, m.commands)
		c.downstream.send(m)
	}
	if r.hangUp {
		s.hangUp(c, io.EOF)
	}
}

// catchUp makes Redis handle its backlog, one message after the other.
func (s *server) catchUp() {
	if s.catchUpScheduled || len(s.backlog) == 0 {
		return
	}
	s.catchUpScheduled = true
	s.net.at(s.slot, s.net.now()+1, func() {
		s.catchUpScheduled = false
		if s.node == nil || s.paused || s.waitingForDisk || len(s.backlog) == 0 {
			return
		}
		m := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.process(m)
		s.catchUp()
	})
}

// On a healthy disk, a sync takes between minSync and minSync+syncSpread.
const (
	minSync    = 200 * time.Microsecond
	syncSpread = time.Millisecond
)

// tickInterval is the interval of Redis's periodic tasks (hz 10).
const tickInterval = 100 * time.Millisecond

// flush does what Redis does before it replies and then sends the reply, along with pending pushes
// to other connections. The reply's bytes must stay valid until they are sent.
func (s *server) flush(r response) {
	pushes := s.node.TakePushes()
	switch s.node.Flush() {
	case node.Continue:
		s.deliver(r, pushes)
	case node.StartSync:
		s.sync(func() {})
		s.deliver(r, pushes)
	case node.WaitForSync:
		s.waitingForDisk = true
		delayed := response{r.conn, slices.Clone(r.data), r.hangUp}
		s.sync(func() {
			s.waitingForDisk = false
			s.deliver(delayed, pushes)
			s.catchUp()
		})
	case node.Exit:
		s.stop(syscall.ECONNRESET)
		return
	}
	s.scheduleTick()
}

func (s *server) deliver(r response, pushes []node.Push) {
	s.sendReply(r)
	for _, p := range pushes {
		c := find(s.net.conns(nil, s), func(c *conn) bool { return c.session == p.To })
		s.sendReply(response{c, p.Data, p.HangUp})
	}
}

// sync starts a disk sync. It calls done when the sync completes, if the process is still alive.
func (s *server) sync(done func()) {
	markSynced, startCount := s.disk.Sync(), s.startCount
	now := uint64(s.net.now())
	duration := int64(minSync) + int64(hashWords(s.net.seed, hashBytes(s.name), hashBytes("sync"), now)%uint64(syncSpread))
	var finish func()
	finish = func() {
		if s.disk.Stalled {
			s.stalledSyncs = append(s.stalledSyncs, finish)
			s.disk.AffectedCount++
			return
		}
		markSynced()
		if s.node != nil && s.startCount == startCount {
			s.node.SyncDone()
			done()
		}
	}
	s.net.at(s.slot, s.net.now()+duration, finish)
}

// scheduleTick schedules Redis's next periodic tick if there is periodic work.
func (s *server) scheduleTick() {
	if s.tickScheduled || s.node == nil || !s.node.NeedsFlush() && !s.node.HasListeners() {
		return
	}
	s.tickScheduled = true
	phase := int64(hashWords(s.net.seed, hashBytes(s.name), hashBytes("tick")) % uint64(tickInterval))
	now := s.net.now()
	next := now - (now-phase)%int64(tickInterval)
	for next <= now {
		next += int64(tickInterval)
	}
	s.net.at(s.slot, next, func() {
		s.tickScheduled = false
		if s.node != nil && !s.paused && !s.waitingForDisk {
			s.node.Expire()
			s.flush(response{})
		}
	})
}
