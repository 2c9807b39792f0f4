package resp

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/harness/history"
)

// marker begins the first line of a script that names its own operation:
// "-- lockpick:write". The scripts of the protected resource do, and those of a lock may
// that would be taken for something else.
const marker = "-- lockpick:"

// ofLocks are the operations that scripts of a lock can name.
var ofLocks = []string{history.OpSet, history.OpExtend, history.OpRelease, history.OpFence}

// Scripts remembers the texts of scripts, so that EVALSHA can be told apart, and
// what each text does. One serves all links of a run. The zero value is ready.
type Scripts struct {
	mu     sync.Mutex
	byText map[string]*script
	bySHA  map[string]*script
}

// script is a text and the operation that it stands for, "" if it is of no interest.
type script struct {
	text, op string
	resource bool // of the protected resource: it named its operation itself
	ttl      int  // which of its arguments is the TTL, from 1; 0: none is
	token    int  // which is the lock's random value, from 1
	seconds  bool // the TTL is in seconds
	tells    bool // it answers for how long the lock is still taken, and nothing where it has set it
	zero     bool // it answers 0 where it did what it is for, and why not where it refused
	each     bool // it does the same to each key, with the argument that stands at the key's place
}

func (s *Scripts) learn(text string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byText[text]; known != nil {
		return known
	}
	if s.byText == nil {
		s.byText, s.bySHA = map[string]*script{}, map[string]*script{}
	}
	learnt := newScript(strings.Clone(text))
	s.byText[learnt.text] = learnt
	sum := sha1.Sum([]byte(text))
	s.bySHA[hex.EncodeToString(sum[:])] = learnt
	return learnt
}

// lookup returns the script with a SHA-1, or nil.
func (s *Scripts) lookup(sha string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySHA[strings.ToLower(sha)]
}

// ttlArgument is where a script says which of its arguments is the TTL.
var ttlArgument = regexp.MustCompile(`["'](px|ex|pexpire|expire)["']\s*,\s*(?:keys\[1\]\s*,\s*)?argv\[([1-9])\]`)

// tokenArgument is where a script sets the lock's random value or compares it.
var tokenArgument = regexp.MustCompile(`["'](?:set|setnx|hset|hsetnx|hexists|hincrby)["']\s*,\s*keys\[1\]\s*,\s*argv\[([1-9])\]|["']get["']\s*,\s*keys\[1\]\s*\)\s*[=~]=\s*argv\[([1-9])\]`)

// setsLock is a script that sets the lock's key itself, and not one beside it.
var setsLock = regexp.MustCompile(`["'](?:set|setnx)["']\s*,\s*keys\[1\]`)

// deletesLock and expiresLock are scripts that do so with the lock's key itself. What wakes those
// that wait may have a key and a TTL of its own.
var (
	deletesLock = regexp.MustCompile(`["'](?:del|unlink)["']\s*,\s*keys\[1\]\s*\)`)
	expiresLock = regexp.MustCompile(`["']p?expire(?:at)?["']\s*,\s*keys\[1\]`)
)

// refuses is a script that ends where the key has another value, or none.
var refuses = regexp.MustCompile(`if\s+redis\.call\(\s*["']get["']\s*,[^)]*\)\s*~=\s*argv\[[1-9]\]\s*then\s*return`)

// refusesByNumber is one that then answers a number, as a program has exit codes.
var refusesByNumber = regexp.MustCompile(refuses.String() + `\s+[1-9]`)

// eachKey is a script that goes through its keys, and names their place.
var eachKey = regexp.MustCompile(`for\s+(\w+)\s*(?:,\s*\w+\s+in\s+ipairs\s*\(\s*keys\s*\)|=\s*1\s*,\s*#\s*keys\b)`)

// timeLeft is the answer of a script that refuses by telling for how long.
var timeLeft = regexp.MustCompile(`return\s+redis\.call\(\s*["']p?ttl["']`)

// newScript classifies by the text: lock libraries write their scripts each in
// their own words, but with the same few commands.
func newScript(text string) *script {
	s := &script{text: text, ttl: 2, token: 1}
	named, isNamed := strings.CutPrefix(text, marker)
	if isNamed {
		s.op, _, _ = strings.Cut(named, "\n")
		if s.op = strings.TrimSpace(s.op); !slices.Contains(ofLocks, s.op) {
			s.resource = true
			return s
		}
	}
	lower := strings.ToLower(text)
	has := func(word string) bool {
		return strings.Contains(lower, `"`+word+`"`) || strings.Contains(lower, `'`+word+`'`)
	}
	if m := ttlArgument.FindStringSubmatch(lower); m != nil {
		s.ttl, _ = strconv.Atoi(m[2])
		s.seconds = m[1] == "ex" || m[1] == "expire"
	} else if has("pxat") || has("pexpireat") {
		s.ttl = 0 // an instant
	}
	if m := tokenArgument.FindStringSubmatch(lower); m != nil {
		s.token, _ = strconv.Atoi(m[1] + m[2])
	}
	expires := has("set") && (has("px") || has("ex"))
	fields := has("hincrby") || has("hset") || has("hsetnx")
	switch {
	case isNamed:
	case deletesLock.MatchString(lower) && !expiresLock.MatchString(lower) && !setsLock.MatchString(lower):
		s.op = history.OpRelease
	case fields && (has("del") || has("hdel")) && !setsLock.MatchString(lower): // it counts down, and the last deletes
		s.op = history.OpRelease
	case expires && !has("nx") && refuses.MatchString(lower): // it sets what is its own
		s.op = history.OpExtend
	case has("nx"), has("setnx"), expires && !has("xx"):
		s.op = history.OpSet
	case fields && has("exists") && (has("pexpire") || has("expire")):
		s.op = history.OpSet
	case expires, has("pexpire"), has("expire"), has("pexpireat"):
		s.op = history.OpExtend
	case has("del"), has("unlink"):
		s.op = history.OpRelease
	case has("get") && has("set"):
		s.op = history.OpFence
	}
	if m := eachKey.FindStringSubmatch(lower); m != nil {
		s.each = regexp.MustCompile(`argv\[\s*` + m[1] + `\s*\]`).MatchString(lower)
	}
	s.zero = refusesByNumber.MatchString(lower)
	s.tells = s.op == history.OpSet && timeLeft.MatchString(lower)
	return s
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
	case "PEXPIREAT", "EXPIREAT":
		if len(a) > 2 {
			c.Op, c.Key = history.OpExtend, a[1]
		}
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
		c.script(scripts.learn(a[1]))
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

// script reads the arguments of a script: all libraries pass the key first.
func (c *Command) script(s *script) {
	if len(c.Args) < 4 {
		return
	}
	n, err := strconv.Atoi(c.Args[2])
	if err != nil || n < 1 || len(c.Args) < 3+n {
		return
	}
	argv := c.Args[3+n:]
	if s == nil { // nobody has seen its text yet
		if len(argv) > 0 {
			c.Token = argv[0]
		}
		return
	}
	c.Op, c.Key = s.op, c.Args[3]
	if s.resource {
		c.resource(argv)
		return
	}
	if c.Op == "" {
		return
	}
	if s.each && len(argv) == n {
		c.keys, c.Token = n, argv[0]
		return
	}
	if len(argv) >= s.token {
		c.Token = argv[s.token-1]
	}
	c.tells, c.zero = s.tells, s.zero
	if s.ttl > 0 && len(argv) >= s.ttl && (c.Op == history.OpSet || c.Op == history.OpExtend) {
		c.TTL = millis(argv[s.ttl-1])
		if s.seconds {
			c.TTL *= 1000
		}
	}
	if len(argv) > 1 && c.Op == history.OpFence {
		c.Fence, _ = strconv.ParseInt(argv[1], 10, 64)
	}
}

// resource reads the arguments that the resource's scripts share: unique value,
// session, version that the write is based on, fencing token, lock token.
func (c *Command) resource(argv []string) {
	a := slices.Concat(argv, make([]string, 5)) // those that are missing are empty
	c.Value, c.Session, c.Token = a[0], a[1], a[4]
	c.Version, _ = strconv.ParseInt(a[2], 10, 64)
	c.Fence, _ = strconv.ParseInt(a[3], 10, 64)
}

func millis(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(time.Millisecond)
}
