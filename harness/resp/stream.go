// Package resp reads lock commands off the wire: what a client asks of a node,
// and what the node answers, for the simulated network and for the real links
// alike.
//
// A Stream follows one connection. It is fed the bytes of both directions and
// yields Commands, each with its three stamps: sent (the request entered the
// link), applied (the node had answered) and answered (the answer left for the
// client). A Command becomes one event of the history, or one for each key where a script
// does the same to several.
//
// Deliberately missing: sockets, faults and the meaning of a reply to the lock.
package resp

import (
	"slices"
	"strings"

	"lockpick/harness/history"
)

// Command is one command on one connection.
type Command struct {
	history.Event // what it says and when; Op is "" if it is of no interest
	Args          []string
	// Again marks the EVAL that repeats an EVALSHA which the node did not know; the
	// pair is one message to those who count.
	Again    bool
	Reply    Value
	answered bool
	tells    bool // no answer is yes, for else it is how long the lock is still taken
	zero     bool // 0 is yes, for else it is why not
	keys     int  // its script does the same to so many keys, each with its token; 0: to the first
	parts    int  // of a reply in several: so many are to come; 0: until nothing is subscribed to
}

// Stream follows one connection between a client and a node.
type Stream struct {
	scripts *Scripts
	in, out Scanner
	waiting []*Command
	queued  []*Command      // of a transaction that is open
	retry   map[string]bool // scripts that the node did not know
}

// NewStream returns a stream. All streams of a run share scripts.
func NewStream(scripts *Scripts) *Stream { return &Stream{scripts: scripts} }

// Request takes bytes that the client sent at an instant and returns the
// commands that are complete now.
func (s *Stream) Request(b []byte, now int64) []*Command {
	commands, _ := s.in.Commands(b) // what is no RESP is of no interest, and passes
	before := len(s.waiting)
	for _, args := range commands {
		if len(args) == 0 {
			continue // to which there is no answer
		}
		c := &Command{Args: args, Event: history.Event{Sent: now}, parts: len(args) - 1}
		c.classify(s.scripts)
		if len(c.Args) > 1 && strings.EqualFold(c.Args[0], "EVAL") && s.retry[c.Args[1]] {
			c.Again = true
			delete(s.retry, c.Args[1])
		}
		s.waiting = append(s.waiting, c)
	}
	return slices.Clip(s.waiting[before:])
}

// Wrong is what a Redis says of what the client sent; nil: it is RESP so far.
func (s *Stream) Wrong() error { return s.in.err }

// Reply takes bytes that the node sent at an instant and returns the commands
// whose replies are complete now.
func (s *Stream) Reply(b []byte, now int64) []*Command {
	values, _ := s.out.Feed(b)
	var out []*Command
	for _, v := range values {
		if len(s.waiting) == 0 || !s.waiting[0].answeredBy(v) { // a push, or an answer to nothing
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
			if s.retry == nil {
				s.retry = map[string]bool{}
			}
			if known := s.scripts.lookup(c.Args[1]); known != nil {
				s.retry[known.text] = true
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

// executed are the commands that an EXEC or a DISCARD answers besides itself.
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

// answeredBy says whether a value is the last that answers the command. What is pushed is an
// array in RESP2; a push in RESP3 answers those who subscribe, for each channel once.
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
		c.parts--
		return c.parts == 0 || c.parts < 0 && of == 0
	case v.Kind == '>':
		return false
	}
	return first != "message" || name != "ping" && name != "quit"
}

// Waiting returns the commands that have no reply yet, as when the connection ends.
func (s *Stream) Waiting() []*Command { return slices.Concat(s.queued, s.waiting) }

func (c *Command) unknownScript() bool {
	text, isErr := c.Reply.Error()
	return isErr && strings.HasPrefix(text, "NOSCRIPT") && strings.EqualFold(c.Args[0], "EVALSHA")
}

// Counts reports whether c is a message to those who count messages of a kind.
func (c *Command) Counts(op string) bool { return c.Op == op && !c.Again && c.Op != "" }

// CountsReply is Counts for the reply: a node that does not know a script has not answered yet.
func (c *Command) CountsReply(op string) bool { return c.Op == op && c.Op != "" && !c.unknownScript() }

// Recorded reports whether the history has an event for c.
func (c *Command) Recorded() bool { return c.Op != "" && !c.unknownScript() }

// Facts appends c as events to out, one for each key that it is about, seen at its last stamp.
// Their process is the link.
func (c *Command) Facts(out []history.Event, link, node string) []history.Event {
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

// outcome is e with what a reply says of it.
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
	done := yes(reply)
	switch {
	case c.tells:
		done = reply.Null
	case c.zero:
		done = reply.Kind == ':' && reply.Int == 0
	}
	if done {
		e.Type = history.OK
		if c.Op == history.OpSet && reply.Kind == ':' {
			e.Fence = reply.Int // the acquire script answers the grant's count
		}
	}
	return e
}

// yes reads a reply as the node's yes or no: OK, a positive number, or an array
// that begins with one.
func yes(v Value) bool {
	switch v.Kind {
	case '+':
		return true
	case ':':
		return v.Int > 0
	case '*':
		return len(v.Items) > 0 && yes(v.Items[0])
	}
	return !v.Null && v.Str != ""
}
