package keylife

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/resp"
)

// script reads each key with its kind, when it expires, and what it holds if that is told,
// all at one instant of the node's order: its last command's line says where that is.
const script = `
local all, get = {}, {string = {'GET'}, hash = {'HGETALL'}, list = {'LRANGE', '0', '-1'}}
for i, key in ipairs(redis.call('KEYS', '*')) do
	local kind = redis.call('TYPE', key).ok
	local how, holds = get[kind], ''
	if how then holds = redis.call(how[1], key, unpack(how, 2)) end
	all[i] = {key, kind, redis.call('PEXPIRETIME', key), holds}
end
redis.call('ECHO', ARGV[1])
return all`

// read reads each key of a server that tells already. What it told before the script's last
// line is in what was read; the rest is still to be taken.
func (n *node) read(s *stream) error {
	const word = "lockpick: read until here"
	all, err := s.probe.tell("EVAL_RO", script, "0", word)
	if err != nil {
		return err
	}
	for _, v := range all.Items {
		if k := v.Items; len(k) == 4 {
			s.found[k[0].Str] = stateOf(k[1].Str, k[2].Int, k[3])
		}
	}
	s.main.SetReadDeadline(time.Now().Add(answerBound))
	defer s.main.SetReadDeadline(time.Time{})
	for {
		v, err := s.main.next()
		if err != nil {
			return fmt.Errorf("wait for its word: %w", err)
		}
		it, ok := itemOf(v, n.lives.now())
		if ok && it.from == byScript && len(it.args) == 2 && it.args[1] == word {
			s.at, s.clock, s.ahead = it.at, it.clock, it.clock-it.at
			return nil
		}
	}
}

// stateOf is a key as it was read.
func stateOf(kind string, expires int64, v resp.Value) *state {
	s := &state{kind: kind, expires: max(expires, 0)}
	switch kind {
	case "string":
		s.words = []string{v.Str}
	case "hash", "list":
		s.words = v.Strings()
	default:
		s.kind = ""
	}
	return s
}

// compare tells what has become of each key while nobody told: by the end of a life, or
// unseen in the same life, where why is "". The node's mutex is held, and it is not read.
func (n *node) compare(s *stream, why string) {
	all := maps.Clone(n.keys)
	maps.Copy(all, s.found)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, after := n.keys[key], s.found[key]
		f := fact{key: key, after: after, bounds: bounds{s.at, min(n.told, s.at), s.at}, clock: s.clock, why: why}
		f.what = n.fate(key, before, after, s.clock/1e6, why)
		switch {
		case f.what == "":
			n.keys[key] = after // an expiry as it is, and not as it was replayed
			continue
		case f.what == history.KeyExpired:
			f.why = ""
		}
		n.become(f)
	}
}

// fate says what has become of a key.
func (n *node) fate(key string, before, after *state, now int64, why string) history.Change {
	switch {
	case after == nil && before.expires != 0 && now >= before.expires:
		return history.KeyExpired
	case why == "" && before != nil && after != nil && after.is(before):
		return ""
	case why == "":
		return change(before, after)
	case after == nil:
		return history.KeyLost
	case before == nil:
		return history.KeyAppeared
	case after.is(before):
		return history.KeyKept
	case slices.ContainsFunc(n.past[key], after.is):
		return history.KeyReverted
	}
	return change(before, after)
}
