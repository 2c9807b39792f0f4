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
// Sweep), rewriting of the append-only file, sets,
// sorted sets, streams, transactions, pub/sub, more than one database, and a
// limit on a script's running time.
package node

import (
	"errors"
	"strings"
	"sync"

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

// Node is one life of a server. It is safe for concurrent use.
type Node struct {
	mu       sync.Mutex
	config   Config
	commands map[string]command
	keys     map[string]*value
	scripts  map[string]*loaded // by SHA-1
	lua      *interpreter
	sessions int64
	own      Session // of Do
	file     appender

	held     map[string]holding // what each key was last told to hold, where somebody is told
	doing    string             // the command that runs, in small letters; "": none does
	scripted bool               // a script runs it
}

// New starts a node with what its disk kept.
func New(c Config) *Node {
	n := &Node{config: c, commands: commands(), keys: map[string]*value{}, scripts: map[string]*loaded{}, held: map[string]holding{}}
	n.own.node = n
	n.readFile()
	return n
}

// Close frees what the node's scripts hold. A closed node is not used again.
func (n *Node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
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
	n.mu.Lock()
	defer n.mu.Unlock()
	return plain(n.exec(&n.own, args))
}

// Session is one connection to a node.
type Session struct {
	node  *Node
	id    int64
	name  string
	resp3 bool
	quit  bool
	in    []byte // the beginning of a command
	out   []byte
}

// Open makes a session.
func (n *Node) Open() *Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sessions++
	return &Session{node: n, id: n.sessions}
}

// Feed takes the next bytes of the connection and returns the replies to the
// commands that are complete now. The replies are valid until the next call.
// Hang up says that the node closes the connection after them.
func (s *Session) Feed(b []byte) (replies []byte, hangUp bool) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.out = s.out[:0]
	s.in = append(s.in, b...)
	rest := s.in
	for !s.quit {
		args, r, err := resp.Words(rest)
		if errors.Is(err, resp.ErrShort) {
			break
		}
		if err != nil {
			s.out = appendReply(s.out, failure("ERR Protocol error: "+err.Error()), s.resp3)
			return s.out, true
		}
		rest = r
		if len(args) > 0 {
			v := s.node.exec(s, args)
			s.out = appendReply(s.out, v, s.resp3)
		}
	}
	s.in = append(s.in[:0], rest...)
	return s.out, s.quit
}

// exec runs one command; args has at least its name.
func (n *Node) exec(s *Session, args []string) any {
	name := strings.ToLower(args[0])
	c, ok := n.commands[name]
	if !ok {
		n.lacksCommand(s, args, 1)
		return unknownCommand(args)
	}
	if !c.takes(len(args)) {
		return wrongNumber(name)
	}
	if n.file.failed && (c.writes || strings.EqualFold(args[0], "ping")) {
		return misconf
	}
	n.doing = name
	reply := c.run(n, s, args)
	n.doing, n.scripted = "", false
	if bad, failed := reply.(failure); failed && len(args) > 1 && bad == unknownSubcommand(args) {
		n.lacksCommand(s, args, 2)
	}
	n.commit()
	return reply
}
