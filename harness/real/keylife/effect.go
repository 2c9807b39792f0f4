package keylife

import (
	"slices"
	"strconv"
	"strings"
)

// command is a command that was executed, with the instant by which relative expiries
// count, in milliseconds of the node's clock.
type command struct {
	args []string
	now  int64
}

// effect is what a key is after a command, which the node says did `done` to it. Whether
// a condition of the command's held is in that word: there is none where it did not.
// before gives what keys were before the command.
func (c command) effect(key, done string, before func(key string) *state) *state {
	switch done {
	case "del", "rename_from", "move_from":
		return nil
	case "rename_to", "copy_to":
		return before(c.args[1])
	}
	was := state{}
	if s := before(key); s != nil {
		was = *s
	}
	switch name := strings.ToLower(c.args[0]); name {
	case "expire", "pexpire", "expireat", "pexpireat":
		was.expires = c.expiry(strings.TrimPrefix(strings.ToUpper(name), "P")[len("EXPIRE"):], name[0] == 'p', c.word(2))
		return &was
	case "persist":
		was.expires = 0
		return &was
	case "getex":
		c.expires(&was, 2)
		return &was
	case "hset", "hmset", "hsetnx", "hincrby", "hdel":
		return c.hash(name, was)
	case "lpush", "rpush", "lpushx", "rpushx", "lpop", "rpop":
		return c.list(name, was)
	default:
		return c.text(name, key, was)
	}
}

// text is the effect of what makes or changes a string.
func (c command) text(name, key string, was state) *state {
	made := &state{kind: "string"}
	switch name {
	case "set":
		made.words, made.expires = []string{c.word(2)}, 0
		if keepsExpiry(c.args[3:]) {
			made.expires = was.expires
		}
		c.expires(made, 3)
	case "setnx", "getset":
		made.words = []string{c.word(2)}
	case "setex", "psetex":
		made.words, made.expires = []string{c.word(3)}, c.expiry("", name[0] == 'p', c.word(2))
	case "mset", "msetnx":
		for i := 1; i+1 < len(c.args); i += 2 {
			if c.args[i] == key {
				made.words = []string{c.args[i+1]}
			}
		}
	case "append":
		made.words, made.expires = []string{was.text() + c.word(2)}, was.expires
	case "incr", "decr", "incrby", "decrby":
		made.words, made.expires = []string{c.sum(name, was.text())}, was.expires
	default:
		return &state{expires: was.expires} // somebody else's command
	}
	return made
}

func (c command) word(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

func keepsExpiry(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return strings.EqualFold(o, "KEEPTTL") })
}

// expires reads EX, PX, EXAT, PXAT or PERSIST among a command's options.
func (c command) expires(s *state, from int) {
	for i := from; i < len(c.args); i++ {
		switch word := strings.ToUpper(c.args[i]); word {
		case "EX", "PX", "EXAT", "PXAT":
			s.expires = c.expiry(word[2:], word[0] == 'P', c.word(i+1))
			return
		case "PERSIST":
			s.expires = 0
			return
		}
	}
}

// expiry is when something expires: at an instant or after a time, in milliseconds or
// seconds.
func (c command) expiry(at string, millis bool, when string) int64 {
	t, _ := strconv.ParseInt(when, 10, 64) // the node has read it
	if !millis {
		t *= 1000
	}
	if at == "" {
		t += c.now
	}
	return t
}

func (c command) sum(name, was string) string {
	by := int64(1)
	if strings.HasSuffix(name, "by") {
		by, _ = strconv.ParseInt(c.word(2), 10, 64)
	}
	if strings.HasPrefix(name, "decr") {
		by = -by
	}
	n, _ := strconv.ParseInt(was, 10, 64)
	return strconv.FormatInt(n+by, 10)
}

// hash is the effect of what changes a hash; one that is empty is gone, which the node says.
func (c command) hash(name string, was state) *state {
	now := state{kind: "hash", words: slices.Clone(was.words), expires: was.expires}
	if name == "hdel" {
		for _, field := range c.args[2:] {
			if i := now.field(field); i >= 0 {
				now.words = slices.Delete(now.words, i, i+2)
			}
		}
		return &now
	}
	for i := 2; i+1 < len(c.args); i += 2 {
		at, value := now.field(c.args[i]), c.args[i+1]
		if name == "hincrby" {
			n := int64(0)
			if at >= 0 {
				n, _ = strconv.ParseInt(now.words[at+1], 10, 64)
			}
			by, _ := strconv.ParseInt(value, 10, 64)
			value = strconv.FormatInt(n+by, 10)
		}
		if at < 0 {
			now.words = append(now.words, c.args[i], value)
		} else {
			now.words[at+1] = value
		}
	}
	return &now
}

// field is where a hash has a field; −1: nowhere.
func (s *state) field(name string) int {
	for i := 0; i < len(s.words); i += 2 {
		if s.words[i] == name {
			return i
		}
	}
	return -1
}

func (c command) list(name string, was state) *state {
	now := state{kind: "list", words: slices.Clone(was.words), expires: was.expires}
	switch {
	case strings.HasPrefix(name, "rpush"):
		now.words = append(now.words, c.args[2:]...)
	case strings.HasPrefix(name, "lpush"):
		for _, w := range c.args[2:] {
			now.words = slices.Insert(now.words, 0, w)
		}
	default:
		count := 1
		if len(c.args) > 2 {
			count, _ = strconv.Atoi(c.args[2])
		}
		count = min(count, len(now.words))
		if name == "lpop" {
			now.words = now.words[count:]
		} else {
			now.words = now.words[:len(now.words)-count]
		}
	}
	return &now
}
