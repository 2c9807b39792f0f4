// Package resp recognizes lock commands in the bytes on a connection, and the node's replies to
// them, both for the simulated network and for the real links.
//
// A Stream follows one connection. It gets the bytes of both directions and returns Commands, each
// with three stamps: sent (the request entered the link), applied (the node had answered) and
// answered (the reply left for the client). A Command becomes one event of the history, or one for
// each key if a script does the same to several keys.
//
// Deliberately missing: sockets, faults, and the meaning of a reply to the lock.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// Command is one command on one connection.
type Command struct {
	history.Event // what it does and when; Op is "" if it is of no interest
	Args          []string
	// Retry marks the EVAL that repeats an EVALSHA which the node did not know. The pair counts as
	// one message.
	Retry        bool
	Reply        Value
	answered     bool
	returnsTTL   bool // a null reply means success; otherwise it is how long the lock is still taken
	zeroIsOK     bool // 0 means success; otherwise the reply is the reason for refusal
	keys         int  // number of keys to which its script does the same, each with its token; 0: only the first key
	pendingParts int  // number of parts still missing from a reply; 0: until no subscriptions are left
}

// Stream follows one connection between a client and a node.
type Stream struct {
	scripts      *Scripts
	in, out      Scanner
	waiting      []*Command
	queued       []*Command      // of an open transaction
	unknownTexts map[string]bool // texts of scripts that the node did not know
}

// NewStream returns a stream. All streams of a run share scripts.
func NewStream(scripts *Scripts) *Stream { return &Stream{scripts: scripts} }

// Request takes bytes that the client sent at an instant and returns the commands that are now
// complete.
func (s *Stream) Request(b []byte, now int64) []*Command {
	commands, _ := s.in.Commands(b) // bytes that are not RESP pass and are of no interest
	before := len(s.waiting)
	for _, args := range commands {
		if len(args) == 0 {
			continue // has no reply
		}
		c := &Command{Args: args, Event: history.Event{Sent: now}, pendingParts: len(args) - 1}
		c.classify(s.scripts)
		if len(c.Args) > 1 && strings.EqualFold(c.Args[0], "EVAL") && s.unknownTexts[c.Args[1]] {
			c.Retry = true
			delete(s.unknownTexts, c.Args[1])
		}
		s.waiting = append(s.waiting, c)
	}
	return slices.Clip(s.waiting[before:])
}

// ProtocolError returns the error that Redis would report for the client's input, or nil if it has
// been valid so far.
func (s *Stream) ProtocolError() error { return s.in.err }

// Reply takes bytes that the node sent at an instant and returns the commands whose replies are now
// complete.
func (s *Stream) Reply(b []byte, now int64) []*Command {
	values, _ := s.out.Feed(b)
	var out []*Command
	for _, v := range values {
		if len(s.waiting) == 0 || !s.waiting[0].answeredBy(v) { // a push, or a reply without a command
			continue
		}
		first := s.waiting[:1:1]
		c := first[0]
		s.waiting = s.waiting[1:]
		if v.Kind == '+' && v.Str == "QUEUED" {
			s.queued = append(s.queued, c)
			continue
		}
		c.answer(v, now)
		out = append(out, s.executed(c, now)...)
		if c.unknownScript() && c.Op != "" {
			if s.unknownTexts == nil {
				s.unknownTexts = map[string]bool{}
			}
			if known := s.scripts.lookup(c.Args[1]); known != nil {
				s.unknownTexts[known.text] = true
			}
		}
		if out == nil {
			out = first
		} else {
			out = append(out, c)
		}
	}
	return out
}

func (c *Command) answer(v Value, now int64) { c.Reply, c.Applied, c.answered = v, now, true }

// executed returns the commands that an EXEC or a DISCARD answers besides itself.
func (s *Stream) executed(by *Command, now int64) (all []*Command) {
	exec := strings.EqualFold(by.Args[0], "EXEC")
	if !exec && !strings.EqualFold(by.Args[0], "DISCARD") {
		return nil
	}
	all, s.queued = s.queued, nil
	for i, c := range all {
		v := Value{Kind: '-', Str: "the transaction was discarded"}
		if exec && i < len(by.Reply.Items) {
			v = by.Reply.Items[i]
		}
		c.answer(v, now)
	}
	return all
}

// answeredBy reports whether a value is the last part of the command's reply. Pushed messages are
// arrays in RESP2. In RESP3, a subscription is answered by one push for each channel.
func (c *Command) answeredBy(v Value) bool {
	if v.Kind != '>' && v.Kind != '*' {
		return true
	}
	name, first, of := strings.ToLower(c.Args[0]), "", int64(0)
	if len(v.Items) == 3 {
		first, of = v.Items[0].Str, v.Items[2].Int
	}
	switch {
	case name == "subscribe" || name == "unsubscribe":
		if first != name {
			return false
		}
		c.pendingParts--
		return c.pendingParts == 0 || c.pendingParts < 0 && of == 0
	case v.Kind == '>':
		return false
	}
	return first != "message" || name != "ping" && name != "quit"
}

// Waiting returns the commands that have no reply yet, for example when the connection ends.
func (s *Stream) Waiting() []*Command { return slices.Concat(s.queued, s.waiting) }

func (c *Command) unknownScript() bool {
	text, isErr := c.Reply.Error()
	return isErr && strings.HasPrefix(text, "NOSCRIPT") && strings.EqualFold(c.Args[0], "EVALSHA")
}

// Counts reports whether c counts as a message of kind op.
func (c *Command) Counts(op string) bool { return c.Op == op && !c.Retry && c.Op != "" }

// CountsReply is like Counts for the reply. A node that does not know a script has not answered
// yet.
func (c *Command) CountsReply(op string) bool { return c.Op == op && c.Op != "" && !c.unknownScript() }

// Recorded reports whether the history has an event for c.
func (c *Command) Recorded() bool { return c.Op != "" && !c.unknownScript() }

// Events appends c's events to out, one for each key, stamped with its last stamp. Their process is
// the link.
func (c *Command) Events(out []history.Event, link, node string) []history.Event {
	e := c.Event
	e.T, e.Process, e.Node = max(c.Sent, c.Applied, c.Answered), link, node
	if c.keys == 0 {
		return append(out, c.outcome(e, c.Reply))
	}
	for i, key := range c.Args[3 : 3+c.keys] {
		e.Key, e.Token = key, c.Args[3+c.keys+i]
		reply := c.Reply
		if reply.Kind == '*' && len(reply.Items) == c.keys {
			reply = reply.Items[i]
		}
		out = append(out, c.outcome(e, reply))
	}
	return out
}

// outcome returns e with the result that a reply shows.
func (c *Command) outcome(e history.Event, reply Value) history.Event {
	e.Type = history.Info
	if !c.answered {
		e.Cause = "no answer"
		return e
	}
	e.Type = history.Fail
	if text, isErr := reply.Error(); isErr {
		e.Cause = text
		return e
	}
	done := isSuccess(reply)
	switch {
	case c.returnsTTL:
		done = reply.Null
	case c.zeroIsOK:
		done = reply.Kind == ':' && reply.Int == 0
	}
	if done {
		e.Type = history.OK
		if c.Op == history.OpSet && reply.Kind == ':' {
			e.Fence = reply.Int // the acquire script returns the number of grants
		}
	}
	return e
}

// isSuccess interprets a reply as success or refusal. OK, a positive number and an array that
// begins with a success are successes.
func isSuccess(v Value) bool {
	switch v.Kind {
	case '+':
		return true
	case ':':
		return v.Int > 0
	case '*':
		return len(v.Items) > 0 && isSuccess(v.Items[0])
	}
	return !v.Null && v.Str != ""
}

// Value is one RESP2 or RESP3 value.
type Value struct {
	Kind  byte   // its first byte: + - : $ * % ~ > _ , #
	Str   string // text of + - $ , #
	Int   int64  // of :
	Null  bool   // _, $-1 or *-1
	Items []Value
}

// Error returns the text of v and whether it is an error reply.
func (v Value) Error() (string, bool) { return v.Str, v.Kind == '-' }

// Strings returns the words of a command.
func (v Value) Strings() []string {
	out := make([]string, len(v.Items))
	for i, it := range v.Items {
		out[i] = it.Str
		if it.Kind == ':' {
			out[i] = strconv.FormatInt(it.Int, 10)
		}
	}
	return out
}

// errShort means that a value is not complete yet.
var errShort = errors.New("incomplete")

const (
	maxBulk  = 64 << 20
	maxWord  = 512 << 20 // for a word of a command, as in Redis
	maxItems = 1 << 20
	maxDepth = 32
)

// Scanner splits a stream of bytes into values, regardless of how it is chunked.
type Scanner struct {
	pending  []byte // beginning of a value that isn't complete
	err      error
	commands [][]string // result of the last call
	ends     []int      // where each word of a command begins and ends
}

// Feed takes the next bytes and returns the values that are now complete. After an error the stream
// can't be parsed any more, and Feed keeps returning that error.
func (s *Scanner) Feed(b []byte) (out []Value, err error) {
	rest := s.withPending(b)
	for len(rest) > 0 && s.err == nil {
		v, r, err := parse(rest, 0)
		if !s.check(err) {
			break
		}
		out, rest = append(out, v), r
	}
	s.savePending(rest)
	return out, s.err
}

// Commands is like Feed for commands, as words. The error has Redis's own text. The list, but not
// the commands in it, is valid until the next call.
func (s *Scanner) Commands(b []byte) ([][]string, error) {
	rest := s.withPending(b)
	s.commands = s.commands[:0]
	for len(rest) > 0 && s.err == nil {
		args, r, err := s.parseCommand(rest)
		if !s.check(err) {
			break
		}
		s.commands, rest = append(s.commands, args), r
	}
	s.savePending(rest)
	return s.commands, s.err
}

// Cut splits b after each value that ends in it. Bytes that are not RESP stay in one piece.
func (s *Scanner) Cut(b []byte) (pieces [][]byte) {
	rest := s.withPending(b)
	for len(rest) > 0 && s.err == nil {
		_, r, err := parse(rest, 0)
		if !s.check(err) {
			break
		}
		n := len(b) - len(r)
		pieces, b, rest = append(pieces, b[:n]), b[n:], r
	}
	s.savePending(rest)
	if len(b) > 0 {
		pieces = append(pieces, b)
	}
	return pieces
}

// withPending returns b appended to the bytes of the incomplete value.
func (s *Scanner) withPending(b []byte) []byte {
	if len(s.pending) == 0 {
		return b
	}
	s.pending = append(s.pending, b...)
	return s.pending
}

// check reports whether a value was complete, and remembers a parse error.
func (s *Scanner) check(err error) bool {
	if err != nil && err != errShort {
		s.err = err
	}
	return err == nil
}

// savePending keeps the bytes of an incomplete value.
func (s *Scanner) savePending(rest []byte) {
	if s.pending = s.pending[:0]; s.err == nil {
		s.pending = append(s.pending, rest...)
	}
}

// parseCommand cuts one command off b as Redis does, with Redis's own error texts. All words of a
// command share one string. Commands are parsed by clients' goroutines, which are many and
// short-lived, and whose stacks have to grow for every frame, so this function doesn't call many
// others.
func (s *Scanner) parseCommand(b []byte) (args []string, rest []byte, err error) {
	line, rest, err := cutLine(b)
	if err != nil {
		return nil, nil, err
	}
	if len(line) == 0 || line[0] != '*' {
		return strings.Fields(string(line)), rest, nil
	}
	n, ok := number(line[1:])
	if !ok || n > maxItems {
		return nil, nil, errors.New("invalid multibulk length")
	}
	if n <= 0 {
		return nil, rest, nil
	}
	s.ends = s.ends[:0]
	for range n {
		if line, rest, err = cutLine(rest); err != nil {
			return nil, nil, err
		}
		if len(line) == 0 || line[0] != '$' {
			return nil, nil, fmt.Errorf("expected '$', got '%s'", line[:min(1, len(line))])
		}
		size, ok := number(line[1:])
		if !ok || size < 0 || size > maxWord {
			return nil, nil, errors.New("invalid bulk length")
		}
		if int64(len(rest)) < size+2 {
			return nil, nil, errShort
		}
		at := len(b) - len(rest)
		s.ends, rest = append(s.ends, at, at+int(size)), rest[size+2:]
	}
	text := string(b[s.ends[0]:s.ends[len(s.ends)-1]])
	args = make([]string, n)
	for i := range args {
		args[i] = text[s.ends[2*i]-s.ends[0] : s.ends[2*i+1]-s.ends[0]]
	}
	return args, rest, nil
}

// cutLine cuts one line off b. As in Redis, a bare newline also ends an inline command.
func cutLine(b []byte) (line, rest []byte, err error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if len(b) > 64<<10 {
			return nil, nil, errors.New("too big inline request")
		}
		return nil, nil, errShort
	}
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:], nil
}

// Append encodes a command as clients do.
func Append(out []byte, args ...string) []byte {
	out = fmt.Appendf(out, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	return out
}

// parse cuts the first value off b. errShort means that b ends inside it. Inline commands
// ("PING\r\n") become arrays.
func parse(b []byte, depth int) (Value, []byte, error) {
	if depth > maxDepth {
		return Value{}, nil, errors.New("RESP value is nested too deeply")
	}
	i := bytes.Index(b, crlf)
	if i < 0 {
		return Value{}, nil, errShort
	}
	line, rest := b[:i], b[i+2:]
	if len(line) == 0 {
		return Value{}, nil, errors.New("RESP value has no type")
	}
	v := Value{Kind: line[0]}
	switch v.Kind {
	case '+', '-', ',', '#', '(':
		v.Str = string(line[1:])
		return v, rest, nil
	case '_':
		v.Null = true
		return v, rest, nil
	case ':', '$', '=', '*', '%', '~', '>':
	default: // inline
		v = Value{Kind: '*'}
		for _, w := range strings.Fields(string(line)) {
			v.Items = append(v.Items, Value{Kind: '$', Str: w})
		}
		return v, rest, nil
	}
	n, ok := number(line[1:])
	switch {
	case !ok:
		return Value{}, nil, fmt.Errorf("RESP value %q has no number", line)
	case v.Kind == ':':
		v.Int = n
		return v, rest, nil
	case n < 0:
		v.Null = true
		return v, rest, nil
	case v.Kind != '$' && v.Kind != '=':
		return items(v, n, rest, depth)
	case n > maxBulk:
		return Value{}, nil, fmt.Errorf("RESP string of %d bytes is too long", n)
	case int64(len(rest)) < n+2:
		return Value{}, nil, errShort
	}
	v.Str = string(rest[:n])
	return v, rest[n+2:], nil
}

var crlf = []byte("\r\n")

// number is like strconv.ParseInt, but handles the usual short numbers without allocating a string.
func number(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 || b[0] < '0' || b[0] > '9' {
		n, err := strconv.ParseInt(string(b), 10, 64)
		return n, err == nil
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func items(v Value, n int64, rest []byte, depth int) (Value, []byte, error) {
	if v.Kind == '%' {
		n *= 2
	}
	if n > maxItems {
		return Value{}, nil, fmt.Errorf("RESP array of %d items is too long", n)
	}
	v.Items = make([]Value, 0, min(n, 8)) // the announced number may be wrong
	for range n {
		it, r, err := parse(rest, depth+1)
		if err != nil {
			return Value{}, nil, err
		}
		v.Items, rest = append(v.Items, it), r
	}
	return v, rest, nil
}
