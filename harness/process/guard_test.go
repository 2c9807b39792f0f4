//go:build linux

package process

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
)

// awaitUnplanned waits until an unplanned event has been reported for a process.
func (b testRun) awaitUnplanned(node, op string) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		var got []string
		for _, u := range *b.reportedEvents {
			got = append(got, u.Node+" "+u.Op)
		}
		b.mu.Unlock()
		if slices.Contains(got, node+" "+op) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s of %s was not reported; got only %q", op, node, got)
		}
	}
}

// endScript ends the script that a server is running. The server accepts SCRIPT KILL only after the
// script has exceeded its time limit.
func (b testRun) endScript(addr string) {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		output := b.ask(addr, "SCRIPT", "KILL")
		if output == "OK" || strings.HasPrefix(output, "NOTBUSY") {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("the script is still running: %s", output)
		}
	}
}

// Every kind of interference with a process is reported.
func TestInterferenceIsReported(t *testing.T) {
	t.Parallel()
	run(t, func(b testRun) {
		b.mu.Lock()
		b.expectedNodes["n1"], b.expectedNodes["c1"] = true, true
		b.mu.Unlock()
		n1 := b.Server("n1").Addr()
		b.ask(n1, "CONFIG", "SET", "lua-time-limit", "5000") // after this time it answers BUSY
		b.ask(n1, "EVAL", "while true do end", "0")
		b.awaitUnplanned("n1", "pause")
		b.endScript(n1)

		at, proceed := make(chan string), make(chan struct{})
		done := b.start(clientSpec("c1", 1, client.Point{Name: client.AfterAcquire, Nth: 1}), func(point string) {
			at <- point
			<-proceed
		})
		receive(t, "point", at)
		pid := b.Client("c1").Program.(*child).PID()
		b.mustDo("pause", func() (string, error) { return b.Pause("c1") })
		syscall.Kill(pid, syscall.SIGCONT)
		b.awaitUnplanned("c1", "go-on")
		syscall.Kill(pid, syscall.SIGKILL)
		b.awaitUnplanned("c1", "kill")
		close(proceed)
		if err := receive(t, "end of c1", done); !errors.Is(err, harness.ErrKilled) {
			t.Errorf("c1 ended with %v", err)
		}
	})
}
