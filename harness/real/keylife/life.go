// Package life records the life of each key on each lock node of a real backend, told by
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
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/vdso"
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

// New returns the lives of a run that has not begun.
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
	errs := make(chan error, len(nodes))
	for name, addr := range nodes {
		n := &node{lives: l, name: name, addr: addr, keys: map[string]*state{}, past: map[string][]*state{}}
		all[name] = n
		go func() { errs <- n.first() }()
	}
	var err error
	for range nodes {
		err = errors.Join(err, <-errs)
	}
	l.mu.Lock()
	l.nodes = all
	l.mu.Unlock()
	if err != nil {
		err = errors.Join(err, l.leave(func(n *node) error { return n.leave(false) }))
	}
	return err
}

// Tells says whether the nodes tell.
func (l *Lives) Tells() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes != nil
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
	errs := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { errs <- how(n) }()
	}
	var err error
	for range nodes {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (l *Lives) now() int64 { return int64(l.cfg.Clock()) }
