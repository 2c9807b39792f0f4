//go:build !windows

package real

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

// A guest echoes what it is told until it is told to end; told "4", with status 4.
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
		t.Fatalf("the room has ended: %v", lines.Err())
		return ""
	}
	said := func(want string) (pid string) {
		t.Helper()
		got := hear()
		pid, line, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(got, `{"at":"`), `"}`), " ")
		if line != want {
			t.Fatalf("it heard %q, want %q", got, want)
		}
		return pid
	}
	tell("go") // before there is an order it is nobody's
	tell("{}")
	first := said("{}")
	tell("go")
	said("go")
	tell("end")
	said("end")
	if got := hear(); got != `{"left":{}}` {
		t.Errorf("it left as %s", got)
	}
	tell("go") // late
	tell("{}")
	if second := said("{}"); second == first {
		t.Error("the second client is the first one's process")
	}
	tell("4")
	said("4")
	if broken, got := hear(), hear(); broken != `{"at":"bro` || got != `{"left":{"error":"exit status 4"}}` {
		t.Errorf("it left as %s, after %s", got, broken)
	}
	says.Close()
	if err := <-done; err != nil || cleared != 2 {
		t.Errorf("the room ended with %v, cleared %d times", err, cleared)
	}
}

func TestRoomOfNobody(t *testing.T) {
	in, _ := io.Pipe()
	if err := ClientLoop(in, io.Discard, io.Discard, []string{"false"}, nil); err == nil || !strings.Contains(err.Error(), "before it had an order") {
		t.Errorf("a program that ends at once: %v", err)
	}
	if err := ClientLoop(in, io.Discard, io.Discard, []string{"/none"}, nil); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a program that is not there: %v", err)
	}
}
