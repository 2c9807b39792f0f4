package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness/lock"
)

const hello = `{"hello":1,"name":"made up","version":"2","can":["extend","lost","renewed","cancel"]}` + "\n"

// answers scripts an adapter. It maps a request's op to the adapter's answer, in which %d stands
// for the request's ID.
type answers map[string]string

// startScripted starts an adapter that sends firstLine and then calls answer for each request.
func startScripted(t *testing.T, firstLine string, answer func(m map[string]any, out io.Writer)) (*Adapter, error) {
	t.Helper()
	in, requests := io.Pipe()
	replies, out := io.Pipe()
	t.Cleanup(func() { requests.Close(); out.Close() })
	go func() {
		if _, err := io.WriteString(out, firstLine); err != nil {
			return
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var m map[string]any
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Error(err)
			}
			switch m["op"] {
			case "end":
				out.Close()
			default:
				answer(m, out)
			}
		}
	}()
	return Connect(requests, replies, time.Now)
}

func (a answers) respond(m map[string]any, out io.Writer) {
	text, ok := a[m["op"].(string)]
	switch {
	case !ok && m["op"] == "clock":
		text = fmt.Sprintf(`{"id":%%d,"ok":true,"monotonic":%d,"wall":%d}`, time.Now().UnixNano()-epoch, time.Now().UnixNano())
	case !ok && m["op"] == "ping":
		text = `{"id":%d,"pong":true}`
	case !ok:
		text = `{"id":%d,"ok":true}`
	}
	if strings.Contains(text, "%d") {
		text = fmt.Sprintf(text, int64(m["id"].(float64)))
	}
	if text == "end" {
		out.(io.Closer).Close()
		return
	}
	if text != "" {
		io.WriteString(out, text+"\n")
	}
}

// epoch is the arbitrary start of the adapters' monotonic clock.
const epoch = 777

func open(t *testing.T, a answers) *Adapter {
	t.Helper()
	ad, err := startScripted(t, hello, a.respond)
	if err != nil {
		t.Fatal(err)
	}
	if err := ad.Open(t.Context(), "c1", []lock.Node{{Name: "n1", Addr: "127.0.0.1:1"}}, lock.Settings{TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	return ad
}

// The error for an invalid hello says what is wrong with it.
func TestRejectsInvalidHello(t *testing.T) {
	for firstLine, want := range map[string]string{
		"":                              "its stdout has ended",
		"ready\n":                       `violates the protocol: "ready"`,
		`{"hello":2,"name":"x"}` + "\n": "not a hello of protocol version 1",
		`{"hello":1}` + "\n":            "no name",
		`{"hello":1,"name":"x","can":["fly"]}` + "\n":                                                               `unknown capability "fly"`,
		`{"hello":1,"name":"x","nodes":"two"}` + "\n":                                                               `nodes "two"`,
		`{"hello":1,"name":"x","server":"mysql"}` + "\n":                                                            `server "mysql": use one of redis, etcd, consul`,
		`{"hello":1,"name":"x","retries":"both"}` + "\n":                                                            `retries "both"`,
		`{"hello":1,"name":"x","belief":"luck"}` + "\n":                                                             `belief "luck"`,
		`{"hello":1,"name":"x","keyPrefix":"a\tb"}` + "\n":                                                          `keyPrefix "a\tb": use at most 100 bytes of printable ASCII`,
		`{"hello":1,"name":"x","belief":"signal"}` + "\n":                                                           `add "lost" to can`,
		`{"hello":1,"name":"x","options":[{"name":"a=b","values":["c","d"]}]}` + "\n":                               "option \"a=b\": use lowercase",
		`{"hello":1,"name":"x","options":[{"name":"a","values":["c"]}]}` + "\n":                                     `option "a" with 1 values: list the library's default first`,
		`{"hello":1,"name":"x","options":[{"name":"a","values":["c","d,e"]}]}` + "\n":                               "a value \"d,e\"",
		`{"hello":1,"name":"x","options":[{"name":"a","values":["c","d"]},{"name":"a","values":["c","d"]}]}` + "\n": `duplicate option "a"`,
		`{"hello":1,"name":"x"`:                  "in the middle of a line",
		strings.Repeat("x", maxLineLen+1) + "\n": "longer than 65536 bytes",
	} {
		adapterOut, out := io.Pipe()
		go func() { io.WriteString(out, firstLine); out.Close() }()
		if _, err := Connect(io.Discard, adapterOut, time.Now); !errors.Is(err, errBroken) || !errors.Is(err, lock.ErrBroken) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", firstLine, err, want)
		}
	}
}

// An adapter's options become options of its kind of lock. They can't exempt the lock from any
// property.
func TestHelloOptions(t *testing.T) {
	a, err := startScripted(t, `{"hello":1,"name":"x","options":[{"name":"retries","doc":"tries","values":["defaults","none"],"forgoes":["fault-tolerance"]}]}`+"\n", answers{}.respond)
	if err != nil {
		t.Fatal(err)
	}
	want := []lock.Option{{Name: "retries", Doc: "tries", Values: []string{"defaults", "none"}}}
	if got := a.Hello.Kind().Options; !reflect.DeepEqual(got, want) {
		t.Errorf("options %+v, want %+v", got, want)
	}
}

// exitingStdin is an adapter's stdin. When a write to it returns, the adapter has already answered
// and exited.
type exitingStdin struct {
	stdout  *io.PipeWriter
	adapter *Adapter
}

func (e *exitingStdin) Write(line []byte) (int, error) {
	fmt.Fprintf(e.stdout, `{"id":%d,"ok":true}`+"\n", e.adapter.lastID)
	e.stdout.Close()
	<-e.adapter.outputEnded
	return len(line), nil
}

// An adapter's last message, such as its answer to close, is used even if its stdout has ended by
// the time the message is read.
func TestLastMessageIsUsed(t *testing.T) {
	for range 50 { // select chooses randomly between two ready channels
		adapterOut, out := io.Pipe()
		stdin := &exitingStdin{stdout: out}
		go io.WriteString(out, hello)
		a, err := Connect(stdin, adapterOut, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		stdin.adapter = a
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("answered after its end: %v", err)
		}
	}
}

// An adapter that violates the protocol ends the run with a description of the violation.
func TestProtocolViolations(t *testing.T) {
	for answer, want := range map[string]string{
		"boom":                             `violates the protocol: "boom"`,
		"end":                              "its stdout has ended",
		`{"id":99,"ok":true}`:              "answered 99, which is an unknown request",
		`{"id":%d,"ok":true}`:              "without a new handle",
		`{"ok":true}`:                      "neither an answer nor a notification",
		`{"id":%d}`:                        "neither ok nor a known refusal",
		`{"id":%d,"no":"maybe"}`:           `"maybe"`,
		`{"id":%d,"ok":true,"no":"taken"}`: "both ok and",
		`{"id":%d,"ok":true,"handle":"h","until":12}`:                    `clock ""`,
		`{"id":%d,"ok":true,"handle":"h","until":"soon","clock":"wall"}`: "not a number",
		`{"renewed":"h7"}`:          "unknown handle",
		strings.Repeat("x", 10<<20): "longer than",
		"{\"id\":%d,\"ok\":true,\"handle\":\"h\"}\n{\"id\":3,\"ok\":true}": "already answered",
	} {
		synctest.Test(t, func(t *testing.T) {
			a := open(t, answers{"acquire": answer})
			_, err := a.Acquire(t.Context(), "k", 0)
			for range 3 { // a surplus line isn't noticed until the next request
				if err == nil {
					synctest.Wait()
					err = a.Ping(t.Context())
				}
			}
			if !errors.Is(err, lock.ErrBroken) || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: %v; want %q", answer, err, want)
			}
		})
	}
}

// Whole numbers may be sent as strings.
func TestNumbersMayBeStrings(t *testing.T) {
	a, err := startScripted(t, `{"hello":"1","name":"x","grain":"1000"}`+"\n", answers{"open": `{"id":"%d","ok":true,"quorum":"3"}`}.respond)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context(), "c1", nil, lock.Settings{}); err != nil || a.Quorum != 3 || a.Hello.TTLUnit != 1000 {
		t.Errorf("%v, quorum %d, grain %d; want 3 and 1000", err, a.Quorum, a.Hello.TTLUnit)
	}
}

// A deadline is an instant: a slow answer neither shortens nor extends the lease.
func TestDeadlineIsInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		mono, wall := start.UnixNano()-epoch+9e9, start.UnixNano()+8e9
		for answer, want := range map[string]time.Duration{
			fmt.Sprintf(`{"id":%%d,"ok":true,"handle":"h","until":%d,"clock":"monotonic"}`, mono):        9 * time.Second,
			fmt.Sprintf(`{"id":%%d,"ok":true,"handle":"h","until":"%d","clock":"monotonic"}`, mono):      9 * time.Second,
			fmt.Sprintf(`{"id":%%d,"ok":true,"handle":"h","until":%d,"clock":"wall"}`, wall):             8 * time.Second,
			fmt.Sprintf(`{"id":%%d,"ok":true,"handle":"h","until":%.17e,"clock":"wall"}`, float64(wall)): 8 * time.Second,
			`{"id":%d,"ok":true,"handle":"h"}`:              -1,
			`{"id":%d,"ok":true,"handle":"h","until":null}`: -1,
		} {
			a, err := startScripted(t, hello, func(m map[string]any, out io.Writer) {
				if m["op"] == "acquire" {
					time.Sleep(3 * time.Second)
				}
				answers{"acquire": answer}.respond(m, out)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Open(t.Context(), "c1", nil, lock.Settings{}); err != nil {
				t.Fatal(err)
			}
			h, err := a.Acquire(t.Context(), "k", 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if want < 0 {
				if !h.Deadline().IsZero() {
					t.Errorf("%s: deadline %v, want none", answer, h.Deadline())
				}
				continue
			}
			if difference := h.Deadline().Sub(start) - want; difference.Abs() > time.Microsecond {
				t.Errorf("%s: the deadline is off by %v", answer, difference)
			}
		}
	})
}

// An adapter is rejected if its wall clock differs from its client's, because faults would not
// affect that clock.
func TestRejectsWrongWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := startScripted(t, hello, answers{"clock": `{"id":%d,"ok":true,"monotonic":1,"wall":1}`}.respond)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Open(t.Context(), "c1", nil, lock.Settings{}); !errors.Is(err, lock.ErrBroken) || !strings.Contains(err.Error(), "wall clock") {
			t.Errorf("open: %v", err)
		}
	})
}

// A loss is reported immediately, even if it arrives before the handle. A renewal changes the
// deadline.
func TestLossAndRenewalNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(t, answers{
			"acquire": `{"lost":"h","why":"gone"}` + "\n" + `{"id":%d,"ok":true,"handle":"h","until":5,"clock":"wall"}`,
			"extend":  `{"renewed":"h","until":7,"clock":"wall"}` + "\n" + `{"id":%d,"no":"not-held","why":"not yours"}`,
			"release": `{"id":%d,"no":"unknown"}`,
		})
		h, err := a.Acquire(t.Context(), "k", 0)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-h.Lost():
		default:
			t.Error("no notification of the loss")
		}
		if err := h.Extend(t.Context()); !errors.Is(err, lock.ErrNotHeld) || !strings.Contains(err.Error(), "not yours") {
			t.Errorf("extend: %v", err)
		}
		select {
		case <-h.Renewed():
		default:
			t.Error("no notification of the renewal")
		}
		if got := h.Deadline().UnixNano(); got != 7 || !h.ByWall() {
			t.Errorf("deadline %d", got)
		}
		if err := h.Release(t.Context()); err == nil || errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrBroken) {
			t.Errorf("release: %v", err)
		}
	})
}

// A canceled acquire is answered once. If it gets the lock anyway, the lock is released.
func TestCanceledAcquireIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []string
		a, err := startScripted(t, hello, func(m map[string]any, out io.Writer) {
			requests = append(requests, m["op"].(string))
			switch m["op"] {
			case "acquire":
			case "cancel":
				fmt.Fprintf(out, `{"id":%d,"ok":true}`+"\n", int(m["id"].(float64)))
				fmt.Fprintf(out, `{"id":%d,"ok":true,"handle":"h"}`+"\n", int(m["of"].(float64)))
			default:
				answers{}.respond(m, out)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if h, err := a.Acquire(ctx, "k", time.Minute); h != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: %v, %v", h, err)
		}
		if got := strings.Join(requests, " "); got != "acquire cancel release" {
			t.Errorf("requests: %s", got)
		}
	})
}

// If a library hangs, its adapter is not broken as long as it answers pings. The caller keeps
// waiting.
func TestHangingLibraryIsNotBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isSilent atomic.Bool
		a, err := startScripted(t, hello, func(m map[string]any, out io.Writer) {
			if m["op"] != "acquire" && !isSilent.Load() {
				answers{}.respond(m, out)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := a.Acquire(context.WithoutCancel(t.Context()), "k", time.Second)
			done <- err
		}()
		select {
		case err := <-done:
			t.Errorf("the call returned: %v", err)
		case <-time.After(time.Hour):
		}
		isSilent.Store(true)
		if err := <-done; !errors.Is(err, lock.ErrBroken) || !strings.Contains(err.Error(), "ping") {
			t.Errorf("acquire: %v", err)
		}
	})
}

// A virtual machine that loads a library on a busy host is slow but not broken.
func TestSlowOpenIsNotBroken(t *testing.T) {
	open := func(t *testing.T, delay time.Duration) error {
		a, err := startScripted(t, hello, func(m map[string]any, out io.Writer) {
			if m["op"] == "open" {
				time.Sleep(delay)
			}
			answers{}.respond(m, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		return a.Open(t.Context(), "c1", nil, lock.Settings{})
	}
	synctest.Test(t, func(t *testing.T) {
		if err := open(t, 29*time.Second); err != nil {
			t.Errorf("after 29 s: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		err := open(t, 31*time.Second)
		time.Sleep(2 * time.Second) // wait for the late answer, in virtual time
		if !errors.Is(err, lock.ErrBroken) || !strings.Contains(err.Error(), "no answer to open within 30s") || strings.Contains(err.Error(), "lock") {
			t.Errorf("after 31 s: %v", err)
		}
	})
}
