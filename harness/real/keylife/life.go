// Package keylife records the life of each key on each lock node of a real backend, told by
// the nodes themselves: history.Life, one event a change.
//
//	clients ── links ──► node ──► key-space events and MONITOR ──► Lives ──► facts
//	             │                                                   ▲
//	             ╰── Sender: which command came from where, and when ─╯
//
// Its nouns are Lives, those of one run's nodes, and Sender, one connection of a link to a
// node, of which Lives learns what was sent there. A connection of its own to each node,
// past the links, has key-space events and MONITOR at once, in RESP3: what a command did to
// keys comes before the command's line, in the order in which the node did it.
//
// What is exact: the order of a node's facts (Seq), which keys a command changed, by whom
// it came, the node's clock (Local, to a microsecond) and values: a string, a hash's fields
// and values, or a list's elements, with a space between them, in the node's order. An expiry
// comes out of the command and the clock on its line, which is read once the command is
// done: it is late by that, as a rule by nothing, seldom by a millisecond.
//
// What is bounded: T, by Lo and Hi. A command of a link's was executed after it had entered
// the link, and before the fact was told or the link had the answer. What came past the
// links, and what nobody's command did, happened after what the node did before it. An
// expiry that nobody looks for is found by the node some tenths of a second late: that is
// when it is told, and its Local is reckoned from the line before, but no less than the key's
// expiry: the clock may have been turned since.
//
// What was told last of a node that was killed may be missing, and a gap says so. A life
// that begins tells nothing of what it loads, nor does a replica that is promoted of what
// it has: the node is read behind its held links (Again) and compared with what the last
// life was seen to have. Where a connection is lost otherwise, another is made, and a gap
// says since when.
//
// Deliberately missing: databases other than 0, the values of sets, sorted sets and streams
// (facts of these have none), Redis before 7.0, which does not say when a key expires
// (PEXPIRETIME), and what facts mean.
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

// Config is what Lives needs of a run.
type Config struct {
	Clock  func() time.Duration           // true time, from any zero
	Ours   func(server, from string) bool // says whether lockpick itself asks a server from there
	Record func(e history.Event)          // takes the facts
}

// Lives are those of the nodes of one run. Nil is of nodes that don't tell.
type Lives struct {
	cfg    Config
	origin atomic.Int64 // true time zero of the run, by Clock
	wall   int64        // how far a right wall clock is ahead of Clock

	mu    sync.Mutex
	nodes map[string]*node // those that tell; nil: none does
}

// New returns a recorder of key lives for a run that has not begun.
func New(c Config) *Lives {
	l := &Lives{cfg: c}
	l.wall = vdso.Ahead(l.now, func() int64 { return time.Now().UnixNano() })
	return l
}

// Start makes an instant of Clock true time zero of the run.
func (l *Lives) Start(origin time.Duration) { l.origin.Store(int64(origin)) }

// Epoch is what a right wall clock shows at true time zero, in nanoseconds since 1970.
func (l *Lives) Epoch() int64 { return l.wall + l.origin.Load() }

// Watch lets the nodes tell, which are given by their names and addresses. All do or none:
// the error says what keeps one from it, and nothing is recorded then.
func (l *Lives) Watch(nodes map[string]string) error {
	all := map[string]*node{}
	for name, addr := range nodes {
		all[name] = &node{lives: l, name: name, addr: addr, keys: map[string]*state{}, past: map[string][]*state{}}
	}
	err := atOnce(all, (*node).first)
	l.mu.Lock()
	l.nodes = all
	l.mu.Unlock()
	if err != nil {
		err = errors.Join(err, l.leave(func(n *node) error { return n.leave(false) }))
	}
	return err
}

// Again takes in that a node has come back, or that the server at another address has
// taken its place: why is history.Restart or history.Failover. Its links are held
// meanwhile. It returns once the node was read, or can't be.
func (l *Lives) Again(name, addr, why string) {
	if n := l.node(name); n != nil {
		n.again(addr, why)
	}
}

// Ends says that a node is about to end, and that Again will be called if it comes back. It
// returns when all is told that the node has done until then, or soon: what a killed one has
// answered and not told yet is lost. One that ends in good order tells it by itself.
func (l *Lives) Ends(name string, inOrder bool) {
	if n := l.node(name); n != nil && !inOrder {
		n.catchUp()
	}
	l.expect(name, true, inOrder)
}

// Lives says that it has not ended after all.
func (l *Lives) Lives(name string) { l.expect(name, false, false) }

func (l *Lives) expect(name string, end, inOrder bool) {
	if n := l.node(name); n != nil {
		n.awaited.Store(end)
		n.orderly.Store(inOrder)
	}
}

func (l *Lives) node(name string) *node {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[name]
}

// Close returns once all facts are recorded that the nodes have to tell, and leaves the
// nodes as they were. Nodes that don't answer keep it waiting for a while.
func (l *Lives) Close() error {
	if l == nil {
		return nil
	}
	return l.leave(func(n *node) error { return n.leave(true) })
}

func (l *Lives) leave(how func(*node) error) error {
	l.mu.Lock()
	nodes := l.nodes
	l.nodes = nil
	l.mu.Unlock()
	return atOnce(nodes, how)
}

func atOnce(nodes map[string]*node, do func(*node) error) (err error) {
	errs := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { errs <- do(n) }()
	}
	for range nodes {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (l *Lives) now() int64 { return int64(l.cfg.Clock()) }

// node is one node of the run. While it is attached, only its reader knows what its keys
// are; whoever attaches or detaches it holds the mutex, and it has no reader then.
type node struct {
	lives   *Lives
	name    string
	senders sync.Map    // *Sender by the address that the node sees
	awaited atomic.Bool // its end was announced, and its return will be
	orderly atomic.Bool // and it ends in good order

	mu       sync.Mutex
	addr     string
	notify   *string // its notify-keyspace-events of before; nil: as it is now
	stream   *stream // that it tells by; nil: it doesn't
	over     bool    // the run is
	retrying bool
	running  sync.WaitGroup

	run  string // run_id of the life that tells, or told last
	seq  int64
	keys map[string]*state
	past map[string][]*state // what keys were, of those that have been something else since

	pending []item // events whose command is not told yet
	low     int64  // by Clock: what was told last did not happen before
	told    int64  // when it was read
	t       int64  // what was taken for its instant
	ahead   int64  // how far the node's clock was ahead of Clock then
	script  cause  // of the commands of a script that follow
}

// first lets it tell from the run's begin.
func (n *node) first() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, err := n.attach()
	if err != nil {
		return err
	}
	maps.Copy(n.keys, s.found)
	n.listen(s)
	return nil
}

// again lets it tell in another life, or what has taken its place.
func (n *node) again(addr, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over || n.stream != nil && n.addr == addr && n.stream.lives() { // nobody had announced its end
		return
	}
	if s := n.stream; s != nil {
		s.finish()
		n.detach()
	}
	if addr != n.addr {
		n.addr, n.notify = addr, nil // which was the other's
	}
	s, err := n.attach()
	if err != nil {
		n.awaited.Store(false) // nobody will say it again
		n.retry()
		return
	}
	n.resume(s, why)
}

// resume lets it tell again, once what it has was compared with what it was seen to have.
// The mutex is held.
func (n *node) resume(s *stream, why string) {
	if n.run == s.run {
		why = "" // it has lived on
	}
	n.run = s.run
	n.compare(s, why)
	n.listen(s)
}

// listen lets a reader take what is told from now on. The mutex is held.
func (n *node) listen(s *stream) {
	n.run, n.stream = s.run, s
	n.awaited.Store(false)
	n.orderly.Store(false)
	n.pending, n.script = nil, cause{}
	n.low, n.told, n.t, n.ahead = s.from, s.at, s.from, s.ahead
	n.running.Go(func() {
		for {
			items, err := s.items(n.lives.cfg.Clock)
			n.take(s, items)
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

// endBound is how long a node that is about to be killed may take to tell what it has done.
const endBound = 100 * time.Millisecond

// catchUp waits until that is taken, if it tells in time.
func (n *node) catchUp() {
	n.mu.Lock()
	s := n.stream
	n.mu.Unlock()
	if s != nil {
		s.drained(endBound)
	}
}

// detach takes in that it tells no more: its reader has ended. The mutex is held.
func (n *node) detach() {
	n.stream.close()
	n.stream = nil
	now := n.lives.now()
	if !n.orderly.Load() {
		n.gap(now)
	}
	n.told = now
}

// gap tells that facts may be missing since what was told last, which is its instant: the
// node may have been dead at the end of the gap.
func (n *node) gap(until int64) {
	since := max(min(n.told, until), n.lives.origin.Load()) // before the run there is nothing to miss
	n.record(fact{what: history.KeyGap, bounds: bounds{since, since, until}, clock: since + n.ahead})
}

// retryAfter is how long a node is left alone that could not be attached.
const retryAfter = 20 * time.Millisecond

// retry attaches it as soon as that is possible, unless somebody will say that it is back.
// The mutex is held.
func (n *node) retry() {
	if n.retrying || n.over || n.awaited.Load() {
		return
	}
	n.retrying = true
	n.running.Go(func() {
		for {
			time.Sleep(retryAfter)
			if n.tried() {
				return
			}
		}
	})
}

// tried says whether no more need be tried.
func (n *node) tried() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over && n.stream == nil {
		s, err := n.attach()
		if err != nil {
			return false
		}
		n.gap(s.at) // its links were not held
		n.resume(s, history.Restart)
	}
	n.retrying = false
	return true
}

// leave lets it tell no more, and leaves it as it was. Of a run that has begun, all it has
// to tell is recorded before.
func (n *node) leave(begun bool) error {
	n.mu.Lock()
	n.over = true
	if s := n.stream; s != nil {
		drained := begun && s.drained(drainBound)
		if drained {
			s.close()
		}
		s.finish()
		n.stream = nil
		s.close()
		if begun && !drained {
			n.gap(n.lives.now())
		}
	}
	err := n.restore()
	n.mu.Unlock()
	n.running.Wait()
	return err
}

// state is what a key is: what it holds, and when it expires. States don't change.
type state struct {
	kind    string   // as TYPE says: string, hash or list; "": something whose value isn't known
	words   []string // the string, the hash's fields and values, or the list's elements
	expires int64    // milliseconds of the node's clock; 0: never
}

// text is the value as facts have it.
func (s *state) text() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.words, " ")
}

// until is the expiry as facts have it.
func (s *state) until() int64 {
	if s == nil {
		return 0
	}
	return s.expires * 1e6
}

func (s *state) holds(o *state) bool {
	return s.kind != "" && s.kind == o.kind && slices.Equal(s.words, o.words)
}

// nearly is by how many milliseconds an expiry that was replayed may be off on a busy machine.
const nearly = 20

// is says whether a state that was read is one that was replayed.
func (s *state) is(o *state) bool {
	return s.holds(o) && (s.expires == 0) == (o.expires == 0) && max(s.expires-o.expires, o.expires-s.expires) <= nearly
}

// change says what has become of a key; "": nothing has.
func change(before, after *state) history.Change {
	switch {
	case before == nil && after == nil:
		return ""
	case before == nil:
		return history.KeySet
	case after == nil:
		return history.KeyDeleted
	case !after.holds(before):
		return history.KeyChanged
	case after.expires != before.expires:
		return history.KeyExpiry
	}
	return ""
}

const (
	dialBound   = 2 * time.Second // how long a server may take to be connected to
	answerBound = 5 * time.Second // and to answer
)

type conn struct {
	net.Conn
	scan   resp.Scanner
	values []resp.Value // that came and were not taken
	buf    [1 << 16]byte
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, dialBound)
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

// read waits for bytes and returns what is complete then.
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

// ask sends commands and returns the replies. An error reply is a reply.
func (c *conn) ask(commands ...[]string) ([]resp.Value, error) {
	c.SetDeadline(time.Now().Add(answerBound))
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

// tell is ask for one command whose error reply is an error.
func (c *conn) tell(args ...string) (resp.Value, error) {
	replies, err := c.ask(args)
	if err != nil {
		return resp.Value{}, err
	}
	if text, bad := replies[0].Error(); bad {
		return resp.Value{}, fmt.Errorf("%s: %s", args[0], text)
	}
	return replies[0], nil
}
