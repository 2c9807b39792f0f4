//go:build linux

package keylife_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const (
	extendScript  = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`
	swappedScript = `return redis.call("set",ARGV[2],KEYS[1],"PX",ARGV[1],"NX")`
	acquireScript = `if (redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end return redis.call('pttl', KEYS[1])`
	unlockScript  = `if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end local c = redis.call('hincrby', KEYS[1], ARGV[2], -1) if c > 0 then redis.call('pexpire', KEYS[1], ARGV[1]) return 0 else redis.call('del', KEYS[1]) return 1 end`
)

// randomCommand returns a random command that a lock might send, and the key that it accesses.
func randomCommand(r *rand.Rand) (key string, command []string) {
	key = []string{"{a}:lock", "lock-b"}[r.IntN(2)]
	token, ttl := fmt.Sprint("t", r.IntN(4)), fmt.Sprint(1+r.IntN(40))
	h, l, n := key+"h", key+"l", key+"n"
	all := [][]string{
		{key, "SET", key, token, "NX", "PX", ttl},
		{key, "SET", key, token, "NX", "PXAT", fmt.Sprint(time.Now().UnixMilli() + int64(r.IntN(40)))},
		{key, "SET", key, token, "EX", "1"},
		{key, "SET", key, token, "XX", "GET", "KEEPTTL"},
		{key, "SETNX", key, token},
		{key, "GETSET", key, token},
		{key, "PSETEX", key, ttl, token},
		{key, "MSET", key, token, "other", "x"},
		{key, "APPEND", key, token},
		{key, "GETDEL", key},
		{key, "GETEX", key, "PX", ttl},
		{key, "GETEX", key, "PERSIST"},
		{key, "PERSIST", key},
		{key, "RENAME", "other", key},
		{key, "COPY", "other", key},
		{key, "EVAL", releaseScript, "1", key, token},
		{key, "EVAL", extendScript, "1", key, token, ttl},
		{key, "EVAL", swappedScript, "1", token, ttl, key},
		{key, "PEXPIRE", key, ttl, "GT"},
		{key, "PEXPIRE", key, "100", "LT"},
		{key, "EXPIRE", key, "0"},
		{key, "DEL", key},
		{key, "UNLINK", key, "other"},
		{h, "EVAL", acquireScript, "1", h, ttl, token},
		{h, "EVAL", unlockScript, "1", h, ttl, token},
		{h, "HSET", h, token, ttl, "g", "1"},
		{h, "HDEL", h, token, "g"},
		{l, "RPUSH", l, token, ttl},
		{l, "LPUSH", l, token, ttl},
		{l, "LPOP", l},
		{l, "RPOP", l, "2"},
		{l, "PEXPIRE", l, ttl},
		{n, "INCR", n},
		{n, "DECRBY", n, "3"},
		{n, "SET", n, "7", "KEEPTTL"},
		{n, "PEXPIREAT", n, fmt.Sprint(time.Now().UnixMilli() + int64(r.IntN(40)))},
	}
	c := all[r.IntN(len(all))]
	return c[0], c[1:]
}

// keyState is the state of a key, as read from the node or recorded.
type keyState struct {
	key, value string
	expires    int64
	exists     bool
}

func TestRecordedStateMatchesNode(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	c, p := b.client("c1"), b.directClient()
	r := rand.New(rand.NewPCG(1, 2))
	readCommands := map[byte][]string{'h': {"HGETALL"}, 'l': {"LRANGE", "0", "-1"}}
	var nodeStates []keyState
	commands := 3000
	if testing.Short() {
		commands = 1000
	}
	for i := range commands {
		key, command := randomCommand(r)
		c.do(command...)
		readCommand := readCommands[key[len(key)-1]]
		if readCommand == nil {
			readCommand = []string{"GET"}
		}
		// The SET marks this command's position among the facts.
		p.do("MULTI")
		p.do("PEXPIRETIME", key)
		p.do(append([]string{readCommand[0], key}, readCommand[1:]...)...)
		p.do("SET", "mark", fmt.Sprint(i))
		results := p.do("EXEC").Items
		state := keyState{key: key, expires: results[0].Int, exists: results[0].Int != -2, value: results[1].Str}
		if results[1].Kind == '*' {
			state.value = strings.Join(results[1].Strings(), " ")
		}
		nodeStates = append(nodeStates, state)
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond)
		}
	}
	recordedStates := map[string]keyState{}
	lateness := map[int64]int{}
	mismatches := 0
	for _, e := range b.allFacts() {
		l := e.Life
		if e.Key != "mark" {
			recordedStates[e.Key] = keyState{e.Key, l.Value, l.Expiry / 1e6, l.Kind == "set" || l.Kind == "changed" || l.Kind == "expiry"}
			continue
		}
		var i int
		fmt.Sscan(l.Value, &i)
		want, got := nodeStates[i], recordedStates[nodeStates[i].key]
		delay := got.expires - want.expires
		if want.expires == -1 {
			delay = got.expires
		}
		if want.exists && got.exists {
			lateness[delay]++
		}
		if want.exists != got.exists || want.exists && (want.value != got.value || delay < 0 || delay > 20) {
			if mismatches++; mismatches < 6 {
				t.Errorf("after %d commands: state %+v, recorded %+v", i+1, want, got)
			}
		}
	}
	if t.Logf("number of expiries by lateness in ms: %v", lateness); lateness[0] < commands/3 || lateness[0]+lateness[1] < commands/2 {
		t.Error("too many late expiries, or too few keys")
	}
}
