package resp

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockpick/harness/history"
)

// command encodes a command as clients do.
func command(w ...string) string { return string(Append(nil, w...)) }

const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

// Scripts that use a hash field, as in Redisson. The TTL is the first argument, and a refusal returns
// the remaining time.
const (
	fieldSet = `if (redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`
	fieldExpire = `if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]); return 1; end; return 0;`
	fieldDelete = `if (redis.call('hexists', KEYS[1], ARGV[2]) == 0) then return nil; end; local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[1]); return 0; else redis.call('del', KEYS[1]); return 1; end;`
)

func TestClassify(t *testing.T) {
	extend := `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`
	countingSet := `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) end return 0`
	raiseFence := `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[2], ARGV[2]) return 1 end return 0`
	setWithOffset := `if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then return redis.status_reply("OK") end local offset = tonumber(ARGV[2])`
	setAtInstant := `local r = redis.call("SET",KEYS[1],ARGV[1],"NX","PXAT",ARGV[2]);redis.call("GET",KEYS[1]);return r`
	extendAt := `if redis.call("GET",KEYS[1]) == ARGV[1] then local r = redis.call("PEXPIREAT",KEYS[1],ARGV[2]);redis.call("GET",KEYS[1]);return r end;return 0`
	getThenSet := `if redis.call('get', KEYS[1]) then return 0 end redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1`
	setExisting := `return redis.call('set', KEYS[1], ARGV[1], 'XX', 'PX', ARGV[2])`
	setMissing := `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[1]) return redis.call('pexpire', KEYS[1], ARGV[2]) end`
	queueSet := `if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('del', KEYS[1] .. ':' .. ARGV[1]) redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1`
	setIfHeld := `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'xx', 'px', ARGV[2]) end return 0`
	refuseOthers := `for _, key in ipairs(KEYS) do if redis.call("get", key) ~= ARGV[1] then return 0 end end redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1`
	ticketSet := `redis.call('hset', KEYS[2], ARGV[1], ARGV[3]) if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('hdel', KEYS[2], ARGV[1]) return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`
	latchRelease := `if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end redis.call('hincrby', KEYS[1], ARGV[3], -1) redis.call('del', KEYS[1]) redis.call('set', KEYS[3], 1, 'px', ARGV[5])`
	counter := `redis.call('hincrby', KEYS[1], ARGV[1], 1) return redis.call('pexpire', KEYS[1], ARGV[2])`
	wakeWaiters := `if redis.call("get", KEYS[1]) ~= ARGV[1] then return 1 else redis.call("del", KEYS[2]) redis.call("lpush", KEYS[2], 1) redis.call("pexpire", KEYS[2], ARGV[2]) redis.call("del", KEYS[1]) return 0 end`
	extendSeconds := `if redis.call("get", KEYS[1]) ~= ARGV[1] then return 1 elseif redis.call("ttl", KEYS[1]) < 0 then return 2 else redis.call("expire", KEYS[1], ARGV[2]) return 0 end`
	releaseAnyHolder := `redis.call('del', KEYS[2]) redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], ARGV[2]) return redis.call('del', KEYS[1])`
	write := marker + "write\nreturn {1, 2}"
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"SET", "k", "tok", "NX", "PX", "10000"}, "set k tok 10000000000 0"},
		{[]string{"set", "k", "tok", "ex", "3", "nx"}, "set k tok 3000000000 0"},
		{[]string{"SETNX", "k", "tok"}, "set k tok 0 0"},
		{[]string{"DEL", "k"}, "release k  0 0"},
		{[]string{"PEXPIRE", "k", "500"}, "extend k  500000000 0"},
		{[]string{"EVAL", compareAndDelete, "1", "k", "tok"}, "release k tok 0 0"},
		{[]string{"EVAL", queueSet, "1", "k", "tok", "500"}, "set k tok 500000000 0"},
		{[]string{"EVAL", setIfHeld, "1", "k", "tok", "500"}, "extend k tok 500000000 0"},
		{[]string{"EVAL", refuseOthers, "1", "k", "tok", "500"}, "extend k tok 500000000 0"},
		{[]string{"EVAL", ticketSet, "2", "k", "k:queue", "tok", "500", "7"}, "set k tok 500000000 0"},
		{[]string{"EVAL", latchRelease, "3", "k", "channel", "latch", "0", "500", "tok", "publish", "900"}, "release k tok 0 0"},
		{[]string{"EVAL", "-- lockpick:set\n" + counter, "1", "k", "tok", "500"}, "set k tok 500000000 0"},
		{[]string{"EVAL", "-- lockpick:release\n" + counter, "1", "k", "tok"}, "release k tok 0 0"},
		{[]string{"EVAL", extend, "1", "k", "tok", "500"}, "extend k tok 500000000 0"},
		{[]string{"EVAL", countingSet, "2", "k", "k:fence", "tok", "500"}, "set k tok 500000000 0"},
		{[]string{"EVAL", raiseFence, "2", "k", "k:fence", "tok", "7"}, "fence k tok 0 7"},
		{[]string{"EVAL", write, "1", "resource:k", "c1/1:write1", "c1/1", "3", "9", "tok", "none"}, "write resource:k tok 0 9"},
		{[]string{"EVAL", wakeWaiters, "2", "k", "k:signal", "tok", "1000"}, "release k tok 0 0"},
		{[]string{"EVAL", extendSeconds, "2", "k", "k:signal", "tok", "7"}, "extend k tok 7000000000 0"},
		{[]string{"EVAL", releaseAnyHolder, "2", "k", "k:signal", "", "1000"}, "release k  0 0"},
		{[]string{"EVAL", setWithOffset, "1", "k", "tok", "40", "500"}, "set k tok 500000000 0"},
		{[]string{"EVAL", getThenSet, "1", "k", "tok", "500"}, "set k tok 500000000 0"},
		{[]string{"EVAL", setExisting, "1", "k", "tok", "500"}, "extend k tok 500000000 0"},
		{[]string{"EVAL", setMissing, "1", "k", "tok", "500"}, "extend k tok 500000000 0"},
		{[]string{"EVAL", fieldSet, "1", "k", "500", "tok"}, "set k tok 500000000 0"},
		{[]string{"EVAL", fieldExpire, "1", "k", "500", "tok"}, "extend k tok 500000000 0"},
		{[]string{"EVAL", fieldDelete, "1", "k", "500", "tok"}, "release k tok 0 0"},
		{[]string{"EVAL", setAtInstant, "1", "k", "tok", "1700000000000"}, "set k tok 0 0"},
		{[]string{"EVAL", extendAt, "1", "k", "tok", "1700000000000"}, "extend k tok 0 0"},
		{[]string{"PEXPIREAT", "k", "1700000000000"}, "extend k  0 0"},
		{[]string{"EVALSHA", "0123", "1", "k", "tok", "500"}, "  tok 0 0"}, // for an unknown script, the first argument is assumed to be the token
		{[]string{"GET", "k"}, "   0 0"},
		{[]string{"PING"}, "   0 0"},
		{[]string{"EVAL", "return 1", "0"}, "   0 0"},
		{[]string{"EVAL", compareAndDelete, "-7", "k", "tok"}, "   0 0"},
	} {
		cmds := NewStream(&Scripts{}).Request([]byte(command(c.words...)), 1)
		if len(cmds) != 1 {
			t.Fatalf("%v: %d commands", c.words, len(cmds))
		}
		g := cmds[0]
		if got := fmt.Sprintf("%s %s %s %d %d", g.Op, g.Key, g.Token, g.TTL, g.Fence); got != c.want {
			t.Errorf("%v: got %q, want %q", c.words, got, c.want)
		}
	}
}

// For scripts that return an exit code, 0 means success.
func TestZeroMeansSuccess(t *testing.T) {
	for script, want := range map[string][2]history.Type{
		compareAndDelete: {history.Fail, history.OK},
		`if redis.call("get", KEYS[1]) ~= ARGV[1] then return 1 else redis.call("del", KEYS[1]) return 0 end`:         {history.OK, history.Fail},
		`if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 else redis.call("del", KEYS[1]) return 1 end`:         {history.Fail, history.OK},
		`if redis.call("get", KEYS[1]) ~= ARGV[1] then return 3 end redis.call("pexpire", KEYS[1], ARGV[2]) return 0`: {history.OK, history.Fail},
		`if redis.call("get", KEYS[1]) ~= ARGV[1] then return -1 end return redis.call("pexpire", KEYS[1], ARGV[2])`:  {history.Fail, history.OK},
	} {
		for n, want := range want {
			s := NewStream(&Scripts{})
			s.Request([]byte(command("EVAL", script, "1", "k", "tok", "500")), 1)
			if got := s.Reply([]byte(fmt.Sprintf(":%d\r\n", n)), 2)[0].Events(nil, "c1-n1", "n1")[0].Type; got != want {
				t.Errorf("%s: reply %d means %s, want %s", script, n, got, want)
			}
		}
	}
}

func TestChunkingDoesNotMatter(t *testing.T) {
	in := command("SET", "k", "a\r\nb", "NX", "PX", "5") + "PING\r\n" + command("EVAL", compareAndDelete, "1", "k", "x")
	out := "+OK\r\n" + ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n" + "+PONG\r\n" + ":0\r\n"
	want := transcript(in, out, len(in), len(out))
	for n := 1; n < 40; n++ {
		if got := transcript(in, out, n, (n*7)%13+1); got != want {
			t.Fatalf("chunks of %d: got\n%s\nwant\n%s", n, got, want)
		}
	}
}

func transcript(in, out string, a, b int) string {
	s, text := NewStream(&Scripts{}), ""
	for i := 0; i < len(in); i += a {
		for _, c := range s.Request([]byte(in[i:min(i+a, len(in))]), 1) {
			text += fmt.Sprintf("ask %q %s\n", c.Args, c.Op)
		}
	}
	for i := 0; i < len(out); i += b {
		for _, c := range s.Reply([]byte(out[i:min(i+b, len(out))]), 2) {
			text += fmt.Sprintf("answer %s %+v\n", c.Args[0], c.Events(nil, "c1-n1", "n1")[0].Type)
		}
	}
	return text
}

// A script that the node doesn't know is sent twice, but counts as one message.
func TestUnknownScriptCountsOnce(t *testing.T) {
	scripts := &Scripts{}
	scripts.add(compareAndDelete)
	sha := ""
	for k := range scripts.bySHA {
		sha = k
	}
	s := NewStream(scripts)
	first := s.Request([]byte(command("EVALSHA", sha, "1", "k", "tok")), 1)[0]
	s.Reply([]byte("-NOSCRIPT No matching script.\r\n"), 2)
	second := s.Request([]byte(command("EVAL", compareAndDelete, "1", "k", "tok")), 3)[0]
	s.Reply([]byte(":1\r\n"), 4)
	third := s.Request([]byte(command("EVAL", compareAndDelete, "1", "k", "tok")), 5)[0]
	got := fmt.Sprint(first.IsMessage(history.OpRelease), first.IsReply(history.OpRelease), first.IsRecorded(),
		second.IsMessage(history.OpRelease), second.IsReply(history.OpRelease), second.IsRecorded(), third.IsMessage(history.OpRelease))
	if got != "true false false false true true true" {
		t.Errorf("got %s", got)
	}
}

// An EVALSHA of a script that has not been seen does not count as a message. Therefore the EVAL
// that follows counts, even if the script's text has meanwhile been seen on another connection.
func TestUnseenScriptCountsWhenItsTextIsSent(t *testing.T) {
	scripts := &Scripts{}
	otherScripts := &Scripts{}
	otherScripts.add(compareAndDelete)
	sha := ""
	for k := range otherScripts.bySHA {
		sha = k
	}
	s := NewStream(scripts)
	first := s.Request([]byte(command("EVALSHA", sha, "1", "k", "tok")), 1)[0]
	scripts.add(compareAndDelete)
	s.Reply([]byte("-NOSCRIPT No matching script.\r\n"), 2)
	second := s.Request([]byte(command("EVAL", compareAndDelete, "1", "k", "tok")), 3)[0]
	if first.IsMessage(history.OpRelease) || !second.IsMessage(history.OpRelease) {
		t.Errorf("EVALSHA counts: %v, EVAL counts: %v", first.IsMessage(history.OpRelease), second.IsMessage(history.OpRelease))
	}
}

func TestEventShowsReply(t *testing.T) {
	for reply, want := range map[string]string{
		"+OK\r\n":            "ok ",
		"$-1\r\n":            "fail ",
		"_\r\n":              "fail ",
		":0\r\n":             "fail ",
		":3\r\n":             "ok ",
		"*2\r\n:1\r\n:5\r\n": "ok ",
		"*2\r\n:0\r\n:5\r\n": "fail ",
		"-LOADING wait\r\n":  "fail LOADING wait",
		"":                   "info no answer",
	} {
		s := NewStream(&Scripts{})
		c := s.Request([]byte(command("SET", "k", "t", "NX")), 3)[0]
		s.Reply([]byte(reply), 8)
		e := c.Events(nil, "c1-n1", "n1")[0]
		if got := string(e.Type) + " " + e.Cause; got != want {
			t.Errorf("%q: got %q, want %q", reply, got, want)
		}
		if reply != "" && (e.SentAt != 3 || e.AppliedAt != 8 || e.T != 8) {
			t.Errorf("%q: wrong stamps: %+v", reply, e)
		}
	}
}

// A script that does the same to each of its keys results in one event per key, with that key's
// outcome.
func TestEventsOfSeveralKeys(t *testing.T) {
	deleteEach := `local out = {} for i, key in ipairs(KEYS) do if redis.call("get", key) == ARGV[i] then out[i] = redis.call("del", key) else out[i] = 0 end end return out`
	countDeleted := `local n = 0 for i = 1, #KEYS do if redis.call('get', KEYS[i]) == ARGV[ i ] then n = n + redis.call('del', KEYS[i]) end end return n`
	sameToken := `for i, key in ipairs(KEYS) do if redis.call("get", key) == ARGV[1] then redis.call("del", key) end end return 1`
	for _, c := range []struct{ script, reply, want string }{
		{deleteEach, "*3\r\n:1\r\n:0\r\n-WRONGTYPE no\r\n", "a x ok , b y fail , c z fail WRONGTYPE no"},
		{deleteEach, "-BUSY wait\r\n", "a x fail BUSY wait, b y fail BUSY wait, c z fail BUSY wait"},
		{deleteEach, "", "a x info no answer, b y info no answer, c z info no answer"},
		{deleteEach, "*2\r\n:0\r\n:1\r\n", "a x fail , b y fail , c z fail "},
		{countDeleted, ":3\r\n", "a x ok , b y ok , c z ok "},
		{sameToken, ":1\r\n", "a x ok "},
	} {
		s := NewStream(&Scripts{})
		cmd := s.Request([]byte(command("EVAL", c.script, "3", "a", "b", "c", "x", "y", "z")), 3)[0]
		s.Reply([]byte(c.reply), 8)
		var got []string
		for _, e := range cmd.Events(nil, "c1-n1", "n1") {
			if e.Op != history.OpRelease || e.SentAt != 3 {
				t.Errorf("%q: %+v", c.reply, e)
			}
			got = append(got, fmt.Sprint(e.Key, " ", e.Token, " ", e.Type, " ", e.Cause))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%q: %s, want %s", c.reply, strings.Join(got, ", "), c.want)
		}
	}
}

func TestRemainingTimeMeansRefusal(t *testing.T) {
	for reply, want := range map[string]history.Type{"$-1\r\n": history.OK, ":0\r\n": history.Fail, ":-1\r\n": history.Fail, ":700\r\n": history.Fail, "-ERR no\r\n": history.Fail, "": history.Info} {
		s := NewStream(&Scripts{})
		c := s.Request([]byte(command("EVAL", fieldSet, "1", "k", "500", "tok")), 3)[0]
		s.Reply([]byte(reply), 8)
		if got := c.Events(nil, "c1-n1", "n1")[0].Type; got != want {
			t.Errorf("%q: %s, want %s", reply, got, want)
		}
	}
}

// Pushed messages are not replies to a command, and commands queued in a transaction get their
// replies when its EXEC is answered.
func TestPushesAndTransactions(t *testing.T) {
	for _, tt := range []struct {
		commands, replies string
		want              string
	}{
		{"SUBSCRIBE a b|SET k v", ">3\r\n+subscribe\r\n+a\r\n:1\r\n>3\r\n+message\r\n+a\r\n+x\r\n>3\r\n+subscribe\r\n+b\r\n:2\r\n+OK\r\n", "SUBSCRIBE >; SET +OK"},
		{"SUBSCRIBE a|PING|UNSUBSCRIBE|SET k v", "*3\r\n+subscribe\r\n+a\r\n:1\r\n*3\r\n+message\r\n+a\r\n+x\r\n*2\r\n+pong\r\n+\r\n*3\r\n+unsubscribe\r\n+a\r\n:0\r\n+OK\r\n",
			"SUBSCRIBE *; PING *; UNSUBSCRIBE *; SET +OK"},
		{"UNSUBSCRIBE|SET k v", ">3\r\n+unsubscribe\r\n+a\r\n:1\r\n>3\r\n+unsubscribe\r\n+b\r\n:0\r\n+OK\r\n", "UNSUBSCRIBE >; SET +OK"},
		{"SUBSCRIBE|SET k v", "-ERR wrong number\r\n+OK\r\n", "SUBSCRIBE -ERR wrong number; SET +OK"},
		{"GET k|SET k v", ">2\r\n+invalidate\r\n*1\r\n+k\r\n_\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n+OK\r\n", "GET _; SET +OK"},
		{"MULTI|SET k v NX|DEL l|EXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-1\r\n:1\r\n", "MULTI +OK; SET $; DEL :; EXEC *"},
		{"MULTI|SET k v|EXEC", "+OK\r\n+QUEUED\r\n*-1\r\n", "MULTI +OK; SET -the transaction was discarded; EXEC *"},
		{"MULTI|SET k v|DISCARD|SET l v", "+OK\r\n+QUEUED\r\n+OK\r\n+OK\r\n", "MULTI +OK; SET -the transaction was discarded; DISCARD +OK; SET +OK"},
	} {
		s := NewStream(&Scripts{})
		for _, c := range strings.Split(tt.commands, "|") {
			s.Request([]byte(command(strings.Fields(c)...)), 1)
		}
		var got []string
		for _, c := range s.Reply([]byte(tt.replies), 2) {
			got = append(got, fmt.Sprintf("%s %c%s", c.Args[0], c.Reply.Kind, c.Reply.Str))
		}
		if all := strings.Join(got, "; "); all != tt.want || len(s.Pending()) > 0 {
			t.Errorf("%s:\n got %s\nwant %s", tt.commands, all, tt.want)
		}
	}
	s := NewStream(&Scripts{})
	s.Request([]byte(command("MULTI")+command("SET", "k", "v")+command("GET", "k")), 1)
	s.Reply([]byte("+OK\r\n+QUEUED\r\n"), 2)
	if pending := s.Pending(); len(pending) != 2 || pending[0].Args[0] != "SET" || pending[1].Args[0] != "GET" {
		t.Errorf("the pending commands are %v", pending)
	}
}

// Numbers are parsed as by strconv, including some that no server should send.
func TestParseNumber(t *testing.T) {
	for _, text := range []string{"", "0", "7", "-1", "+5", "007", "123456789012345678", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "12x", "x", "-", " 1", "1_000", "99999999999999999999999"} {
		want, err := strconv.ParseInt(text, 10, 64)
		got, ok := parseNumber([]byte(text))
		if ok != (err == nil) || ok && got != want {
			t.Errorf("number %q: got %d, %v; strconv returns %d, %v", text, got, ok, want, err)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	s := NewStream(&Scripts{})
	request := []byte(command("EVAL", compareAndDelete, "1", "lock-1", "0123456789012345678901234567890123456789"))
	for b.Loop() {
		s.Request(request, 1)
		s.Reply([]byte(":1\r\n"), 2)
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, text := range []string{command("SET", "k", "v"), "PING\r\n", "*-1\r\n", "*0\r\n", "*1\r\n:5\r\n", "*2\r\n$1\r\na\r\n$-1\r\n",
		"*1\r\n$5\r\nab", "*2\r\n$1\r\na\r\n", "*1\r\n$1\r\na", "*99999999\r\n", "$3\r\nfoo\r\n", "*1\r\n*1\r\n$1\r\na\r\n", "*x\r\n", "PING\n", "\r\n", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		parseCommand := new(Scanner).parseCommand
		args, rest, err := parseCommand(b)
		if v, r, e := parse(b, 0); e == nil && v.Kind == '*' && b[0] == '*' && !slices.ContainsFunc(v.Items, func(w Value) bool { return w.Kind != '$' || w.Null }) {
			if err != nil || !bytes.Equal(rest, r) || !slices.Equal(args, v.Strings()) {
				t.Errorf("%q: parseCommand returns %q, %q, %v; parse returns %q, %q", b, args, rest, err, v.Strings(), r)
			}
		}
		if err != nil {
			return
		}
		if _, _, err := parseCommand(b[:len(b)-len(rest)-1]); err != errShort {
			t.Errorf("%q without its last byte: got error %v, want errShort", b, err)
		}
		if reparsed, rest, err := parseCommand(Append(nil, args...)); err != nil || len(rest) > 0 || !slices.Equal(reparsed, args) {
			t.Errorf("%q: the words %q were reparsed as %q, rest %q, error %v", b, args, reparsed, rest, err)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(command("SET", "k", "v")), []byte("+OK\r\n"))
	f.Add([]byte("*1000000\r\n*1000000\r\n"), []byte("%-1\r\n$99999999999\r\n"))
	f.Fuzz(func(t *testing.T, in, out []byte) {
		s := NewStream(&Scripts{})
		s.Request(in, 1)
		for _, c := range s.Reply(out, 2) {
			c.Events(nil, "c1-n1", "n1")
		}
	})
}
