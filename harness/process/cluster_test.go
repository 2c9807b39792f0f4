//go:build linux

package process

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

func noPoint(string) {}

func TestRunsClientsAndRecordsBothSides(t *testing.T) {
	events := run(t, func(b testRun) {
		if err := b.RunClient(t.Context(), clientSpec("c1", 2), noPoint); err != nil {
			t.Error(err)
		}
		if err := b.RunClient(t.Context(), clientSpec("c2", 1), noPoint); err != nil {
			t.Error(err)
		}
		if now := b.Now(); now <= 0 || now > time.Minute {
			t.Errorf("true time is %v, want more than 0 and at most a minute", now)
		}
	})
	count := map[string]int{}
	history.Sort(events)
	for _, e := range events {
		count[fmt.Sprint(e.Process, " ", e.Op, " ", e.Type)]++
		if e.T <= 0 || e.T > int64(time.Minute) {
			t.Errorf("event %+v has an invalid true time", e)
		}
	}
	for what, n := range map[string]int{
		"c1 acquire ok": 2, "c1 release ok": 2, "c1 client end": 1, "c2 client end": 1,
		"c1-n1 set ok": 2, "c1-n1 release ok": 2, "c1-n2 set ok": 2, "c2-n2 set ok": 1, "c2-n1 set ok": 0,
	} {
		if count[what] != n {
			t.Errorf("got %d events %q, want %d", count[what], what, n)
		}
	}
	// In true time, the links' events are between the client's events.
	first := func(process, op string, typ history.Type) int {
		return slices.IndexFunc(events, func(e history.Event) bool { return e.Process == process && e.Op == op && e.Type == typ })
	}
	invoke, wire, ok := first("c1", "acquire", history.Invoke), first("c1-n1", "set", history.OK), first("c1", "acquire", history.OK)
	if !(invoke < wire && wire < ok) {
		t.Errorf("acquire called at index %d, answered by the node at %d, returned at %d; want increasing indexes", invoke, wire, ok)
	}
}

func TestPauseAtPointIsExact(t *testing.T) {
	run(t, func(b testRun) {
		at := make(chan string)
		proceed := make(chan struct{})
		done := b.start(clientSpec("c1", 1, client.Point{Name: client.AfterAcquire, Nth: 1}), func(point string) {
			at <- point
			<-proceed
		})
		if p := receive(t, "point", at); p != client.AfterAcquire {
			t.Errorf("stopped at point %s", p)
		}
		readback := b.mustDo("pause", func() (string, error) { return b.Pause("c1") })
		if states := readback[strings.LastIndex(readback, " ")+1:]; strings.Trim(states, "T") != "" || states == "" {
			t.Errorf("read back %q, want all threads in state T", readback)
		}
		if _, err := b.Pause("c1"); err == nil {
			t.Error("a paused client could be paused again")
		}
		close(proceed)
		resumed := make(chan time.Duration, 1)
		b.At(b.Now()+50*time.Millisecond, func() {
			resumed <- b.Now()
			b.mustDo("resume", func() (string, error) { return b.Resume("c1") })
		})
		if err := receive(t, "end of the client", done); err != nil {
			t.Error(err)
		}
		since := receive(t, "resumption", resumed)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range *b.events {
			if e.Process == "c1" && e.Op == history.OpRelease && time.Duration(e.T) < since {
				t.Errorf("the client recorded %v %v at %v, but was paused until %v", e.Op, e.Type, time.Duration(e.T), since)
			}
		}
	})
}

func TestKilledClientReturnsErrKilled(t *testing.T) {
	run(t, func(b testRun) {
		err := b.RunClient(t.Context(), clientSpec("c1", 1, client.Point{Name: client.AfterAcquire}), func(string) {
			b.mustDo("kill", func() (string, error) { return b.Kill("c1") })
		})
		if !errors.Is(err, harness.ErrKilled) {
			t.Errorf("error: %v, want ErrKilled", err)
		}
		if _, err := b.Pause("c1"); err == nil {
			t.Error("a dead client could be paused")
		}
		if readback := b.mustDo("resume", func() (string, error) { return b.Resume("c1") }); readback != "it has ended" {
			t.Errorf("resume returned %q", readback)
		}
	})
}

func TestClientThatFailsToRun(t *testing.T) {
	run(t, func(b testRun) {
		s := clientSpec("c1", 1)
		s.Lock.Kind = "padlock"
		if err := b.RunClient(t.Context(), s, noPoint); err == nil || !strings.Contains(err.Error(), `unknown kind "padlock"`) {
			t.Errorf("unknown lock: %v", err)
		}
		b.cfg.Self = []string{"/bin/sh", "-c", "echo it hurts >&2; exit 7"}
		if err := b.RunClient(t.Context(), clientSpec("c1", 1), noPoint); err == nil || !strings.Contains(err.Error(), "it hurts") && !strings.Contains(err.Error(), "pipe") {
			t.Errorf("broken client: %v", err)
		}
		b.cfg.Self = []string{"/bin/echo", "nonsense"}
		if err := b.RunClient(t.Context(), clientSpec("c1", 1), noPoint); err == nil || !strings.Contains(err.Error(), "c1") {
			t.Errorf("client with invalid output: %v", err)
		}
		if err := b.RunClient(t.Context(), clientSpec("c9", 1), noPoint); err == nil {
			t.Error("a client that is not in the scenario could be run")
		}
	})
}

func TestKillAndRestartNode(t *testing.T) {
	run(t, func(b testRun) {
		addr := b.Server("n1").Addr()
		if _, err := proc.Ask(t.Context(), addr, "SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		if readback := b.mustDo("kill", func() (string, error) { return b.Kill("n1") }); !strings.HasSuffix(readback, "has ended") {
			t.Errorf("kill returned %q", readback)
		}
		if _, err := b.Kill("n1"); err == nil {
			t.Error("a dead node could be killed")
		}
		if readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") }); !strings.Contains(readback, "run_id") || !strings.HasSuffix(readback, "(keys: 0)") {
			t.Errorf("restart returned %q", readback)
		}
		if _, err := b.Restart("n1"); err == nil {
			t.Error("a running node could be started again")
		}
		// The client's address leads to the new process.
		conn := dial(t, b.addr("c1", 0))
		fmt.Fprint(conn, "GET k\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "$-1\r\n" {
			t.Errorf("after the restart, k is %q, %v", line, err)
		}
	})
}

// A client that keeps sending commands must not reach a restarted node before the node has been
// read back.
func TestRestartIsReadBackBeforeClientsConnect(t *testing.T) {
	run(t, func(b testRun) {
		var done atomic.Bool
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for !done.Load() {
					proc.Ask(t.Context(), b.addr("c1", 0), "SET", "k", "v")
				}
			})
		}
		for range 10 {
			b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
			if readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(readback, " (keys: 0)") {
				t.Errorf("restart returned %q", readback)
			}
		}
		done.Store(true)
		clients.Wait()
		if _, err := proc.Ask(t.Context(), b.addr("c1", 0), "SET", "k", "v"); err != nil {
			t.Errorf("after the restarts: %v", err)
		}
	})
}

func TestCutIsReadBack(t *testing.T) {
	events := run(t, func(b testRun) {
		if readback := b.mustDo("cut", func() (string, error) { return b.Cut("c1-n1", "", "") }); !strings.Contains(readback, "no answer") {
			t.Errorf("cut returned %q", readback)
		}
		if readback := b.mustDo("mend", func() (string, error) { return b.Mend("c1-n1") }); readback != "PING was answered" {
			t.Errorf("mend returned %q", readback)
		}
		b.mustDo("cut", func() (string, error) { return b.Cut("c1-r1", nemesis.CutHold, "") })
		b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
		b.mustDo("cut", func() (string, error) { return b.Cut("c1-n1", "", "") })
		if readback := b.mustDo("mend", func() (string, error) { return b.Mend("c1-n1") }); !strings.Contains(readback, "the node is down") {
			t.Errorf("mend of a dead node's link returned %q", readback)
		}
		for _, link := range []string{"c2-n1", "c1-n9"} {
			if _, err := b.Cut(link, "", ""); err == nil || !strings.Contains(err.Error(), link) {
				t.Errorf("cut %s: %v", link, err)
			}
		}
		if _, err := b.Cut("c1-n2", "saw", ""); err == nil {
			t.Error("an unknown mode was accepted")
		}
	})
	events = slices.DeleteFunc(events, func(e history.Event) bool { return e.Life != nil && e.Life.Kind == history.KeyGap }) // caused by the kill
	if len(events) > 0 {
		t.Errorf("the read-back was recorded: %+v", events)
	}
}

func TestTapHoldsMessage(t *testing.T) {
	run(t, func(b testRun) {
		hit := make(chan func(), 1)
		err := b.Tap(nemesis.OnMessage{Link: "c1-n1", Message: "set", Of: nemesis.Reply, Nth: 1}, func(m nemesis.HeldMessage) { hit <- m.Pass })
		if err != nil {
			t.Fatal(err)
		}
		done := b.start(clientSpec("c1", 1), noPoint)
		pass := receive(t, "message", hit)
		if v, err := proc.Ask(t.Context(), b.Server("n1").Addr(), "GET", "lock-c1"); err != nil || v.Str == "" {
			t.Errorf("while the reply is held, the key is %+v, %v", v, err)
		}
		pass()
		if err := receive(t, "end of the client", done); err != nil {
			t.Error(err)
		}
	})
}

func TestResourceRepliesAsGoValues(t *testing.T) {
	run(t, func(b testRun) {
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"SET", "k", "v"}, `"OK"`}, {[]string{"GET", "k"}, `"v"`}, {[]string{"GET", "none"}, `<nil>`},
			{[]string{"INCR", "n"}, `1`}, {[]string{"MGET", "k", "none"}, `[]interface {}{"v", interface {}(nil)}`},
		} {
			if got, err := b.Resource(t.Context(), c.args...); err != nil || fmt.Sprintf("%#v", got) != c.want {
				t.Errorf("%v: %#v, %v; want %s", c.args, got, err, c.want)
			}
		}
		if v, err := b.Resource(t.Context(), "INCR", "k"); err == nil || v != nil {
			t.Errorf("INCR on a string: %v, %v", v, err)
		}
		if _, err := b.Resource(t.Context()); err == nil {
			t.Error("an empty command was accepted")
		}
	})
}

func TestNoTimersAfterRun(t *testing.T) {
	ran := make(chan string, 3)
	var c *cluster
	run(t, func(b testRun) {
		c = b.cluster
		b.At(0, func() { ran <- "past" })
		b.At(time.Hour, func() { ran <- "an hour later" })
		if got := receive(t, "timer", ran); got != "past" {
			t.Error(got)
		}
	})
	c.At(0, func() { ran <- "after the run" })
	c.Wait()
	if len(ran) > 0 {
		t.Errorf("timer ran after the run: %s", <-ran)
	}
}
