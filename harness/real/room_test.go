//go:build !windows

package real

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

// echoClient echoes each line. It exits with status 0 on "end", and with status 4, in the middle of
// a line, on "4".
const echoClient = `while read -r line; do echo "{\"at\":\"$$ $line\"}"; case "$line" in end) exit 0;; 4) printf '{"at":"bro'; exit 4;; esac; done; exit 1`

func TestClientLoop(t *testing.T) {
	in, input := io.Pipe()
	replies, out := io.Pipe()
	afterExitCalls := 0
	done := make(chan error, 1)
	go func() {
		done <- ClientLoop(in, out, os.Stderr, []string{"sh", "-c", echoClient}, func() { afterExitCalls++ })
		out.Close()
	}()
	lines := bufio.NewScanner(replies)
	send := func(line string) { io.WriteString(input, line+"\n") }
	nextLine := func() string {
		t.Helper()
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		t.Fatalf("ClientLoop's output has ended: %v", lines.Err())
		return ""
	}
	expect := func(want string) (pid string) {
		t.Helper()
		got := nextLine()
		pid, line, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(got, `{"at":"`), `"}`), " ")
		if line != want {
			t.Fatalf("the client got %q, want %q", got, want)
		}
		return pid
	}
	send("go") // ignored, because no client has an order yet
	send("{}")
	first := expect("{}")
	send("go")
	expect("go")
	send("end")
	expect("end")
	if got := nextLine(); got != `{"left":{}}` {
		t.Errorf("exit was reported as %s", got)
	}
	send("go") // late, for the first client
	send("{}")
	if second := expect("{}"); second == first {
		t.Error("the second client runs in the first client's process")
	}
	send("4")
	expect("4")
	if partialLine, got := nextLine(), nextLine(); partialLine != `{"at":"bro` || got != `{"left":{"error":"exit status 4"}}` {
		t.Errorf("exit was reported as %s, after %s", got, partialLine)
	}
	input.Close()
	if err := <-done; err != nil || afterExitCalls != 2 {
		t.Errorf("ClientLoop returned %v and called afterExit %d times, want 2", err, afterExitCalls)
	}
}

func TestClientLoopProgramFails(t *testing.T) {
	in, _ := io.Pipe()
	if err := ClientLoop(in, io.Discard, io.Discard, []string{"false"}, nil); err == nil || !strings.Contains(err.Error(), "before it received an order") {
		t.Errorf("program that exits immediately: %v", err)
	}
	if err := ClientLoop(in, io.Discard, io.Discard, []string{"/none"}, nil); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("missing program: %v", err)
	}
}
