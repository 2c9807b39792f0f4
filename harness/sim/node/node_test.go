package node

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockpick/harness/resp"
)

// realRedisAddr is the address of a real Redis 7.0 without data. If set, testdata/answers.txt is
// rewritten with the replies of that Redis. Use it after adding commands to the file.
var realRedisAddr = flag.String("redis", "", "address of a Redis for regenerating testdata/answers.txt")

// newTestNode returns a node whose clock reads *now.
func newTestNode(now *time.Duration) *Node {
	clock := NewClock(946684800e9, func() int64 { return int64(*now) })
	return New(Config{RunID: strings.Repeat("a", 40), ProcessID: 7, Clock: clock})
}

// splitWords splits a line at spaces outside double quotes.
func splitWords(line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		separator := " "
		if line[0] == '"' {
			line, separator = line[1:], `"`
		}
		word, rest, _ := strings.Cut(line, separator)
		out, line = append(out, word), rest
	}
	return out
}

// testdata/answers.txt contains commands, each followed by the reply of a real Redis.
func TestRepliesMatchRedis(t *testing.T) {
	const file = "testdata/answers.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if *realRedisAddr != "" {
		if err := os.WriteFile(file, recordReplies(t, string(text)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var now time.Duration
	s := newTestNode(&now).Open()
	lines := slices.Collect(strings.Lines(string(text)))
	for i := 0; i+1 < len(lines); i += 2 {
		want, err := strconv.Unquote(strings.TrimSpace(lines[i+1]))
		if err != nil {
			t.Fatalf("%s:%d: %v", file, i+2, err)
		}
		if got, _ := feed(s, new(resp.Scanner), resp.Append(nil, splitWords(lines[i])...)); string(got) != want {
			t.Errorf("%s:%d: %s\n got %q\nwant %q", file, i+1, strings.TrimSpace(lines[i]), got, want)
		}
	}
}

func recordReplies(t *testing.T, text string) []byte {
	c, err := net.Dial("tcp", *realRedisAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const end = "$3\r\nend\r\n"
	var out strings.Builder
	reader := bufio.NewReader(c)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if _, err := strconv.Unquote(line); err == nil || line == "" {
			continue
		}
		c.Write(append(resp.Append(nil, splitWords(line)...), "ECHO end\r\n"...))
		reply := ""
		for !strings.HasSuffix(reply, end) {
			part, err := reader.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			reply += part
		}
		fmt.Fprintf(&out, "%s\n%q\n", line, strings.TrimSuffix(reply, end))
	}
	return []byte(out.String())
}

// These replies can't be compared with a real Redis line by line.
func TestReplies(t *testing.T) {
	var now time.Duration
	s := newTestNode(&now).Open()
	for _, tt := range []struct{ command, want string }{
		{"HELLO 3", "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"},
		{"GET none", "_\r\n"},
		{"HSET h a 1", ":1\r\n"},
		{"HGETALL h", "%1\r\n$1\r\na\r\n$1\r\n1\r\n"},
		{"HELLO 2 AUTH default x SETNAME me", "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"},
		{"CLIENT GETNAME", "$2\r\nme\r\n"},
		{"CLIENT SETINFO LIB-NAME x", "+OK\r\n"},
		{"CLIENT ID", ":1\r\n"},
		{"TIME", "*2\r\n$9\r\n946684800\r\n$1\r\n0\r\n"},
		{"INFO server", "$118\r\n# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nprocess_id:7\r\nrun_id:" + strings.Repeat("a", 40) + "\r\n\r\n"},
		{`EVAL "return {math.random(1000),math.random(1000),math.random(1000)}" 0`, "*3\r\n:171\r\n:750\r\n:97\r\n"},
		{`EVAL "math.randomseed(0) return math.random(1000)" 0`, ":171\r\n"},
	} {
		if got, _ := feed(s, new(resp.Scanner), resp.Append(nil, splitWords(tt.command)...)); string(got) != tt.want {
			t.Errorf("%s\n got %q\nwant %q", tt.command, got, tt.want)
		}
	}
	for _, script := range []string{"retur 1", "return 1 + nil", "local x; return x.y", "local function f() return f() + 1 end return f()", "local t = {} t[1] = t return t"} {
		if got, _ := feed(s, new(resp.Scanner), resp.Append(nil, "EVAL", script, "0")); !strings.HasPrefix(strings.TrimPrefix(string(got), "*1\r\n"), "-ERR ") && !strings.Contains(string(got), "stack limit") {
			t.Errorf("%s: %q", script, got)
		}
	}
	if got, _ := feed(s, new(resp.Scanner), []byte("PING\r\n")); string(got) != "+PONG\r\n" {
		t.Errorf("after bad scripts: %q", got)
	}
}

func TestKeysExpire(t *testing.T) {
	var now time.Duration
	n := newTestNode(&now)
	do := func(line string) string {
		v, err := n.Do(splitWords(line)...)
		return fmt.Sprintf("%v %v", v, err)
	}
	for _, tt := range []struct {
		at            time.Duration
		command, want string
	}{
		{0, "SET k v PX 1000", "OK <nil>"},
		{999 * time.Millisecond, "PTTL k", "1 <nil>"},
		// A key expires after the instant expires, not at it.
		{1000*time.Millisecond + 999*time.Microsecond, "PTTL k", "0 <nil>"},
		{1000*time.Millisecond + 999*time.Microsecond, "GET k", "v <nil>"},
		{1001 * time.Millisecond, "DBSIZE", "0 <nil>"},
		{1001 * time.Millisecond, "GET k", "<nil> <nil>"},
		{2 * time.Second, "SET k w NX PX 5000", "OK <nil>"},
		{3 * time.Second, "SET k x KEEPTTL", "OK <nil>"},
		{3 * time.Second, "PTTL k", "4000 <nil>"},
		{3 * time.Second, "INCR n", "1 <nil>"},
		{3 * time.Second, "EXPIRE n 10", "1 <nil>"},
		{4 * time.Second, "INCR n", "2 <nil>"},
		{4 * time.Second, "TTL n", "9 <nil>"},
		{4 * time.Second, "SET n 1", "OK <nil>"},
		{4 * time.Second, "TTL n", "-1 <nil>"},
		{4 * time.Second, "PEXPIREAT n 946684805000", "1 <nil>"},
		{4 * time.Second, "PTTL n", "1000 <nil>"},
		{4 * time.Second, "EXPIREAT n 946684803", "1 <nil>"},
		{4 * time.Second, "EXISTS n k", "1 <nil>"},
	} {
		now = tt.at
		if got := do(tt.command); got != tt.want {
			t.Errorf("%v %s: %s, want %s", tt.at, tt.command, got, tt.want)
		}
	}
}

// feed parses bytes and executes the commands in a session.
func feed(s *Session, in *resp.Scanner, b []byte) (replies []byte, hangUp bool) {
	requests, protocolErr := in.Commands(b)
	var commands []*resp.Command
	for _, args := range requests {
		commands = append(commands, &resp.Command{Args: args})
	}
	return s.Execute(commands, protocolErr)
}

func TestFeedAcceptsAnyChunks(t *testing.T) {
	var now time.Duration
	input := append(resp.Append(nil, "SET", "k", "a\r\nb"), "PING\r\n\r\n*0\r\n"...)
	input = append(input, resp.Append(nil, "GET", "k")...)
	const want = "+OK\r\n+PONG\r\n$4\r\na\r\nb\r\n"
	for size := 1; size <= len(input); size++ {
		s := newTestNode(&now).Open()
		var got []byte
		var in resp.Scanner
		for chunk := range slices.Chunk(input, size) {
			out, hangUp := feed(s, &in, chunk)
			if hangUp {
				t.Fatalf("chunks of %d: the node hung up", size)
			}
			got = append(got, out...)
		}
		if string(got) != want {
			t.Errorf("chunks of %d: %q", size, got)
		}
	}
}

func TestNodeHangsUp(t *testing.T) {
	var now time.Duration
	for in, want := range map[string]string{
		"QUIT\r\nPING\r\n":     "+OK\r\n",
		"*x\r\n":               "-ERR Protocol error: invalid multibulk length\r\n",
		"PING\r\n*1\r\n:3\r\n": "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n",
		"*1\r\n$x\r\n":         "-ERR Protocol error: invalid bulk length\r\n",
		"*1\r\n$-5\r\n":        "-ERR Protocol error: invalid bulk length\r\n",
	} {
		if got, hangUp := feed(newTestNode(&now).Open(), new(resp.Scanner), []byte(in)); string(got) != want || !hangUp {
			t.Errorf("%q: %q, hang up %v", in, got, hangUp)
		}
	}
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"))
	f.Add([]byte("HSET h a 1\r\nHELLO 3\r\nHGETALL h\r\n"))
	f.Add([]byte("HELLO 3\r\nCLIENT TRACKING ON OPTOUT NOLOOP\r\nGET k\r\nMULTI\r\nSET k v\r\nSUBSCRIBE c\r\nPUBLISH c m\r\nEXEC\r\nFLUSHALL\r\n"))
	f.Add([]byte("WATCH k\r\nCLIENT TRACKING ON BCAST PREFIX k REDIRECT 1\r\nSUBSCRIBE __redis__:invalidate\r\nUNSUBSCRIBE\r\nGETEX k PX 1\r\nCLIENT TRACKINGINFO\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if strings.Contains(strings.ToLower(string(b)), "eval") {
			t.Skip("a script may loop forever")
		}
		var now time.Duration
		n := newTestNode(&now)
		s := n.Open()
		feed(s, new(resp.Scanner), b)
		n.TakePushes()
		now += time.Hour
		n.Expire()
		s.Close()
		if len(n.TakePushes()) > 0 {
			t.Error("a push is pending without a session")
		}
	})
}
