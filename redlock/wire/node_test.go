package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock/driver"
	"lockpick/redlock/wire"
)

func runInBubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Releases share a script and are sent first, but never before the set that they undo.
func TestBatch(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		n := f.node(nil)
		for _, token := range []string{"1", "2"} {
			a.submit(n, driver.OpSet, token)
		}
		n.Flush()
		synctest.Wait()
		a.submit(n, driver.OpSet, "3")
		two, one := a.submit(n, driver.OpRelease, "2"), a.submit(n, driver.OpRelease, "1")
		three, none := a.submit(n, driver.OpRelease, "3"), a.submit(n, driver.OpRelease, "0")
		a.submit(n, driver.OpSet, "4")
		n.Flush()
		synctest.Wait()
		want(t, "commands", strings.Join(f.commands(), ", "), "SET k1 1, SET k2 2, RELEASE k2 2 k1 1, SET k3 3, RELEASE k3 3 k0 0, SET k4 4")
		want(t, "answers to releases", []string{a.get(one), a.get(two), a.get(three), a.get(none)}, "[1 1 1 0]")
	})
}

// In random bursts of requests, operations with the same token are executed in order, and each
// operation is answered once.
func TestOperationsStayInOrder(t *testing.T) {
	for seed := range uint64(50) {
		runInBubble(t, func(t *testing.T) {
			f, a := newFake(t), &answers{}
			n := f.node(nil)
			rng := rand.New(rand.NewPCG(seed, 0))
			var sent []string
			var open []string
			for i := range 400 {
				if rng.IntN(2) == 0 || len(open) == 0 {
					open = append(open, fmt.Sprint(i))
					sent = append(sent, open[len(open)-1])
					a.submit(n, driver.OpSet, open[len(open)-1])
				} else {
					at := rng.IntN(len(open))
					a.submit(n, driver.OpRelease, open[at])
					open = slices.Delete(open, at, at+1)
				}
				if rng.IntN(20) == 0 {
					n.Flush()
				}
				if rng.IntN(50) == 0 {
					synctest.Wait()
				}
			}
			for _, token := range open {
				a.submit(n, driver.OpRelease, token)
			}
			n.Flush()
			synctest.Wait()
			// A release executed before its set would leave the key behind.
			want(t, "keys left", f.keys, "map[]")
			for r, got := range a.got {
				want(t, "answer to "+r.Token, got, "1")
			}
			want(t, "answers", len(a.got), 2*len(sent))
		})
	}
}

// If a node accepts requests but sends no replies, each request is answered at its deadline, and
// the connection is replaced a quarter of the timeout later. The unanswered releases are sent first
// on the next connection.
func TestUnresponsiveNode(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		n := f.node(nil)
		held := a.submit(n, driver.OpSet, "held")
		n.Flush()
		synctest.Wait()
		hold := make(chan struct{})
		f.update(func() { f.resume = hold })
		start := time.Now()
		set, release := a.submit(n, driver.OpSet, "late"), a.submit(n, driver.OpRelease, "held")
		n.Flush()
		time.Sleep(timeout / 2)
		second := a.submit(n, driver.OpSet, "later")
		n.Flush()
		time.Sleep(timeout/2 - 1)
		want(t, "answer before the deadline", a.get(set)+a.get(release), "")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, "answers at the deadline", a.get(set)+", "+a.get(release), "no answer in time, no answer in time")
		time.Sleep(timeout/4 - 1)
		want(t, "connections", f.numDials(), 1)
		want(t, "answer to the second set", a.get(second), "")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, "connections after another quarter", f.numDials(), 2)
		want(t, "answer to the second set", a.get(second), "no answer in time: the node is unresponsive")
		want(t, "time until the answer", a.at[second].Sub(start), timeout*5/4)
		f.update(func() { f.resume, f.log = nil, nil })
		close(hold)
		synctest.Wait()
		after := a.submit(n, driver.OpSet, "after")
		n.Flush()
		synctest.Wait()
		want(t, "answers", a.get(held)+a.get(after), "11")
		did := f.commands()
		releaseAt := slices.Index(did, "RELEASE kheld held")
		if releaseAt < 0 || releaseAt > slices.Index(did, "SET kafter after") {
			t.Errorf("commands: %v; want the pending release first", did)
		}
	})
}

// Pending releases are sent as soon as there is a connection, unless the key has expired. A set
// that was never sent needs no release.
func TestPendingReleases(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		n := f.node(nil)
		a.submit(n, driver.OpSet, "1")
		a.submit(n, driver.OpSet, "2")
		n.Flush()
		synctest.Wait()
		f.update(func() { f.dialErr, f.log = errRefused, nil; f.conns[0].Close() })
		synctest.Wait()
		short := &driver.Request{Op: driver.OpRelease, Key: "k1", Token: "1", Terms: driver.Terms{TTL: timeout}, Deadline: time.Now().Add(timeout), Collector: a}
		n.Submit(short)
		synctest.Wait()
		unsent := a.submit(n, driver.OpSet, "3")
		for _, token := range []string{"2", "3"} {
			a.submit(n, driver.OpRelease, token)
		}
		for r, got := range a.got {
			if got != "1" && got != "connect to n:1: connection refused" {
				t.Errorf("answer to %s: %s", r.Token, got)
			}
		}
		want(t, "answer to the unsent set", a.get(unsent), "connect to n:1: connection refused")
		time.Sleep(3 * timeout)
		f.update(func() { f.dialErr = nil })
		time.Sleep(timeout)
		synctest.Wait()
		want(t, "commands", strings.Join(f.commands(), ", "), "RELEASE k2 2")
	})
}

// A granted key is released even if the holder's next request was never sent.
func TestPendingReleaseAfterFailedRequest(t *testing.T) {
	for name, op := range map[string]driver.Op{"extended": driver.OpExtend, "fence raised": driver.OpRaiseFence} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T) {
				f, a := newFake(t), &answers{}
				n := f.node(nil)
				for _, token := range []string{"1", "2"} {
					a.submit(n, driver.OpSet, token)
				}
				n.Flush()
				synctest.Wait()
				f.update(func() { f.dialErr, f.log = errRefused, nil; f.conns[0].Close() })
				synctest.Wait()
				a.submit(n, op, "1") // waits for a connection that can't be established
				synctest.Wait()
				a.submit(n, op, "2") // submitted after the failure
				for _, token := range []string{"1", "2"} {
					a.submit(n, driver.OpRelease, token)
				}
				time.Sleep(3 * timeout)
				f.update(func() { f.dialErr = nil })
				time.Sleep(timeout)
				synctest.Wait()
				want(t, "commands", strings.Join(f.commands(), ", "), "RELEASE k1 1 k2 2")
			})
		})
	}
}

// If a node forgets its scripts, requests are resent with the scripts' full text. None is lost or
// reordered.
func TestResendsForgottenScripts(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		n := f.node(nil)
		for i := range 5 {
			a.submit(n, driver.OpSet, fmt.Sprint(i))
		}
		n.Flush()
		synctest.Wait()
		f.update(func() { clear(f.scripts); f.log = nil })
		for i := range 4 {
			a.submit(n, driver.OpRelease, fmt.Sprint(i))
		}
		fenced := a.submit(n, driver.OpSetFenced, "f")
		n.Flush()
		synctest.Wait()
		want(t, "commands", strings.Join(f.commands(), ", "), "RELEASE k0 0 k1 1 k2 2 k3 3, SCRIPT kf kf:fence f 1000")
		want(t, "count", a.get(fenced), 7)
		f.update(func() { clear(f.scripts); f.log = nil })
		// The release is submitted before the node replies that it does not know the script for the
		// set.
		fenced = a.submit(n, driver.OpSetFenced, "g")
		n.Flush()
		a.submit(n, driver.OpRelease, "g")
		n.Flush()
		synctest.Wait()
		want(t, "commands", strings.Join(f.commands(), ", "), "RELEASE kg g")
		want(t, "answer to the set", a.get(fenced), "NOSCRIPT No matching script.")
	})
}

// After this process was paused, replies waiting in the socket are read before any request times
// out.
func TestPausedProcess(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		var ahead atomic.Int64
		n := f.node(func(o *wire.Options) { o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
		a.submit(n, driver.OpSet, "1")
		n.Flush()
		synctest.Wait()
		f.update(func() { f.delay = timeout + timeout/8 })
		set := a.submit(n, driver.OpSet, "x")
		n.Flush()
		time.Sleep(timeout / 2)
		ahead.Store(int64(time.Hour))
		time.Sleep(timeout)
		synctest.Wait()
		want(t, "answer", a.get(set), 1)
		want(t, "connections", f.numDials(), 1)
	})
}

// An invalid reply ends the connection with an error.
func TestInvalidReplies(t *testing.T) {
	for invalidReply, reason := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n":   `the node sent "HTTP/1.1 400 Bad Request", which is not a valid reply`,
		"x\n":                            `the node sent "x", which is not RESP2`,
		":1\r\n:1\r\n":                   "the node sent an unexpected reply",
		"+OK\r\n":                        "the node sent an unexpected reply",
		"$1\r\n1\r\n":                    "the node sent an unexpected reply",
		"+QUEUED\r\n":                    `the node sent "+QUEUED", which is not a valid reply`,
		"*2\r\n:1\r\n:1\r\n":             "the node sent an unexpected reply",
		":" + strings.Repeat("1", 1<<16): "the node sent a line of more than 32768 bytes",
	} {
		runInBubble(t, func(t *testing.T) {
			f, a := newFake(t), &answers{}
			n := f.node(nil)
			first := a.submit(n, driver.OpSet, "1")
			n.Flush()
			synctest.Wait()
			f.update(func() { f.reply = invalidReply })
			second := a.submit(n, driver.OpExtend, "1")
			n.Flush()
			synctest.Wait()
			got := a.get(second)
			if strings.HasPrefix(invalidReply, ":1\r") { // the first of the two replies is valid
				f.update(func() { f.reply = "" })
				n.Flush()
				synctest.Wait()
				want(t, "answers", a.get(first)+a.get(second), "11")
				return
			}
			want(t, "answer", got, reason)
		})
	}
}

// The only valid replies to SET are OK and null.
func TestInvalidRepliesToSet(t *testing.T) {
	for _, invalidReply := range []string{":1\r\n", ":0\r\n", "$1\r\n1\r\n", "+1\r\n", "*1\r\n:1\r\n"} {
		runInBubble(t, func(t *testing.T) {
			f, a := newFake(t), &answers{}
			n := f.node(nil)
			a.submit(n, driver.OpExtend, "1")
			n.Flush()
			synctest.Wait()
			f.update(func() { f.reply = invalidReply })
			set := a.submit(n, driver.OpSet, "2")
			n.Flush()
			synctest.Wait()
			if got := a.get(set); !strings.Contains(got, "the node sent") {
				t.Errorf("reply %q to SET: got %s", invalidReply, got)
			}
		})
	}
}

// A server that does not complete the handshake like a Redis server gets no votes.
func TestInvalidHandshake(t *testing.T) {
	for _, fixedReply := range []string{"+OK\r\n", "*3\r\n:1\r\n+OK\r\n:1\r\n", strings.Repeat(":1\r\n", 40)} {
		runInBubble(t, func(t *testing.T) {
			f, a := newFake(t), &answers{}
			f.reply = fixedReply
			set := a.submit(f.node(nil), driver.OpSet, "1")
			synctest.Wait()
			if got := a.get(set); !strings.Contains(got, "is this a Redis server?") {
				t.Errorf("reply %q to every command: got %s", fixedReply, got)
			}
		})
	}
}

// The handshake depends on the options, and its errors are reported.
func TestHandshake(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f := newFake(t)
		ctx := context.Background()
		n := f.node(func(o *wire.Options) { o.Username, o.Password, o.DB, o.ClientName = "u", "p", 3, "me" })
		if yes, err := n.Set(ctx, "k", "t", time.Second); !yes || err != nil {
			t.Errorf("set: %v, %v", yes, err)
		}
		want(t, "commands", strings.Join(f.commands(), ", "), "AUTH u p, SELECT 3, CLIENT SETNAME me, SET k t")
		f.update(func() { f.log, f.reply = nil, "-WRONGPASS no\r\n" })
		n = f.node(func(o *wire.Options) { o.Password = "p" })
		_, err := n.Set(ctx, "k", "t", time.Second)
		want(t, "error", err, "connect to n:1: AUTH: WRONGPASS no (check the user name and the password; ACL LIST on the node says which users are enabled)")
		want(t, "commands", f.commands()[0], "AUTH p")
	})
}

// The previous connection is killed by its ID, but not if the server process has changed, because
// the ID then belongs to another connection. If it can't be killed, the new connection is not used.
func TestKillsPreviousConnection(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f := newFake(t)
		n := f.node(nil)
		reconnect := func() error {
			f.update(func() { f.conns[len(f.conns)-1].Close() })
			synctest.Wait()
			_, err := n.Set(t.Context(), "k", "t", time.Second)
			return err
		}
		n.Set(t.Context(), "k", "t", time.Second)
		want(t, "second connection", reconnect(), nil)
		want(t, "third connection", reconnect(), nil)
		f.update(func() { f.runID = "process-2" })
		want(t, "new server process", reconnect(), nil)
		f.update(func() { f.runID, f.nextID = "", 0 })
		want(t, "unknown server process", reconnect(), nil)
		want(t, "unknown server process again", reconnect(), nil)
		f.update(func() { f.nextID = 0 })
		want(t, "lower connection ID", reconnect(), nil)
		f.update(func() { want(t, "kills", f.kills, "[1 2 1]"); f.denyKill, f.nextID = true, 5 })
		want(t, "CLIENT KILL not allowed", reconnect(), "connect to n:1: CLIENT KILL: NOPERM no (allow it in the node's ACL; the documentation of package redlock/driver lists what a lock needs)")
	})
}

// Requests to unreachable nodes fail no later than their deadlines, and no goroutines are left.
func TestUnreachable(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fakeNode, o *wire.Options)
		after  time.Duration
		err    string
	}{
		"refused dial":      {func(f *fakeNode, _ *wire.Options) { f.dialErr = errRefused }, 0, "connect to n:1: connection refused"},
		"unresponsive node": {func(f *fakeNode, _ *wire.Options) { f.delay = time.Hour }, timeout, "no answer in time"},
		"hanging dial":      {func(f *fakeNode, o *wire.Options) { o.Dial = dialUnresponsive }, timeout, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T) {
				f := newFake(t)
				n := f.node(func(o *wire.Options) { c.change(f, o) })
				for range 3 {
					start := time.Now()
					_, err := n.Set(context.Background(), "k", "t", time.Second)
					want(t, "error", err, c.err)
					want(t, "duration", time.Since(start), c.after)
				}
				n.Close()
				_, err := n.Release(context.Background(), "k", "t")
				want(t, "error after Close", err, "the node is closed")
				for _, c := range f.conns {
					c.Close()
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// Close answers all waiting requests.
func TestClose(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		n := f.node(nil)
		f.update(func() { f.resume = make(chan struct{}) })
		queued := a.submit(n, driver.OpSet, "1")
		n.Close()
		want(t, "answer", a.get(queued), "the node is closed")
		close(f.resume)
		n = f.node(nil)
		f.update(func() { f.resume = nil })
		a.submit(n, driver.OpSet, "2")
		n.Flush()
		synctest.Wait()
		f.update(func() { f.delay = time.Second })
		set := a.submit(n, driver.OpSet, "3")
		n.Flush()
		synctest.Wait()
		n.Close()
		want(t, "answer", a.get(set), "the node is closed")
		time.Sleep(time.Hour)
	})
}

// A call returns when its context ends, but its request continues.
func TestContext(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f := newFake(t)
		n := f.node(nil)
		f.update(func() { f.delay = time.Millisecond })
		ctx, cancel := context.WithCancelCause(context.Background())
		reason := errors.New("no longer wanted")
		cancel(reason)
		if _, err := n.Set(ctx, "k", "t", time.Second); !errors.Is(err, reason) {
			t.Errorf("error: %v, want %v", err, reason)
		}
		time.Sleep(timeout)
		f.update(func() { want(t, "keys", f.keys, "map[k:t]") })
	})
}

func dialUnresponsive(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A node works over TLS and over a Unix socket.
func TestTLSAndUnix(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	path := filepath.Join(t.TempDir(), "s")
	plain, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := tls.Listen("tcp", "127.0.0.1:0", web.TLS)
	if err != nil {
		t.Fatal(err)
	}
	trust := web.Client().Transport.(*http.Transport).TLSClientConfig
	for _, c := range []struct {
		l net.Listener
		o wire.Options
	}{{plain, wire.Options{Addr: path}}, {tcp, wire.Options{Addr: tcp.Addr().String(), TLS: trust}}} {
		f := newFake(t)
		go func() {
			for {
				conn, err := c.l.Accept()
				if err != nil {
					return
				}
				go f.serve(conn)
			}
		}()
		c.o.Timeout, c.o.DialTimeout = 10*time.Second, 10*time.Second
		n := wire.New(c.o)
		if yes, err := n.Set(t.Context(), "k", "t", time.Second); !yes || err != nil {
			t.Errorf("set over %s: %v, %v", c.o.Addr, yes, err)
		}
		if yes, err := n.Release(t.Context(), "k", "t"); !yes || err != nil {
			t.Errorf("release over %s: %v, %v", c.o.Addr, yes, err)
		}
		n.Close()
		c.l.Close()
	}
	n := wire.New(wire.Options{Addr: tcp.Addr().String(), TLS: &tls.Config{}, Timeout: 10 * time.Second})
	defer n.Close()
	if _, err := n.Set(t.Context(), "k", "t", time.Second); err == nil {
		t.Error("the node trusted an unknown certificate")
	}
}
