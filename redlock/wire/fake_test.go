package wire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/redlock/driver"
	"lockpick/redlock/wire"
)

// fakeNode is a node in memory that executes a lock's commands. Clients connect through pipes. Keys
// do not expire.
type fakeNode struct {
	t *testing.T

	mu       sync.Mutex
	keys     map[string]string
	scripts  map[string]bool
	log      []string      // commands after each handshake: SET k t, RELEASE k t k t …
	conns    []net.Conn    // server ends of the pipes
	delay    time.Duration // before each answer
	dialErr  error         // error returned by dials
	reply    string        // if not "", the reply to every command
	resume   chan struct{} // if not nil, no reply is sent until it is closed
	runID    string
	index    int      // makes the identity unique
	nextID   int      // last connection ID
	kills    []string // arguments of CLIENT KILL
	denyKill bool
}

func newFake(t *testing.T) *fakeNode {
	return &fakeNode{t: t, keys: map[string]string{}, scripts: map[string]bool{}, runID: "process-1"}
}

// node returns a wire.Node connected to f, with a timeout of 50 ms.
func (f *fakeNode) node(change func(*wire.Options)) *wire.Node {
	o := wire.Options{Addr: "n:1", Dial: f.dial, Timeout: timeout}
	if change != nil {
		change(&o)
	}
	n := wire.New(o)
	f.t.Cleanup(func() { n.Close() })
	return n
}

const timeout = 50 * time.Millisecond

func (f *fakeNode) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dialErr != nil {
		return nil, f.dialErr
	}
	ours, theirs := net.Pipe()
	f.conns = append(f.conns, theirs)
	go f.serve(theirs)
	return ours, nil
}

func (f *fakeNode) numDials() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// update calls change while holding the mutex.
func (f *fakeNode) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// commands returns the commands received so far.
func (f *fakeNode) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fakeNode) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10) // a pipe has no buffer, so the whole handshake must be read before it is answered
	for {
		words, err := read(in)
		if err != nil {
			return
		}
		f.mu.Lock()
		hold, delay, fixedReply := f.resume, f.delay, f.reply
		f.mu.Unlock()
		if hold != nil {
			<-hold
		}
		time.Sleep(delay)
		f.mu.Lock()
		answer := f.replyTo(words)
		f.mu.Unlock()
		if fixedReply != "" {
			answer = fixedReply
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func read(in *bufio.Reader) (words []string, err error) {
	length := func() int {
		line, e := in.ReadString('\n')
		if err = e; err != nil {
			return 0
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for range length() {
		b := make([]byte, length()+2)
		if _, e := io.ReadFull(in, b); e != nil {
			return nil, e
		}
		words = append(words, string(b[:len(b)-2]))
	}
	return words, err
}

func (f *fakeNode) replyTo(words []string) string {
	switch words[0] {
	case "SET":
		f.log = append(f.log, strings.Join(words[:3], " "))
		if _, taken := f.keys[words[1]]; taken {
			return "$-1\r\n"
		}
		f.keys[words[1]] = words[2]
		return "+OK\r\n"
	case "EVAL", "EVALSHA":
		switch words[1] {
		case driver.RunID.Text:
			return fmt.Sprintf("$%d\r\n%s\r\n", len(f.runID), f.runID)
		case driver.Identity.Text:
			return fmt.Sprintf(":%d\r\n", 1+f.index)
		}
		sha := words[1]
		if words[0] == "EVAL" {
			for _, s := range driver.Scripts {
				if s.Text == words[1] {
					sha, f.scripts[s.SHA] = s.SHA, true
				}
			}
		}
		if !f.scripts[sha] {
			return "-NOSCRIPT No matching script.\r\n"
		}
		return f.runScript(sha, words[2:])
	}
	switch strings.Join(words[:2], " ") {
	case "CLIENT ID":
		f.nextID++
		return fmt.Sprintf(":%d\r\n", f.nextID)
	case "CLIENT KILL":
		f.kills = append(f.kills, words[3])
		if f.denyKill {
			return "-NOPERM no\r\n"
		}
		return ":1\r\n"
	}
	if words[0] != "SCRIPT" {
		f.log = append(f.log, strings.Join(words, " "))
		return "+OK\r\n"
	}
	for _, s := range driver.Scripts {
		f.scripts[s.SHA] = f.scripts[s.SHA] || s.Text == words[2]
	}
	return "$2\r\nok\r\n"
}

// runScript executes a script. words contains the number of keys, the keys, and the arguments.
func (f *fakeNode) runScript(sha string, words []string) string {
	keys, _ := strconv.Atoi(words[0])
	if sha != driver.Release.SHA && sha != driver.Releases.SHA {
		f.log = append(f.log, "SCRIPT "+strings.Join(words[1:], " "))
		if sha == driver.Grants.SHA {
			return fmt.Sprintf("*%d\r\n", keys) + strings.Repeat(":7\r\n", keys)
		}
		return ":7\r\n"
	}
	did, answer := "RELEASE", ""
	if sha == driver.Releases.SHA {
		answer = fmt.Sprintf("*%d\r\n", keys)
	}
	for i := range keys {
		key, token := words[1+i], words[1+keys+i]
		did += " " + key + " " + token
		if f.keys[key] == token {
			delete(f.keys, key)
			answer += ":1\r\n"
		} else {
			answer += ":0\r\n"
		}
	}
	f.log = append(f.log, did)
	return answer
}

type answers struct {
	mu  sync.Mutex
	got map[*driver.Request]string
	at  map[*driver.Request]time.Time
}

func (a *answers) Answered(r *driver.Request, value int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got == nil {
		a.got, a.at = map[*driver.Request]string{}, map[*driver.Request]time.Time{}
	}
	if before, ok := a.got[r]; ok {
		panic("answered twice: " + before)
	}
	a.got[r], a.at[r] = fmt.Sprint(value), time.Now()
	if err != nil {
		a.got[r] = err.Error()
	}
}

// get returns the answer to r, or "" if it has not arrived yet.
func (a *answers) get(r *driver.Request) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got[r]
}

// submit submits a request for token and the key "k"+token, to be answered within the timeout.
func (a *answers) submit(n *wire.Node, op driver.Op, token string) *driver.Request {
	r := &driver.Request{Op: op, Key: "k" + token, Token: token, Terms: driver.Terms{TTL: time.Second}, Deadline: time.Now().Add(timeout), Collector: a}
	n.Submit(r)
	return r
}

var errRefused = errors.New("connection refused")
