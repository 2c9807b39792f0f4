//go:build !windows

package real

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

// echoClient echoes each line. It exits on "end", and with status 4 on "4", in the middle of a line.
const guest = `while read -r line; do echo "{\"at\":\"$$ $line\"}"; case "$line" in end) exit 0;; 4) printf '{"at":"bro'; exit 4;; esac; done; exit 1`

func TestRoom(t *testing.T) {
	in, says := io.Pipe()
	hears, out := io.Pipe()
	cleared := 0
	done := make(chan error, 1)
	go func() {
		done <- ClientLoop(in, out, os.Stderr, []string{"sh", "-c", guest}, func() { cleared++ })
		out.Close()
	}()
	lines := bufio.NewScanner(hears)
	tell := func(line string) { io.WriteString(says, line+"\n") }
	hear := func() string {
		t.Helper()
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		t.Fatalf("ClientLoop's output has ended: %v", lines.Err())
		return ""
	}
	said := func(want string) (pid string) {
		t.Helper()
		got := hear()
		pid, line, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(got, `{"at":"`), `"}`), " ")
		if line != want {
			t.Fatalf("the client got %q, want %q", got, want)
		}
		return pid
	}
	tell("go") // ignored, because no client has an order
	tell("{}")
	first := said("{}")
	tell("go")
	said("go")
	tell("end")
	said("end")
	if got := hear(); got != `{"left":{}}` {
		t.Errorf("exit was reported as %s", got)
	}
	tell("go") // late, for the first client
	tell("{}")
	if second := said("{}"); second == first {
		t.Error("the second client runs in the first one's process")
	}
	tell("4")
	said("4")
	if broken, got := hear(), hear(); broken != `{"at":"bro` || got != `{"left":{"error":"exit status 4"}}` {
		t.Errorf("exit was reported as %s, after %s", got, broken)
	}
	says.Close()
	if err := <-done; err != nil || cleared != 2 {
		t.Errorf("ClientLoop returned %v, and called cleared %d times", err, cleared)
	}
}

func TestRoomOfNobody(t *testing.T) {
	in, _ := io.Pipe()
	if err := ClientLoop(in, io.Discard, io.Discard, []string{"false"}, nil); err == nil || !strings.Contains(err.Error(), "before it had an order") {
		t.Errorf("a program that exits at once: %v", err)
	}
	if err := ClientLoop(in, io.Discard, io.Discard, []string{"/none"}, nil); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a missing program: %v", err)
	}
}
