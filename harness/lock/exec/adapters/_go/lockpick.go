package main

// The protocol's end in Go: one JSON object a line. What a library prints belongs on stderr.

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Request is what lockpick asks; times are in milliseconds.
type Request struct {
	ID       int64
	Op       string
	Client   string
	Nodes    []struct{ Name, Addr string }
	Settings struct {
		TTL, Timeout, Drift, RetryMin, RetryMax float64
		Tries                                   int
	}
	Key, Handle string
	Within      float64
	Of          int64
}

// Answer is a line to lockpick: "ok", or "no" and "why", and what belongs to them.
type Answer map[string]any

// No is an answer that isn't ok: taken, unknown, not-held, unsupported.
type No struct {
	No  string
	Why error
}

func (n No) Error() string { return n.No }

var (
	stdout = os.Stdout
	one    sync.Mutex
)

func say(a Answer) {
	line, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	one.Lock()
	defer one.Unlock()
	stdout.Write(append(line, '\n'))
}

// goBegan and bootBegan are one instant, by package time and by CLOCK_MONOTONIC.
var goBegan, bootBegan = time.Now(), func() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}()

// Lease is the deadline of a lease that began at an instant of package time.
func Lease(began time.Time, lasts time.Duration) Answer {
	return Answer{"until": bootBegan + int64(began.Add(lasts).Sub(goBegan)), "clock": "monotonic"}
}

// Serve says hello and answers each request by the function of its op, in a goroutine of the
// library's own: the reader always answers a ping. An error that is no No is a failure of the
// library, which is a fact.
func Serve(hello Answer, ops map[string]func(Request) (Answer, error)) {
	os.Stdout = os.Stderr
	todo := make(chan Request, 16)
	go func() {
		for r := range todo {
			a, err := ops[r.Op](r)
			var no No
			switch {
			case errors.As(err, &no):
				a = Answer{"no": no.No}
				if no.Why != nil {
					a["why"] = no.Why.Error()
				}
			case err != nil:
				a = Answer{"no": "error", "why": err.Error()}
			case a == nil:
				a = Answer{"ok": true}
			default:
				a["ok"] = true
			}
			a["id"] = r.ID
			say(a)
		}
	}()
	hello["hello"] = 1
	say(hello)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		switch r.Op {
		case "clock":
			now := time.Now()
			say(Answer{"id": r.ID, "ok": true, "monotonic": bootBegan + int64(now.Sub(goBegan)), "wall": now.UnixNano()})
		case "ping":
			say(Answer{"id": r.ID, "pong": true})
		case "close":
			say(Answer{"id": r.ID, "ok": true})
			return
		default:
			if ops[r.Op] == nil {
				say(Answer{"id": r.ID, "no": "unsupported", "why": r.Op})
				continue
			}
			todo <- r
		}
	}
}
