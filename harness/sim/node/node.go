// Package node is a Redis server without a process: it is fed bytes and answers
// bytes, at once, in the goroutine of whoever feeds it.
//
// A Node is one life of a server: keys, scripts, run_id. Killing it is dropping
// it, starting it again is making another one, so nothing can survive that
// should not. A Session is one connection to it. Its Clock and its Disk belong to
// the machine and outlive it.
//
// It speaks RESP2 and RESP3 and knows the commands that lock libraries send,
// with the error texts of Redis 7.0. Deliberately missing: goroutines, sockets,
// active expiry (a key that has expired is gone when somebody looks, or at a
// Sweep), rewriting of the append-only file, sets, sorted sets, streams, patterns of
// channels, more than one database, and a limit on a script's running time.
package node

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"lockpick/harness/resp"
)

// Config is what a node is told when it starts.
type Config struct {
	RunID     string // 40 hexadecimal digits, of this life only
	ProcessID int64
	Clock     *Clock
	Monotonic bool         // keys expire by a clock that runs as Clock does and that nobody sets: no Redis has one
	Disk      *Disk        // nil: it keeps nothing
	Replicate func(Record) // told of each change; nil: nobody is
	Teller    Teller       // told of each key's life; nil: nobody is
	Lacks     func(string) // told of each thing that a client asks for, that Redis has and this node doesn't; nil: nobody is
}

// Node is one life of a server. It is not safe for concurrent use.
//
//	Session ─► Node ─► keyspace ─► appender ─► Disk
//	           │ commands, scripts           └► replica
type Node struct {
	config Config
	keyspace
	appender
	trackers
	commands map[string]command
	scripts  map[string]*loaded // by SHA-1
	texts    map[string]*loaded // the same by their texts
	lua      *interpreter
	sessions int64                         // so far
	open     map[int64]*Session            // by number
	own      Session                       // of Do
	current  *Session                      // whose command runs; nil: none does
	watchers map[string]map[*Session]bool  // by key
	channels map[string]map[int64]*Session // by name, who listens
	pushed   []*Session                    // who is to be sent something
}

// New starts a node with what its disk kept.
func New(c Config) *Node {
	n := &Node{config: c, commands: commands(), scripts: map[string]*loaded{}, texts: map[string]*loaded{}, open: map[int64]*Session{},
		watchers: map[string]map[*Session]bool{}, channels: map[string]map[int64]*Session{},
		trackers: trackers{table: map[string]map[int64]*Session{}, changed: map[string]map[string]*Session{}}}
	n.own.node = n
	n.appender = appender{disk: c.Disk, clock: c.Clock, replicate: c.Replicate}
	n.keyspace = keyspace{keys: map[string]*value{}, clock: c.Clock, monotonic: c.Monotonic, teller: c.Teller, file: &n.appender, touch: n.touched}
	n.readFile()
	return n
}

// readFile reads the file, and opens it for more.
func (n *Node) readFile() {
	d := n.config.Disk
	if d == nil {
		return
	}
	d.torn = false
	for _, r := range d.written {
		n.Apply(r)
	}
	n.appender.asked, n.appender.lastSync = len(d.written), n.seconds()
}

// Sweep drops the keys that have expired. Redis does it ten times a second, so that
// a clock which is set back can't bring them back; who sets it back calls it before.
func (n *Node) Sweep() {
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		n.look(key)
	}
	n.commit()
}

// Close frees what the node's scripts hold. A closed node is not used again.
func (n *Node) Close() {
	if n.lua != nil {
		n.lua.state.Close()
		n.lua = nil
	}
}

// Do runs one command without a connection. The reply is nil, an int64, a
// string or a []any of these; an error reply is the error.
func (n *Node) Do(args ...string) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("no command")
	}
	return plain(n.exec(&n.own, args))
}

// Session is one connection to a node.
type Session struct {
	node  *Node
	id    int64
	name  string
	resp3 bool
	quit  bool
	in    resp.Scanner
	out   []byte

	multi     *transaction    // nil: none is open
	transacts bool            // its transaction is executed
	watches   []string        // keys, for its next transaction
	changed   bool            // one of them has
	channels  map[string]bool // that it listens to
	tracking  *tracking       // nil: it doesn't track
	caching   bool            // CLIENT CACHING was said for the command that comes
	pushed    []byte          // to be sent out of turn
}

// Open makes a session.
func (n *Node) Open() *Session {
	n.sessions++
	s := &Session{node: n, id: n.sessions}
	n.open[s.id] = s
	return s
}

// Feed takes the next bytes of the connection and returns the replies to the
// commands that are complete now. The replies are valid until the next call.
// Hang up says that the node closes the connection after them.
func (s *Session) Feed(b []byte) (replies []byte, hangUp bool) {
	commands, wrong := s.in.Commands(b)
	s.out, s.node.current = s.out[:0], s
	for _, args := range commands {
		s.do(args)
	}
	return s.replies(wrong)
}

// Take is Feed for whoever has cut the bytes into commands already: those that are complete
// now, and what is wrong with what follows them.
func (s *Session) Take(commands []*resp.Command, wrong error) (replies []byte, hangUp bool) {
	s.out, s.node.current = s.out[:0], s
	for _, c := range commands {
		s.do(c.Args)
	}
	return s.replies(wrong)
}

// do does one command of those that came.
func (s *Session) do(args []string) {
	if len(args) > 0 && !s.quit {
		v := s.node.exec(s, args)
		s.out = appendReply(s.out, v, s.resp3)
		s.settle()
	}
}

// replies is what is to be sent for all that came.
func (s *Session) replies(wrong error) (replies []byte, hangUp bool) {
	s.node.broadcast()
	s.node.current = nil
	if wrong != nil && !s.quit {
		s.out = appendReply(s.out, failure("ERR Protocol error: "+wrong.Error()), s.resp3)
		return s.out, true
	}
	return s.out, s.quit
}

// exec runs one command, or queues it; args has at least its name.
func (n *Node) exec(s *Session, args []string) any {
	name := strings.ToLower(args[0])
	c, ok := n.commands[name]
	bad := failure("")
	switch {
	case !ok:
		n.lacksCommand(s, args, 1)
		bad = unknownCommand(args)
	case !c.takes(len(args)):
		bad = wrongNumber(name)
	case n.appender.failed && (c.writes || name == "ping"):
		bad = misconf
	case s.listens() && !s.resp3 && !c.heard:
		bad = failure("ERR Can't execute '" + fullName(args) + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	if bad != "" {
		s.spoil()
		return bad
	}
	if s.multi != nil && !c.atOnce {
		s.multi.queue = append(s.multi.queue, args)
		return status("QUEUED")
	}
	reply := n.run(s, name, c, args)
	if s.multi == nil && name != "client" {
		s.caching = false
	}
	n.commit()
	return reply
}

func (n *Node) run(s *Session, name string, c command, args []string) any {
	n.doing = name
	reply := c.run(n, s, args)
	n.doing, n.scripted = "", false
	if bad, failed := reply.(failure); failed && len(args) > 1 && bad == unknownSubcommand(args) {
		n.lacksCommand(s, args, 2)
	}
	s.remember(c, args)
	return reply
}
