// Package resp recognizes lock commands and their replies in the bytes on a connection, for the
// simulated network and for the real links.
//
// A Stream follows one connection. It takes the bytes of both directions and returns Commands with
// up to three stamps: sent (when the request entered the link), applied (when the node had replied)
// and answered (when the reply left the link). A Command becomes one event of the history or, if a
// script does the same to several keys, one event per key.
//
// Deliberately missing: sockets, faults, and what a reply means to the lock.
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

type Command struct {
	history.Event // what the command does and when; Op is "" if it is not a lock command
	Args          []string
	// IsRetry marks an EVAL sent because the node did not know the script of an EVALSHA. The two
	// count as one message.
	IsRetry      bool
	Reply        Value
	answered     bool
	returnsTTL   bool // a null reply means success; any other is the lock's remaining time
	zeroIsOK     bool // 0 means success; any other reply is the reason for a refusal
	numKeys      int  // number of keys if the script does the same to each, with its own token; 0: a single key
	pendingParts int  // missing parts of the reply to a subscribe or unsubscribe; 0: unsubscribe from all channels, which is complete when no subscriptions are left
}

// Stream follows one connection between a client and a node.
type Stream struct {
	scripts         *Scripts
	in, out         Scanner
	waitingCommands []*Command
	queuedCommands  []*Command      // commands in an open transaction
	unknownScripts  map[string]bool // texts of scripts that the node didn't know (NOSCRIPT)
}

// NewStream returns a stream. All streams of a run must share the same scripts.
func NewStream(scripts *Scripts) *Stream { return &Stream{scripts: scripts} }

// Request takes bytes that the client sent at time now, and returns the commands that they
// complete.
func (s *Stream) Request(b []byte, now int64) []*Command {
	commands, _ := s.in.Commands(b) // bytes that are not RESP are ignored
	before := len(s.waitingCommands)
	for _, args := range commands {
		if len(args) == 0 {
			continue // an empty command has no reply
		}
		c := &Command{Args: args, Event: history.Event{SentAt: now}, pendingParts: len(args) - 1}
		c.classify(s.scripts)
		if len(c.Args) > 1 && strings.EqualFold(c.Args[0], "EVAL") && s.unknownScripts[c.Args[1]] {
			c.IsRetry = true
			delete(s.unknownScripts, c.Args[1])
		}
		s.waitingCommands = append(s.waitingCommands, c)
	}
	return slices.Clip(s.waitingCommands[before:])
}

// ProtocolError returns the error that Redis would report for the client's input, or nil if the
// input is valid so far.
func (s *Stream) ProtocolError() error { return s.in.err }

// Reply takes bytes that the node sent at time now, and returns the commands whose replies they
// complete.
func (s *Stream) Reply(b []byte, now int64) []*Command {
	values, _ := s.out.Feed(b)
	var out []*Command
	for _, v := range values {
		if len(s.waitingCommands) == 0 || !s.waitingCommands[0].isLastReply(v) { // no command is waiting, or v is a push or part of a reply
			continue
		}
		first := s.waitingCommands[:1:1]
		c := first[0]
		s.waitingCommands = s.waitingCommands[1:]
		if v.Kind == '+' && v.Str == "QUEUED" {
			s.queuedCommands = append(s.queuedCommands, c)
			continue
		}
		c.answer(v, now)
		out = append(out, s.finishTransaction(c, now)...)
		if c.isUnknownScript() && c.Op != "" {
			if s.unknownScripts == nil {
				s.unknownScripts = map[string]bool{}
			}
			if script := s.scripts.lookup(c.Args[1]); script != nil {
				s.unknownScripts[script.text] = true
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

func (c *Command) answer(v Value, now int64) { c.Reply, c.AppliedAt, c.answered = v, now, true }

// finishTransaction returns the queued commands that end completes, if end is an EXEC or a DISCARD.
func (s *Stream) finishTransaction(end *Command, now int64) (all []*Command) {
	exec := strings.EqualFold(end.Args[0], "EXEC")
	if !exec && !strings.EqualFold(end.Args[0], "DISCARD") {
		return nil
	}
	all, s.queuedCommands = s.queuedCommands, nil
	for i, c := range all {
		v := Value{Kind: '-', Str: "the transaction was discarded"}
		if exec && i < len(end.Reply.Items) {
			v = end.Reply.Items[i]
		}
		c.answer(v, now)
	}
	return all
}

// isLastReply reports whether v completes the reply to c. In RESP2, pushed messages are arrays,
// too, and in RESP3 the reply to a subscription is one push per channel.
func (c *Command) isLastReply(v Value) bool {
	if v.Kind != '>' && v.Kind != '*' {
		return true
	}
	name, first, count := strings.ToLower(c.Args[0]), "", int64(0)
	if len(v.Items) == 3 {
		first, count = v.Items[0].Str, v.Items[2].Int
	}
	switch {
	case name == "subscribe" || name == "unsubscribe":
		if first != name {
			return false
		}
		c.pendingParts--
		return c.pendingParts == 0 || c.pendingParts < 0 && count == 0
	case v.Kind == '>':
		return false
	}
	return first != "message" || name != "ping" && name != "quit"
}

// Pending returns the commands that have no reply yet, for use when the connection ends.
func (s *Stream) Pending() []*Command { return slices.Concat(s.queuedCommands, s.waitingCommands) }

func (c *Command) isUnknownScript() bool {
	text, isErr := c.Reply.Error()
	return isErr && strings.HasPrefix(text, "NOSCRIPT") && strings.EqualFold(c.Args[0], "EVALSHA")
}

// IsMessage reports whether c counts as a message with operation op.
func (c *Command) IsMessage(op string) bool { return c.Op == op && !c.IsRetry && c.Op != "" }

// IsReply reports whether the reply to c counts as a reply to operation op. The reply that a script
// is unknown doesn't count, because the subsequent EVAL will be answered.
func (c *Command) IsReply(op string) bool { return c.Op == op && c.Op != "" && !c.isUnknownScript() }

// IsRecorded reports whether c is recorded in the history.
func (c *Command) IsRecorded() bool { return c.Op != "" && !c.isUnknownScript() }

// Events appends c's events to out, one per key. Their T is c's last stamp, and their Process is
// the link.
func (c *Command) Events(out []history.Event, link, node string) []history.Event {
	e := c.Event
	e.T, e.Process, e.Node = max(c.SentAt, c.AppliedAt, c.AnsweredAt), link, node
	if c.numKeys == 0 {
		return append(out, c.outcome(e, c.Reply))
	}
	for i, key := range c.Args[3 : 3+c.numKeys] {
		e.Key, e.Token = key, c.Args[3+c.numKeys+i]
		reply := c.Reply
		if reply.Kind == '*' && len(reply.Items) == c.numKeys {
			reply = reply.Items[i]
		}
		out = append(out, c.outcome(e, reply))
	}
	return out
}

// outcome returns e with the type, cause and fence that a reply implies.
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
	success := isSuccess(reply)
	switch {
	case c.returnsTTL:
		success = reply.Null
	case c.zeroIsOK:
		success = reply.Kind == ':' && reply.Int == 0
	}
	if success {
		e.Type = history.OK
		if c.Op == history.OpSet && reply.Kind == ':' {
			e.Fence = reply.Int // the acquire script returns the number of grants as the fencing token
		}
	}
	return e
}

// isSuccess reports whether a reply means success rather than refusal: OK, a positive number, a
// non-empty string, or an array that begins with a success.
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

// Value is a RESP2 or RESP3 value.
type Value struct {
	Kind  byte   // first byte: + - : $ * % ~ > _ , #
	Str   string // text, for kinds + - $ , #
	Int   int64  // number, for kind :
	Null  bool   // the value is _, $-1 or *-1
	Items []Value
}

// Error returns the text of v and whether v is an error reply.
func (v Value) Error() (string, bool) { return v.Str, v.Kind == '-' }

// Strings returns the items of v as strings, such as the words of a command.
func (v Value) Strings() []string {
	out := make([]string, len(v.Items))
	for i, item := range v.Items {
		out[i] = item.Str
		if item.Kind == ':' {
			out[i] = strconv.FormatInt(item.Int, 10)
		}
	}
	return out
}

// errShort means that a value is not complete yet.
var errShort = errors.New("incomplete")

const (
	maxReplyLen = 64 << 20
	maxBulkLen  = 512 << 20 // maximum length of a word in a command, as in Redis
	maxItems    = 1 << 20
	maxDepth    = 32
)

// Scanner splits a stream of bytes into values, however the stream is divided into chunks.
type Scanner struct {
	pending    []byte // beginning of an incomplete value
	err        error
	commands   [][]string // result of the last call to Commands
	wordBounds []int      // start and end of each word in a command
}

// Feed takes the next bytes and returns the values that they complete. After an error the stream
// can't be parsed further, and Feed keeps returning that error.
func (s *Scanner) Feed(b []byte) (out []Value, err error) {
	rest := s.prependPending(b)
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

// Commands is like Feed, but for commands, which it returns as lists of words. Errors have Redis's
// own texts. The outer slice is valid only until the next call.
func (s *Scanner) Commands(b []byte) ([][]string, error) {
	rest := s.prependPending(b)
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

// Split splits b after each value that ends in it. It does not split bytes that are not RESP.
func (s *Scanner) Split(b []byte) (parts [][]byte) {
	rest := s.prependPending(b)
	for len(rest) > 0 && s.err == nil {
		_, r, err := parse(rest, 0)
		if !s.check(err) {
			break
		}
		n := len(b) - len(r)
		parts, b, rest = append(parts, b[:n]), b[n:], r
	}
	s.savePending(rest)
	if len(b) > 0 {
		parts = append(parts, b)
	}
	return parts
}

// prependPending returns the bytes of the incomplete value, followed by b.
func (s *Scanner) prependPending(b []byte) []byte {
	if len(s.pending) == 0 {
		return b
	}
	s.pending = append(s.pending, b...)
	return s.pending
}

// check reports whether a value was complete, given the error from parsing it, and records parse
// errors.
func (s *Scanner) check(err error) bool {
	if err != nil && err != errShort {
		s.err = err
	}
	return err == nil
}

// savePending saves the bytes of an incomplete value for the next call.
func (s *Scanner) savePending(rest []byte) {
	if s.pending = s.pending[:0]; s.err == nil {
		s.pending = append(s.pending, rest...)
	}
}

// parseCommand parses the first command in b as Redis does, with Redis's own error texts. All words
// of a command share one string. Commands are parsed in the clients' many short-lived goroutines,
// which start with a small stack, so this function avoids deep calls.
func (s *Scanner) parseCommand(b []byte) (args []string, rest []byte, err error) {
	line, rest, err := splitLine(b)
	if err != nil {
		return nil, nil, err
	}
	if len(line) == 0 || line[0] != '*' {
		return strings.Fields(string(line)), rest, nil
	}
	n, ok := parseNumber(line[1:])
	if !ok || n > maxItems {
		return nil, nil, errors.New("invalid multibulk length")
	}
	if n <= 0 {
		return nil, rest, nil
	}
	s.wordBounds = s.wordBounds[:0]
	for range n {
		if line, rest, err = splitLine(rest); err != nil {
			return nil, nil, err
		}
		if len(line) == 0 || line[0] != '$' {
			return nil, nil, fmt.Errorf("expected '$', got '%s'", line[:min(1, len(line))])
		}
		size, ok := parseNumber(line[1:])
		if !ok || size < 0 || size > maxBulkLen {
			return nil, nil, errors.New("invalid bulk length")
		}
		if int64(len(rest)) < size+2 {
			return nil, nil, errShort
		}
		at := len(b) - len(rest)
		s.wordBounds, rest = append(s.wordBounds, at, at+int(size)), rest[size+2:]
	}
	text := string(b[s.wordBounds[0]:s.wordBounds[len(s.wordBounds)-1]])
	args = make([]string, n)
	for i := range args {
		args[i] = text[s.wordBounds[2*i]-s.wordBounds[0] : s.wordBounds[2*i+1]-s.wordBounds[0]]
	}
	return args, rest, nil
}

// splitLine splits b after its first line. As in Redis, a bare newline ends an inline command, too.
func splitLine(b []byte) (line, rest []byte, err error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if len(b) > 64<<10 {
			return nil, nil, errors.New("too big inline request")
		}
		return nil, nil, errShort
	}
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:], nil
}

// Append appends a command to out, encoded as clients do.
func Append(out []byte, args ...string) []byte {
	out = fmt.Appendf(out, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	return out
}

// parse parses the first value in b and returns it and the rest of b. The error is errShort if b
// ends inside the value. Inline commands ("PING\r\n") become arrays.
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
	n, ok := parseNumber(line[1:])
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
		return parseItems(v, n, rest, depth)
	case n > maxReplyLen:
		return Value{}, nil, fmt.Errorf("RESP string of %d bytes is too long", n)
	case int64(len(rest)) < n+2:
		return Value{}, nil, errShort
	}
	v.Str = string(rest[:n])
	return v, rest[n+2:], nil
}

var crlf = []byte("\r\n")

// parseNumber is like strconv.ParseInt, but doesn't allocate a string for a short number, and
// almost all numbers are short.
func parseNumber(b []byte) (n int64, ok bool) {
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

func parseItems(v Value, n int64, rest []byte, depth int) (Value, []byte, error) {
	if v.Kind == '%' {
		n *= 2
	}
	if n > maxItems {
		return Value{}, nil, fmt.Errorf("RESP array of %d items is too long", n)
	}
	v.Items = make([]Value, 0, min(n, 8)) // don't allocate for n items because n may be wrong
	for range n {
		item, r, err := parse(rest, depth+1)
		if err != nil {
			return Value{}, nil, err
		}
		v.Items, rest = append(v.Items, item), r
	}
	return v, rest, nil
}
