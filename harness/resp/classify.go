package resp

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/harness/history"
)

// Marker begins the first line of a script that names its own operation:
// "-- lockpick:write". The scripts of the protected resource do.
const Marker = "-- lockpick:"

// Scripts remembers the texts of scripts, so that EVALSHA can be told apart. One
// serves all links of a run. The zero value is ready.
type Scripts struct {
	mu   sync.Mutex
	text map[string]string
}

func (s *Scripts) learn(text string) {
	sum := sha1.Sum([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil {
		s.text = map[string]string{}
	}
	s.text[hex.EncodeToString(sum[:])] = text
}

func (s *Scripts) lookup(sha string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text[strings.ToLower(sha)]
}

// classify fills in what a command means to a lock. Op stays "" if it means nothing.
func (c *Command) classify(scripts *Scripts) {
	if len(c.Args) < 2 {
		return
	}
	switch name, a := strings.ToUpper(c.Args[0]), c.Args; name {
	case "SET":
		c.plainSet()
	case "SETNX":
		if len(a) > 2 {
			c.Op, c.Key, c.Token = history.OpSet, a[1], a[2]
		}
	case "DEL", "UNLINK":
		c.Op, c.Key = history.OpRelease, a[1]
	case "PEXPIRE", "EXPIRE":
		if len(a) > 2 {
			c.Op, c.Key, c.TTL = history.OpExtend, a[1], millis(a[2])
			if name == "EXPIRE" {
				c.TTL *= 1000
			}
		}
	case "SCRIPT":
		if len(a) > 2 && strings.EqualFold(a[1], "LOAD") {
			scripts.learn(a[2])
		}
	case "EVAL":
		scripts.learn(a[1])
		c.script(a[1])
	case "EVALSHA":
		c.script(scripts.lookup(a[1]))
	}
}

func (c *Command) plainSet() {
	if len(c.Args) < 3 {
		return
	}
	c.Op, c.Key, c.Token = history.OpSet, c.Args[1], c.Args[2]
	for i := 3; i+1 < len(c.Args); i++ {
		switch strings.ToUpper(c.Args[i]) {
		case "PX":
			c.TTL = millis(c.Args[i+1])
		case "EX":
			c.TTL = 1000 * millis(c.Args[i+1])
		}
	}
}

// script classifies by the text: lock libraries write their scripts each in
// their own words, but with the same few commands, and all pass the key first
// and the random value as the first argument.
func (c *Command) script(text string) {
	if text == "" || len(c.Args) < 4 {
		return
	}
	n, err := strconv.Atoi(c.Args[2])
	if err != nil || n < 1 || len(c.Args) < 3+n {
		return
	}
	c.Key = c.Args[3]
	argv := c.Args[3+n:]
	if op, ok := strings.CutPrefix(text, Marker); ok {
		c.Op, _, _ = strings.Cut(op, "\n")
		c.Op = strings.TrimSpace(c.Op)
		c.resource(argv)
		return
	}
	has := func(word string) bool {
		return strings.Contains(text, `"`+word+`"`) || strings.Contains(text, `'`+word+`'`)
	}
	text = strings.ToLower(text)
	switch {
	case has("nx"), has("setnx"):
		c.Op = history.OpSet
	case has("pexpire"), has("expire"):
		c.Op = history.OpExtend
	case has("del"), has("unlink"):
		c.Op = history.OpRelease
	case has("get") && has("set"):
		c.Op = history.OpFence
	default:
		return
	}
	if len(argv) > 0 {
		c.Token = argv[0]
	}
	if len(argv) > 1 && (c.Op == history.OpSet || c.Op == history.OpExtend) {
		c.TTL = millis(argv[1])
	}
	if len(argv) > 1 && c.Op == history.OpFence {
		c.Fence, _ = strconv.ParseInt(argv[1], 10, 64)
	}
}

// resource reads the arguments that the resource's scripts share: unique value,
// session, version that the write is based on, fencing token, lock token.
func (c *Command) resource(argv []string) {
	for i, a := range argv {
		switch i {
		case 0:
			c.Value = a
		case 1:
			c.Session = a
		case 2:
			c.Version, _ = strconv.ParseInt(a, 10, 64)
		case 3:
			c.Fence, _ = strconv.ParseInt(a, 10, 64)
		case 4:
			c.Token = a
		}
	}
}

func millis(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(time.Millisecond)
}
