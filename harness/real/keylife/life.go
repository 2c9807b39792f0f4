// Package keylife records the life of each key on each lock node of a real backend, as the nodes
// themselves report it: one history.Life event per change.
//
//	clients ── links ──► node ──► key-space events and MONITOR ──► Recorder ──► facts
//	             │                                                    ▲
//	             ╰── sender: which command came from where, and when ─╯
//
// A Recorder watches the nodes of one run. A sender is one connection from a link to a node; it
// informs the Recorder of the commands that are sent. A separate connection to each node, not through a
// link, receives both key-space events and MONITOR lines, in RESP3. The events of a command arrive
// before the command's line, and lines arrive in the order in which the node executed the commands.
//
// The following are exact: the order of a node's facts (Seq), the keys that a command changed, its
// client's address, the node's clock (Local, to a microsecond), and values. A value is a string, or the
// fields and values of a hash, or the elements of a list, separated by spaces, in the node's order. An
// expiry is calculated from the command and the time on its line, which the node reads after executing
// the command. The result is usually exact, but it can be a millisecond late.
//
// T is bounded by Lo and Hi. A command from a link was executed after it entered the link, and before
// the fact was read or the link had the answer. Commands from elsewhere, and changes without a command,
// happened after the node's previous change. If no client accesses an expired key, the node finds and
// reports it some tenths of a second later. Local is then calculated from the previous line, but is not
// before the key's expiry, because the clock may have been changed since that line.
//
// If a node is killed, its last changes may be missing, and a gap is recorded. A node does not report
// the keys that it loads when it starts, and a promoted replica does not report those that it has.
// Therefore the node's keys are read while its links are held (Reattach), and compared with the
// recorded state. If a connection is lost for another reason, it is replaced, and a gap shows since when
// facts may be missing.
//
// Deliberately missing: databases other than 0; the values of sets, sorted sets and streams, whose facts
// have no values; Redis before 7.0, which can't report when a key expires (PEXPIRETIME); and the
// interpretation of facts.
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
	FromHarness func(server, from string) bool // reports whether lockpick itself sends commands to server from that address
	Record      func(e history.Event)          // receives the facts
}

// Recorder records the key lives of the nodes of one run. A nil Recorder records nothing.
type Recorder struct {
	cfg    Config
	origin atomic.Int64 // true time zero of the run, by Clock
	wall   int64        // how far a correct wall clock is ahead of Clock

	mu    sync.Mutex
	nodes map[string]*node // the watched nodes; nil if there are none
}

// New returns a recorder of key lives for a run that has not begun yet.
func New(c Config) *Recorder {
	l := &Recorder{cfg: c}
	l.wall = vdso.ClockOffset(l.now, func() int64 { return time.Now().UnixNano() })
	return l
}

// Start makes the given instant of Clock true time zero of the run.
func (l *Recorder) Start(origin time.Duration) { l.origin.Store(int64(origin)) }

// Epoch returns what a correct wall clock shows at true time zero, in nanoseconds since 1970.
func (l *Recorder) Epoch() int64 { return l.wall + l.origin.Load() }

// Watch starts recording the nodes with the given names and addresses. If it fails for any of
// them, nothing is recorded and the error gives the reason.
func (l *Recorder) Watch(nodes map[string]string) error {
	all := map[string]*node{}
	for name, addr := range nodes {
		all[name] = &node{recorder: l, name: name, addr: addr, keys: map[string]*state{}, past: map[string][]*state{}}
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

// Reattach resumes recording a node that has restarted or was replaced by the server at another
// address. why is history.Restart or history.Failover. The node's links must be held until
// Reattach returns, which it does once the node's keys were read or reading them has failed.
func (l *Recorder) Reattach(name, addr, why string) {
	if n := l.node(name); n != nil {
		n.reattach(addr, why)
	}
}

// ExpectEnd announces that a node is about to exit, and that Reattach will be called if it comes
// back. It returns when everything that the node has done is recorded, or after endTimeout. A node
// that is killed may have answered changes that it has not reported; these are lost. A node that
// shuts down cleanly reports everything.
func (l *Recorder) ExpectEnd(name string, inOrder bool) {
	if n := l.node(name); n != nil && !inOrder {
		n.catchUp()
	}
	l.setExpected(name, true, inOrder)
}

// CancelEnd announces that the node did not exit after all.
func (l *Recorder) CancelEnd(name string) { l.setExpected(name, false, false) }

func (l *Recorder) setExpected(name string, end, inOrder bool) {
	if n := l.node(name); n != nil {
		n.awaited.Store(end)
		n.orderly.Store(inOrder)
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

// Close returns once all remaining facts of the nodes are recorded, and restores the nodes'
// settings. For nodes that don't answer, it waits for a limited time.
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

func forEachNode(nodes map[string]*node, do func(*node) error) (err error) {
	errs := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { errs <- do(n) }()
	}
	for range nodes {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (l *Recorder) now() int64 { return int64(l.cfg.Clock()) }

// node is one node of the run. While it is attached, only its reader accesses its keys. Attaching
// and detaching require the mutex, and there is no reader at those times.
type node struct {
	recorder *Recorder
	name     string
	senders  sync.Map    // maps the address that the node sees to a *sender
	awaited  atomic.Bool // its end was announced, and its return will be
	orderly  atomic.Bool // its announced end is a clean shutdown

	mu       sync.Mutex
	addr     string
	notify   *string // its earlier notify-keyspace-events; nil if unchanged
	stream   *stream // nil while detached
	runOver  bool    // whether the run is over
	retrying bool
	running  sync.WaitGroup

	run  string // run_id of the server process whose keys are recorded
	seq  int64
	keys map[string]*state
	past map[string][]*state // earlier states of each key

	pending    []item // events whose command has not been read yet
	lastLo     int64  // lower bound of the last change's time, by Clock
	lastRead   int64  // when the last change was read
	lastT      int64  // estimated time of the last change
	clockAhead int64  // how far the node's clock was ahead of Clock at that time
	script     cause  // cause of the script commands that follow
}

// attachFirst starts the recording of the node at the beginning of the run.
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

// reattach resumes the recording after the node has restarted or was replaced.
func (n *node) reattach(addr, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runOver || n.stream != nil && n.addr == addr && n.stream.alive() { // its end was not announced
		return
	}
	if s := n.stream; s != nil {
		s.finish()
		n.detach()
	}
	if addr != n.addr {
		n.addr, n.notify = addr, nil // the setting was that of the old server
	}
	s, err := n.attach()
	if err != nil {
		n.awaited.Store(false) // its return will not be announced a second time
		n.retry()
		return
	}
	n.resume(s, why)
}

// resume resumes the recording, after comparing the node's state with the recorded state. The
// caller holds the mutex.
func (n *node) resume(s *stream, why string) {
	if n.run == s.run {
		why = "" // it did not restart
	}
	n.run = s.run
	n.compare(s, why)
	n.listen(s)
}

// listen starts a reader that processes all further reports. The caller holds the mutex.
func (n *node) listen(s *stream) {
	n.run, n.stream = s.run, s
	n.awaited.Store(false)
	n.orderly.Store(false)
	n.pending, n.script = nil, cause{}
	n.lastLo, n.lastRead, n.lastT, n.clockAhead = s.from, s.at, s.from, s.ahead
	n.running.Go(func() {
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

// endTimeout is how long to wait for the reports of a node that is about to be killed.
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

// detach records that the node is no longer watched. Its reader has already exited. The caller
// holds the mutex.
func (n *node) detach() {
	n.stream.close()
	n.stream = nil
	now := n.recorder.now()
	if !n.orderly.Load() {
		n.recordGap(now)
	}
	n.lastRead = now
}

// recordGap records that facts may be missing since the last change, and dates this record at that
// change. The node may have been dead at the end of the gap.
func (n *node) recordGap(until int64) {
	since := max(min(n.lastRead, until), n.recorder.origin.Load()) // nothing can be missing before the run
	n.record(fact{what: history.KeyGap, bounds: bounds{since, since, until}, clock: since + n.clockAhead})
}

// retryDelay is the pause after a failed attempt to attach a node.
const retryDelay = 20 * time.Millisecond

// retry attaches the node as soon as possible, unless Reattach will be called for it. The caller
// holds the mutex.
func (n *node) retry() {
	if n.retrying || n.runOver || n.awaited.Load() {
		return
	}
	n.retrying = true
	n.running.Go(func() {
		for {
			time.Sleep(retryDelay)
			if n.tryAttach() {
				return
			}
		}
	})
}

// tryAttach tries to attach the node. It returns true if no further attempt is needed.
func (n *node) tryAttach() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runOver && n.stream == nil {
		s, err := n.attach()
		if err != nil {
			return false
		}
		n.recordGap(s.at) // its links were not held
		n.resume(s, history.Restart)
	}
	n.retrying = false
	return true
}

// stop ends the recording and restores the node's setting. If the run has begun, it first records
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
	err := n.restore()
	n.mu.Unlock()
	n.running.Wait()
	return err
}

// state is the value and the expiry of a key. States are immutable.
type state struct {
	kind     string   // as in TYPE: string, hash or list; "" if the value isn't known
	elements []string // the string; or the hash's fields and values; or the list's elements
	expires  int64    // milliseconds of the node's clock, or 0
}

// text returns the value in the format used in facts.
func (s *state) text() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.elements, " ")
}

// expiryNanos returns the expiry in the format used in facts.
func (s *state) expiryNanos() int64 {
	if s == nil {
		return 0
	}
	return s.expires * 1e6
}

func (s *state) sameValue(o *state) bool {
	return s.kind != "" && s.kind == o.kind && slices.Equal(s.elements, o.elements)
}

// expiryTolerance is the maximum error of a replayed expiry on a busy machine, in milliseconds.
const expiryTolerance = 20

// matches reports whether a state read from the node agrees with a replayed state.
func (s *state) matches(o *state) bool {
	return s.sameValue(o) && (s.expires == 0) == (o.expires == 0) && max(s.expires-o.expires, o.expires-s.expires) <= expiryTolerance
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
	case after.expires != before.expires:
		return history.KeyExpiry
	}
	return ""
}

const (
	dialTimeout   = 2 * time.Second // time limit for connecting
	answerTimeout = 5 * time.Second // time limit for an answer
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

// read waits for data and returns all values that are then complete.
func (c *conn) read() ([]resp.Value, error) {
	n, err := c.Read(c.buf[:])
	values, bad := c.scan.Feed(c.buf[:n])
	if bad != nil {
		err = bad
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

// doAll sends commands and returns the replies. An error reply is returned as a reply.
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

// do sends one command and returns the reply. An error reply is returned as an error.
func (c *conn) do(args ...string) (resp.Value, error) {
	replies, err := c.doAll(args)
	if err != nil {
		return resp.Value{}, err
	}
	if text, bad := replies[0].Error(); bad {
		return resp.Value{}, fmt.Errorf("%s: %s", args[0], text)
	}
	return replies[0], nil
}
