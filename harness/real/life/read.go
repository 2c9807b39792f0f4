package life

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lockpick/harness/resp"
)

// reads is the command that reads a key of each kind whose value is told.
var reads = map[string][]string{"string": {"GET"}, "hash": {"HGETALL"}, "list": {"LRANGE", "0", "-1"}}

// read reads each key of a server that tells already. What it did meanwhile to a key is
// either in what was read or in rest, for a line of our own says where in between it was.
func (n *node) read(s *stream) error {
	names, err := s.scan()
	if err != nil {
		return err
	}
	kinds, err := s.probe.ask(each(names, func(key string) [][]string { return [][]string{{"TYPE", key}} })...)
	if err != nil {
		return err
	}
	i := -1
	replies, err := s.probe.ask(each(names, func(key string) [][]string {
		i++
		get, known := reads[kinds[i].Str]
		if !known {
			get = []string{"EXISTS"}
		}
		get = append([]string{get[0], key}, get[1:]...)
		return [][]string{{"MULTI"}, {"PEXPIRETIME", key}, get, {"EXEC"}}
	})...)
	if err != nil {
		return err
	}
	for i, key := range names {
		both := replies[4*i+3].Items
		if len(both) != 2 {
			return fmt.Errorf("read %s: %s", key, replies[4*i+3].Str)
		}
		if is := stateOf(kinds[i].Str, both[0].Int, both[1]); is != nil {
			s.found[key] = found{state: is}
		}
	}
	told, err := s.until(func() int64 { return n.lives.now() })
	if err != nil {
		return err
	}
	n.place(s, told)
	return nil
}

func (s *stream) scan() (names []string, err error) {
	for cursor := "0"; ; {
		v, err := s.probe.tell("SCAN", cursor, "COUNT", "1000")
		if err != nil {
			return nil, err
		}
		if len(v.Items) != 2 {
			return nil, errors.New("SCAN answers no cursor")
		}
		seen := map[string]bool{}
		for _, key := range v.Items[1].Strings() {
			if !seen[key] { // it may name one twice
				names = append(names, key)
			}
			seen[key] = true
		}
		if cursor = v.Items[0].Str; cursor == "0" {
			return names, nil
		}
	}
}

func each(names []string, commands func(key string) [][]string) (all [][]string) {
	for _, key := range names {
		all = append(all, commands(key)...)
	}
	return all
}

// stateOf is a key as it was read; nil: there is none any more.
func stateOf(kind string, expires int64, v resp.Value) *state {
	s := &state{kind: kind, expires: max(expires, 0)}
	switch {
	case expires == noKey || v.Null || v.Kind == '-':
		return nil // or it is of another kind by now, and what was done to it is told
	case kind == "string":
		s.words = []string{v.Str}
	case v.Kind == '*':
		s.words = v.Strings()
	default:
		s.kind = ""
	}
	return s
}

// noKey is what PEXPIRETIME says of a key that is not there.
const noKey = -2

// until reads what is told until a line of our own that is sent now.
func (s *stream) until(now func() int64) (told []item, err error) {
	const word = "lockpick: read until here"
	if _, err := s.probe.tell("ECHO", word); err != nil {
		return nil, err
	}
	s.main.SetReadDeadline(time.Now().Add(answerBound))
	defer s.main.SetReadDeadline(time.Time{})
	for {
		v, err := s.main.next()
		if err != nil {
			return nil, fmt.Errorf("wait for its word: %w", err)
		}
		it, ok := itemOf(v, now())
		if !ok {
			continue
		}
		told = append(told, it)
		if it.from == s.own && len(it.args) == 2 && it.args[1] == word {
			s.at, s.clock, s.ahead = it.at, it.clock, it.clock-it.at
			return told, nil
		}
	}
}

// place finds what was told since each key was read.
func (n *node) place(s *stream, told []item) {
	scanned := 0
	for i, it := range told {
		switch {
		case it.from != s.own:
		case strings.EqualFold(it.args[0], "SCAN"):
			scanned = i
		case strings.EqualFold(it.args[0], "PEXPIRETIME"):
			if f, ok := s.found[it.args[1]]; ok {
				f.place = i
				s.found[it.args[1]] = f
			}
		}
	}
	for i, it := range told {
		f, found := s.found[it.key]
		seen := found && i < f.place || !found && n.keys[it.key] != nil && i < scanned
		if it.args != nil || !seen {
			s.rest = append(s.rest, it)
		}
	}
}
