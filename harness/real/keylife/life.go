// Package keylife records the life of each key on each lock node of a real backend, as reported by
// the nodes themselves. Each change becomes one fact, a history.Life event.
//
//	clients ── links ──► node ──► key-space events and MONITOR ──► Recorder ──► facts
//	             │                                                    ▲
//	             ╰── sender: which command came from where, and when ─╯
//
// A Recorder watches the nodes of one run. A sender belongs to one connection from a link to a node
// and informs the Recorder of the commands that the link sends. To watch a node, the Recorder opens
// a connection of its own, which bypasses links and receives both key-space events and MONITOR
// lines, in RESP3. A command's events arrive before its line, and lines arrive in the order in which
// the node executed the commands.
//
// The following are exact: the order of a node's facts (Seq), the keys changed by a command, its
// client's address, the node's clock (Local, to a microsecond), and values. A value is a string, a
// hash's fields and values, or a list's elements, separated by spaces, in the node's order. An expiry
// is computed from the command and the time on its line, which the node reads after executing the
// command. The result is usually exact but can be a millisecond late.
//
// Lo and Hi bound T. A command from a link was executed after it entered the link, and before its
// fact was read or the link had the answer. Other commands, and changes without a command, happened
// after the node's previous change. If no client accesses an expired key, the node finds and reports
// it some tenths of a second later. Local is then computed from the previous line. It is never before
// the key's expiry, because the clock may have changed after that line.
//
// If a node is killed, its last changes may be missing, and a gap is recorded. A starting node does
// not report the keys that it loads, nor does a promoted replica report the keys that it has.
// Reattach therefore reads the node's keys, while its links are held, and compares them with the
// recorded state. If a connection is lost for another reason, the Recorder replaces it and records a
// gap for the time when facts may be missing.
//
// Not supported: databases other than 0; the values of sets, sorted sets and streams, whose facts
// have no values; and Redis before 7.0, which can't report when a key expires (PEXPIRETIME).
// Interpreting facts is left to other packages.
package keylife

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/vdso"
	"lockpick/harness/resp"
)

// Config configures a Recorder.
type Config struct {
	Clock       func() time.Duration           // returns true time since any origin
	FromHarness func(server, from string) bool // reports whether lockpick itself sends commands to server from this address
	Record      func(e history.Event)          // receives the facts
}

// Recorder records the key lives of one run's nodes. A nil Recorder records nothing.
type Recorder struct {
	cfg        Config
	origin     atomic.Int64 // true time zero, by Clock
	wallOffset int64        // how far a correct wall clock is ahead of Clock, in nanoseconds

	mu    sync.Mutex
	nodes map[string]*node // watched nodes by name; nil if there are none
}

// New returns a recorder for a run that has not begun.
func New(c Config) *Recorder {
	l := &Recorder{cfg: c}
	l.wallOffset = vdso.ClockOffset(l.now, func() int64 { return time.Now().UnixNano() })
	return l
}

// Start makes origin, an instant of Clock, true time zero.
func (l *Recorder) Start(origin time.Duration) { l.origin.Store(int64(origin)) }

// Epoch returns the correct wall clock time at true time zero, in nanoseconds since 1970.
func (l *Recorder) Epoch() int64 { return l.wallOffset + l.origin.Load() }

// Watch starts to record the nodes, given as a map from names to addresses. If Watch fails for any
// node, it records none and returns an error with the reason.
func (l *Recorder) Watch(nodes map[string]string) error {
	all := map[string]*node{}
	for name, addr := range nodes {
		all[name] = &node{recorder: l, name: name, addr: addr, keys: map[string]*state{}, pastStates: map[string][]*state{}}
	}
	err := forEachNode(all, (*node).attachFirst)
	l.mu.Lock()
	l.nodes = all
	l.mu.Unlock()
	if err != nil {
		err = errors.Join(err, l.stopAll(func(n *node) error { return n.stop(false) }))
	}
	return err
}

// Reattach resumes recording a node after a restart, or after the server at another address has
// replaced it. why is history.Restart or history.Failover. Reattach reads the node's keys; the
// caller must hold the node's links until it returns, even if reading fails.
func (l *Recorder) Reattach(name, addr, why string) {
	if n := l.node(name); n != nil {
		n.reattach(addr, why)
	}
}

// ExpectEnd announces that a node is about to exit and that Reattach will follow if the node comes
// back. For a kill, ExpectEnd waits until everything that the node has done is recorded, or until
// endTimeout has passed. Changes that a killed node has answered but not reported are lost. A node
// that shuts down cleanly reports everything.
func (l *Recorder) ExpectEnd(name string, clean bool) {
	if n := l.node(name); n != nil && !clean {
		n.catchUp()
	}
	l.setExpected(name, true, clean)
}

// CancelEnd announces that the node did not exit after all.
func (l *Recorder) CancelEnd(name string) { l.setExpected(name, false, false) }

func (l *Recorder) setExpected(name string, expected, clean bool) {
	if n := l.node(name); n != nil {
		n.returnExpected.Store(expected)
		n.cleanShutdown.Store(clean)
	}
}

func (l *Recorder) node(name string) *node {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[name]
}

// Close records the nodes' remaining facts and restores their settings. It does not wait long for
// nodes that don't answer.
func (l *Recorder) Close() error {
	if l == nil {
		return nil
	}
	return l.stopAll(func(n *node) error { return n.stop(true) })
}

func (l *Recorder) stopAll(stop func(*node) error) error {
	l.mu.Lock()
	nodes := l.nodes
	l.nodes = nil
	l.mu.Unlock()
	return forEachNode(nodes, stop)
}

func forEachNode(nodes map[string]*node, f func(*node) error) (err error) {
	errs := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { errs <- f(n) }()
	}
	for range nodes {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (l *Recorder) now() int64 { return int64(l.cfg.Clock()) }

// node is one watched node. While a node is attached, only its reader accesses its keys. attach and
// detach require the mutex and run while there is no reader.
type node struct {
	recorder       *Recorder
	name           string
	senders        sync.Map    // *sender by connection address, as seen by the node
	returnExpected atomic.Bool // set between ExpectEnd and Reattach
	cleanShutdown  atomic.Bool // whether the node is shutting down cleanly

	mu         sync.Mutex
	addr       string
	oldSetting *string // old value of notify-keyspace-events; nil if unchanged
	stream     *stream // nil while detached
	runOver    bool
	retrying   bool
	goroutines sync.WaitGroup

	runID      string // run_id of the server process whose keys are recorded
	seq        int64
	keys       map[string]*state
	pastStates map[string][]*state // earlier states of each key

	pending    []item // events whose command has not been read yet
	lastLo     int64  // lower bound on the last change's time, by Clock
	lastRead   int64  // when the last change was read
	lastT      int64  // estimated time of the last change
	clockAhead int64  // how far the node's clock was ahead of Clock at the last change
	script     cause  // cause of the following script commands
}

// attachFirst starts recording the node at the beginning of the run.
func (n *node) attachFirst() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, err := n.attach()
	if err != nil {
		return err
	}
	maps.Copy(n.keys, s.keys)
	n.listen(s)
	return nil
}

func (n *node) reattach(addr, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runOver || n.stream != nil && n.addr == addr && n.stream.isAlive() { // after an unannounced end, retry was faster
		return
	}
	if s := n.stream; s != nil {
		s.finish()
		n.detach()
	}
	if addr != n.addr {
		n.addr, n.oldSetting = addr, nil // the setting belonged to the old server
	}
	s, err := n.attach()
	if err != nil {
		n.returnExpected.Store(false) // no further Reattach will come
		n.retry()
		return
	}
	n.resume(s, why)
}

// resume compares the node's state with the recorded state and continues recording. The caller
// holds the mutex.
func (n *node) resume(s *stream, why string) {
	if n.runID == s.runID {
		why = "" // the node did not restart
	}
	n.runID = s.runID
	n.compareKeys(s, why)
	n.listen(s)
}

// listen starts a reader that processes all further reports. The caller holds the mutex.
func (n *node) listen(s *stream) {
	n.runID, n.stream = s.runID, s
	n.returnExpected.Store(false)
	n.cleanShutdown.Store(false)
	n.pending, n.script = nil, cause{}
	n.lastLo, n.lastRead, n.lastT, n.clockAhead = s.startTime, s.readTime, s.startTime, s.clockAhead
	n.goroutines.Go(func() {
		for {
			items, err := s.items(n.recorder.cfg.Clock)
			n.process(s, items)
			if err != nil {
				break
			}
		}
		close(s.done)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.stream == s {
			n.detach()
			n.retry()
		}
	})
}

// endTimeout limits the wait for the reports of a node that is about to be killed.
const endTimeout = 100 * time.Millisecond

// catchUp waits until all reports so far are processed, or until endTimeout has passed.
func (n *node) catchUp() {
	n.mu.Lock()
	s := n.stream
	n.mu.Unlock()
	if s != nil {
		s.drain(endTimeout)
	}
}

// detach stops watching the node after its reader has exited. The caller holds the mutex.
func (n *node) detach() {
	n.stream.close()
	n.stream = nil
	now := n.recorder.now()
	if !n.cleanShutdown.Load() {
		n.recordGap(now)
	}
	n.lastRead = now
}

// recordGap records that facts may be missing since the last change. The gap has the time of that
// change, because the node may be dead at the end of the gap.
func (n *node) recordGap(end int64) {
	start := max(min(n.lastRead, end), n.recorder.origin.Load()) // nothing can be missing before the run
	n.record(fact{change: history.KeyGap, bounds: bounds{start, start, end}, clock: start + n.clockAhead})
}

const retryDelay = 20 * time.Millisecond // after a failed attempt to attach a node

// retry attaches the node as soon as possible, unless Reattach will do so. The caller holds the
// mutex.
func (n *node) retry() {
	if n.retrying || n.runOver || n.returnExpected.Load() {
		return
	}
	n.retrying = true
	n.goroutines.Go(func() {
		for {
			time.Sleep(retryDelay)
			if n.tryAttach() {
				return
			}
		}
	})
}

// tryAttach tries to attach the node. It returns true if no further attempt is necessary.
func (n *node) tryAttach() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runOver && n.stream == nil {
		s, err := n.attach()
		if err != nil {
			return false
		}
		n.recordGap(s.readTime) // the links were not held
		n.resume(s, history.Restart)
	}
	n.retrying = false
	return true
}

// stop ends the recording and restores the node's setting. If the run has begun, stop first records
// all remaining facts.
func (n *node) stop(begun bool) error {
	n.mu.Lock()
	n.runOver = true
	if s := n.stream; s != nil {
		drained := begun && s.drain(drainTimeout)
		if drained {
			s.close()
		}
		s.finish()
		n.stream = nil
		s.close()
		if begun && !drained {
			n.recordGap(n.recorder.now())
		}
	}
	err := n.restoreSetting()
	n.mu.Unlock()
	n.goroutines.Wait()
	return err
}

// state is an immutable state of a key.
type state struct {
	kind     string   // string, hash or list, as in TYPE; "" if the value is unknown
	elements []string // the string, the hash's fields and values, or the list's elements
	expiry   int64    // in milliseconds of the node's clock; 0 means never
}

// text returns the value as it appears in facts.
func (s *state) text() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.elements, " ")
}

// expiryNanos returns the expiry as it appears in facts.
func (s *state) expiryNanos() int64 {
	if s == nil {
		return 0
	}
	return s.expiry * 1e6
}

func (s *state) sameValue(o *state) bool {
	return s.kind != "" && s.kind == o.kind && slices.Equal(s.elements, o.elements)
}

// expiryTolerance is the maximum error in a replayed expiry on a busy machine, in milliseconds.
const expiryTolerance = 20

// matches reports whether the state s, read from the node, agrees with the replayed state o.
func (s *state) matches(o *state) bool {
	return s.sameValue(o) && (s.expiry == 0) == (o.expiry == 0) && max(s.expiry-o.expiry, o.expiry-s.expiry) <= expiryTolerance
}

// change returns how a key has changed, or "" if it has not.
func change(before, after *state) history.Change {
	switch {
	case before == nil && after == nil:
		return ""
	case before == nil:
		return history.KeySet
	case after == nil:
		return history.KeyDeleted
	case !after.sameValue(before):
		return history.KeyChanged
	case after.expiry != before.expiry:
		return history.KeyExpiry
	}
	return ""
}

const (
	dialTimeout   = 2 * time.Second
	answerTimeout = 5 * time.Second
)

type conn struct {
	net.Conn
	scan   resp.Scanner
	values []resp.Value // received but not consumed yet
	buf    [1 << 16]byte
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

func (c *conn) send(commands ...[]string) error {
	var b []byte
	for _, args := range commands {
		b = resp.Append(b, args...)
	}
	_, err := c.Write(b)
	return err
}

// read waits for data and returns all complete values.
func (c *conn) read() ([]resp.Value, error) {
	n, err := c.Read(c.buf[:])
	values, parseErr := c.scan.Feed(c.buf[:n])
	if parseErr != nil {
		err = parseErr
	}
	return values, err
}

func (c *conn) next() (resp.Value, error) {
	for len(c.values) == 0 {
		values, err := c.read()
		c.values = append(c.values, values...)
		if err != nil && len(c.values) == 0 {
			return resp.Value{}, err
		}
	}
	v := c.values[0]
	c.values = c.values[1:]
	return v, nil
}

// doAll sends commands and returns the replies, including error replies.
func (c *conn) doAll(commands ...[]string) ([]resp.Value, error) {
	c.SetDeadline(time.Now().Add(answerTimeout))
	defer c.SetDeadline(time.Time{})
	if err := c.send(commands...); err != nil {
		return nil, err
	}
	replies := make([]resp.Value, len(commands))
	for i := range replies {
		v, err := c.next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", commands[i][0], err)
		}
		replies[i] = v
	}
	return replies, nil
}

// do sends a command and returns the reply. It returns an error reply as an error.
func (c *conn) do(args ...string) (resp.Value, error) {
	replies, err := c.doAll(args)
	if err != nil {
		return resp.Value{}, err
	}
	if text, isErr := replies[0].Error(); isErr {
		return resp.Value{}, fmt.Errorf("%s: %s", args[0], text)
	}
	return replies[0], nil
}
