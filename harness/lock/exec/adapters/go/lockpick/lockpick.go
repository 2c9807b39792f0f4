// Package lockpick is the protocol's end in Go: one JSON object a line. What a library prints goes
// to stderr.
//
// Serve answers requests by Ops, each in a goroutine of its own: the reader always answers a ping.
package lockpick

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"time"
	_ "unsafe" // for linkname
)

// M is a request, a reply, or a hello.
type M map[string]any

// Request is what an op is asked.
type Request struct {
	ID     int64
	Op     string
	Client string
	Nodes  []struct{ Name, Addr string }
	// Settings are times in milliseconds.
	Settings struct {
		TTL, Timeout, Drift, RetryMin, RetryMax float64
		Tries                                   int
	}
	Options map[string]string
	Key     string
	Within  float64 // milliseconds
	Handle  string
	Of      int64
}

// No is an answer that isn't ok: taken, unknown, not-held, cancelled, unsupported.
type No struct{ No, Why string }

func (n No) Error() string { return n.No + ": " + n.Why }

// Op does what a request asks, until its context ends, and returns what the answer has besides
// ok. An error besides No is a failure of the library, which is a fact.
type Op func(ctx context.Context, r Request) (M, error)

var out struct {
	sync.Mutex
	file *os.File
}

func say(m M) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // an op that answers with what is no JSON
	}
	out.Lock()
	defer out.Unlock()
	out.file.Write(append(text, '\n'))
}

// Lost tells that a handle is not held any more.
func Lost(handle, why string) {
	say(M{"lost": handle, "why": why, "at": nanotime(), "clock": "monotonic"})
}

// nanotime is CLOCK_MONOTONIC, as the library reads it: a system call would not see that lockpick
// has turned it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Serve says hello and answers until stdin ends, or close.
func Serve(hello M, ops map[string]Op) {
	out.file, os.Stdout = os.Stdout, os.Stderr
	hello["hello"] = 1
	say(hello)
	var mu sync.Mutex
	running := map[int64]context.CancelFunc{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(2)
		}
		switch r.Op {
		case "ping":
			say(M{"id": r.ID, "pong": true})
			continue
		case "clock":
			say(M{"id": r.ID, "ok": true, "monotonic": nanotime(), "wall": time.Now().UnixNano()})
			continue
		case "cancel":
			mu.Lock()
			if end := running[r.Of]; end != nil {
				end()
			}
			mu.Unlock()
			say(M{"id": r.ID, "ok": true})
			continue
		case "close":
			say(M{"id": r.ID, "ok": true})
			return
		}
		op := ops[r.Op]
		if op == nil {
			say(M{"id": r.ID, "no": "unsupported", "why": r.Op})
			continue
		}
		ctx, end := context.WithCancel(context.Background())
		mu.Lock()
		running[r.ID] = end
		mu.Unlock()
		go func() {
			m, err := op(ctx, r)
			mu.Lock()
			delete(running, r.ID)
			mu.Unlock()
			end()
			var no No
			switch {
			case errors.As(err, &no):
				m = M{"no": no.No, "why": no.Why}
			case err != nil:
				m = M{"no": "error", "why": err.Error()}
			default:
				if m == nil {
					m = M{}
				}
				m["ok"] = true
			}
			m["id"] = r.ID
			say(m)
		}()
	}
}

// Version is that of a module that the program is built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}
