// Package lockpick is the adapter's end of the protocol in Go: one JSON object per line. Everything
// the library prints goes to stderr.
//
// Serve runs an Op for each request in a separate goroutine, so the reader always answers pings.
package lockpick

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// M is a reply, or a hello.
type M map[string]any

// Request is a request to an Op. Times are in milliseconds.
type Request struct {
	ID       int64
	Op       string
	Client   string
	Nodes    []struct{ Name, Addr string }
	Settings struct {
		TTL, Timeout, Drift, RetryMin, RetryMax float64
		Tries                                   int
	}
	Options map[string]string
	Key     string
	Handle  string
	Within  float64
	Of      int64
}

// No is the error for an answer that isn't ok: taken, unknown, not-held, cancelled or unsupported.
type No struct{ No, Why string }

func (n No) Error() string { return n.No + ": " + n.Why }

// Op executes a request until its context ends, and returns the fields of the answer other than ok.
// An error other than No is reported as a failure of the library.
type Op func(ctx context.Context, r Request) (M, error)

var out struct {
	sync.Mutex
	file *os.File
}

func say(m M) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // an Op's answer can't be encoded as JSON
	}
	out.Lock()
	defer out.Unlock()
	out.file.Write(append(text, '\n'))
}

// booted and began are the same instant, by CLOCK_MONOTONIC and by package time. lockpick can change the
// clock that package time reads, but not the result of a system call.
var booted, began = func() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}(), time.Now()

func monotonic(t time.Time) int64 { return booted + int64(t.Sub(began)) }

// Lease returns the deadline of a lease that starts at an instant of time.Now.
func Lease(began time.Time, lasts time.Duration) M {
	return M{"until": monotonic(began.Add(lasts)), "clock": "monotonic"}
}

// Lost reports that a handle's lock is no longer held.
func Lost(handle, why string) {
	say(M{"lost": handle, "why": why, "at": monotonic(time.Now()), "clock": "monotonic"})
}

// running holds the requests that have not been answered yet.
type running struct {
	sync.Mutex
	ends map[int64]context.CancelFunc
}

// Serve sends the hello and answers requests until close or the end of stdin.
func Serve(hello M, ops map[string]Op) {
	out.file, os.Stdout = os.Stdout, os.Stderr
	hello["hello"] = 1
	say(hello)
	all := running{ends: map[int64]context.CancelFunc{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(2)
		}
		op := ops[r.Op]
		switch {
		case r.Op == "ping":
			say(M{"id": r.ID, "pong": true})
		case r.Op == "clock":
			now := time.Now()
			say(M{"id": r.ID, "ok": true, "monotonic": monotonic(now), "wall": now.UnixNano()})
		case r.Op == "cancel":
			all.cancel(r.Of)
			say(M{"id": r.ID, "ok": true})
		case r.Op == "close":
			say(M{"id": r.ID, "ok": true})
			return
		case op == nil:
			say(M{"id": r.ID, "no": "unsupported", "why": r.Op})
		default:
			ctx, end := context.WithCancel(context.Background())
			all.Lock()
			all.ends[r.ID] = end
			all.Unlock()
			go func() {
				m := answer(op(ctx, r))
				all.cancel(r.ID)
				m["id"] = r.ID
				say(m)
			}()
		}
	}
}

// cancel cancels the context of a request that has not been answered yet.
func (all *running) cancel(id int64) {
	all.Lock()
	defer all.Unlock()
	if end := all.ends[id]; end != nil {
		end()
		delete(all.ends, id)
	}
}

func answer(m M, err error) M {
	var no No
	switch {
	case errors.As(err, &no):
		return M{"no": no.No, "why": no.Why}
	case err != nil:
		return M{"no": "error", "why": err.Error()}
	case m == nil:
		m = M{}
	}
	m["ok"] = true
	return m
}

// Version returns the version of a module in this program.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}
