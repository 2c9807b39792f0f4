//go:build linux

package proc

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/internal/files"
)

// step performs an action on a child, or waits.
type step func(*testing.T, *Child)

func send(s syscall.Signal) step {
	return func(t *testing.T, c *Child) { must(t, syscall.Kill(c.PID(), s)) }
}
func stop(t *testing.T, c *Child)    { _, err := c.Stop(); must(t, err) }
func cont(t *testing.T, c *Child)    { _, err := c.Continue(); must(t, err) }
func kill(t *testing.T, c *Child)    { must(t, c.Kill()) }
func waitEnd(_ *testing.T, c *Child) { <-c.Done() }

// state returns a step that waits until /proc shows the given state.
func state(want byte) step {
	return func(t *testing.T, c *Child) {
		for until := time.Now().Add(signalTimeout); ; time.Sleep(time.Millisecond) {
			if s, err := files.StatOf(c.PID()); err != nil || s.State == want {
				must(t, err)
				return
			}
			if time.Now().After(until) {
				t.Fatalf("the state is not %c", want)
			}
		}
	}
}

// Listen reports what other processes do to a child. It also reports the exit of a child that is
// expected to run. It does not report anything that the Group itself did.
func TestUnexpectedEvents(t *testing.T) {
	type course []step
	sleep, fail := []string{"sleep", "60"}, []string{"sh", "-c", "read line; exit 3"}
	for name, c := range map[string]struct {
		command []string
		stays   bool
		course  course
		want    string
	}{
		"our own signals":                 {sleep, true, course{stop, cont, stop, cont, kill}, ""},
		"external kill":                   {sleep, false, course{send(syscall.SIGKILL), waitEnd}, "ended by signal 9"},
		"external kill, then ours":        {sleep, false, course{send(syscall.SIGKILL), state('X'), kill}, "ended by signal 9"},
		"external kill while paused":      {sleep, false, course{stop, send(syscall.SIGKILL), waitEnd}, "ended by signal 9"},
		"external SIGTERM":                {sleep, false, course{send(syscall.SIGTERM), waitEnd}, "ended by signal 15"},
		"external stop":                   {sleep, false, course{send(syscall.SIGSTOP), state('T')}, "was stopped"},
		"external stop, then our kill":    {sleep, false, course{send(syscall.SIGSTOP), state('T'), kill}, "was stopped"},
		"external stop and continue":      {sleep, false, course{send(syscall.SIGSTOP), state('T'), send(syscall.SIGCONT), state('S')}, "was stopped"},
		"external SIGTSTP":                {sleep, false, course{send(syscall.SIGTSTP), state('T')}, "was stopped"},
		"external continue while paused":  {sleep, false, course{stop, send(syscall.SIGCONT), state('S')}, "was continued"},
		"external continue while running": {sleep, false, course{stop, cont, send(syscall.SIGCONT), state('S')}, ""},
		"exit by itself":                  {fail, false, course{waitEnd}, ""},
		"unexpected exit by itself":       {fail, true, course{waitEnd}, "ended with exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t)
			child, err := g.Start("child", exec.Command(c.command[0], c.command[1:]...))
			must(t, err)
			if c.stays {
				child.ExpectToRun()
			}
			var reported []string
			stopListening := g.Listen(func(x UnexpectedEvent) {
				text := x.Cause
				for _, part := range []string{"was stopped", "was continued", "ended by signal 9", "ended by signal 15", "ended with exit status 3"} {
					if strings.Contains(x.Cause, part) {
						text = part
					}
				}
				reported = append(reported, text)
			})
			for _, step := range c.course {
				step(t, child)
			}
			stopListening()
			if got := strings.Join(reported, "; "); got != c.want {
				t.Errorf("reported %q, want %q", got, c.want)
			}
		})
	}
}

// Events that occurred before Listen was called are reported once it is called.
func TestUnexpectedEventBeforeListen(t *testing.T) {
	g := newGroup(t)
	child, err := g.Start("child", exec.Command("sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	var reported []UnexpectedEvent
	stopListening := g.Listen(func(x UnexpectedEvent) { reported = append(reported, x) })
	stopListening()
	if len(reported) != 1 || reported[0].Child != "child" || reported[0].Kind != Ended || !child.KilledExternally() {
		t.Errorf("reported %+v", reported)
	}
}
