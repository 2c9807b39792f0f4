package node

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Reply types, besides int64, string, []any and nil.
type (
	status    string   // +OK
	failure   string   // -ERR …
	verbatim  string   // human-readable text
	pairs     []any    // a map in RESP3, an array in RESP2
	push      []any    // an out-of-band push in RESP3, an array in RESP2
	sequence  []any    // several replies in sequence
	nullArray struct{} // a null array
	setReply  []any    // a set in RESP3, an array in RESP2
)

func appendReply(out []byte, v any, resp3 bool) []byte {
	switch v := v.(type) {
	case nil:
		if resp3 {
			return append(out, "_\r\n"...)
		}
		return append(out, "$-1\r\n"...)
	case status:
		return appendLine(out, '+', string(v))
	case failure:
		return appendLine(out, '-', string(v))
	case int64:
		return appendCount(out, ':', v)
	case string:
		return appendBulk(out, '$', v)
	case verbatim:
		if resp3 {
			return appendBulk(out, '=', "txt:"+string(v))
		}
		return appendBulk(out, '$', string(v))
	case []any:
		return appendAggregate(out, '*', v, resp3)
	case pairs:
		if resp3 {
			return appendItems(appendCount(out, '%', int64(len(v)/2)), v, resp3)
		}
		return appendItems(appendCount(out, '*', int64(len(v))), v, resp3)
	case push:
		return appendAggregate(out, '>', v, resp3)
	case setReply:
		return appendAggregate(out, '~', v, resp3)
	case sequence:
		return appendItems(out, v, resp3)
	case nullArray:
		if resp3 {
			return append(out, "_\r\n"...)
		}
		return append(out, "*-1\r\n"...)
	}
	panic(fmt.Sprintf("unexpected reply type %T", v))
}

// appendAggregate writes items as the given RESP3 type, or as an array in RESP2.
func appendAggregate(out []byte, kind byte, items []any, resp3 bool) []byte {
	if !resp3 {
		kind = '*'
	}
	return appendItems(appendCount(out, kind, int64(len(items))), items, resp3)
}

func appendLine(out []byte, kind byte, s string) []byte {
	return append(append(append(out, kind), joinLines(s)...), '\r', '\n')
}

func appendCount(out []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(out, kind), n, 10), '\r', '\n')
}

func appendBulk(out []byte, kind byte, s string) []byte {
	return append(append(appendCount(out, kind, int64(len(s))), s...), '\r', '\n')
}

func appendItems(out []byte, items []any, resp3 bool) []byte {
	for _, v := range items {
		out = appendReply(out, v, resp3)
	}
	return out
}

// joinLines replaces line breaks with spaces, since a line break would end a reply early.
func joinLines(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// plainReply converts a reply to the types that Do returns.
func plainReply(v any) (any, error) {
	switch v := v.(type) {
	case failure:
		return nil, errors.New(string(v))
	case status:
		return string(v), nil
	case verbatim:
		return string(v), nil
	case pairs:
		return plainReply([]any(v))
	case push:
		return plainReply([]any(v))
	case setReply:
		return plainReply([]any(v))
	case sequence:
		return plainReply([]any(v))
	case nullArray:
		return nil, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			p, err := plainReply(item)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	}
	return v, nil
}

// transaction holds the commands that a session has queued since MULTI.
type transaction struct {
	queue   [][]string
	aborted bool // a command could not be queued
}

// abort makes the EXEC of an open transaction fail.
func (s *Session) abort() {
	if s.multi != nil {
		s.multi.aborted = true
	}
}

func multi(_ *Node, s *Session, _ []string) any {
	if s.multi != nil {
		return failure("ERR MULTI calls can not be nested")
	}
	s.multi = &transaction{}
	return ok
}

func discard(n *Node, s *Session, _ []string) any {
	if s.multi == nil {
		return failure("ERR DISCARD without MULTI")
	}
	s.multi = nil
	s.unwatchAll()
	return ok
}

// execTransaction implements EXEC. All commands see the same clock reading and form a single record
// on disk.
func execTransaction(n *Node, s *Session, _ []string) any {
	t := s.multi
	if t == nil {
		return failure("ERR EXEC without MULTI")
	}
	for _, key := range s.watchedKeys {
		n.lookup(key) // an expired key counts as changed
	}
	watchChanged := s.watchChanged
	s.unwatchAll()
	s.multi = nil
	switch {
	case t.aborted:
		return failure("EXECABORT Transaction discarded because of previous errors.")
	case watchChanged:
		return nullArray{}
	}
	s.inExec = true
	defer func() { s.inExec = false }()
	// Each reply is written separately, because messages published by a command go in between.
	s.out = appendCount(s.out, '*', int64(len(t.queue)))
	for _, args := range t.queue {
		name := strings.ToLower(args[0])
		reply := n.run(s, name, n.commands[name], args)
		s.out = appendReply(s.out, reply, s.resp3)
	}
	return sequence{}
}

func watch(n *Node, s *Session, a []string) any {
	if s.multi != nil {
		return failure("ERR WATCH inside MULTI is not allowed")
	}
	for _, key := range a[1:] {
		n.lookup(key)
		s.watchedKeys = append(s.watchedKeys, key)
		if n.watchers[key] == nil {
			n.watchers[key] = map[*Session]bool{}
		}
		n.watchers[key][s] = true
	}
	return ok
}

func unwatch(n *Node, s *Session, _ []string) any {
	s.unwatchAll()
	return ok
}

func (s *Session) unwatchAll() {
	for _, key := range s.watchedKeys {
		if delete(s.node.watchers[key], s); len(s.node.watchers[key]) == 0 {
			delete(s.node.watchers, key)
		}
	}
	s.watchedKeys, s.watchChanged = nil, false
}
