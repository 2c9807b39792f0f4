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

// step is something that is done to a child, or waited for.
type step func(*testing.T, *Child)

func send(s syscall.Signal) step {
	return func(t *testing.T, c *Child) { must(t, syscall.Kill(c.PID(), s)) }
}
func stop(t *testing.T, c *Child) { _, err := c.Stop(); must(t, err) }
func goOn(t *testing.T, c *Child) { _, err := c.Continue(); must(t, err) }
func kill(t *testing.T, c *Child) { must(t, c.Kill()) }
func end(_ *testing.T, c *Child)  { <-c.Done() }

// state waits until /proc says that it is so.
func state(want byte) step {
	return func(t *testing.T, c *Child) {
		for until := time.Now().Add(signalBound); ; time.Sleep(time.Millisecond) {
			if s, err := files.StatOf(c.PID()); err != nil || s.State == want {
				must(t, err)
				return
			}
			if time.Now().After(until) {
				t.Fatalf("it is not %c", want)
			}
		}
	}
}

// What a Group does to its children is nobody's news; what others do is, and what they do
// themselves that are to stay.
func TestUnasked(t *testing.T) {
	type course []step
	sleep, fail := []string{"sleep", "60"}, []string{"sh", "-c", "read line; exit 3"}
	for name, c := range map[string]struct {
		command []string
		stays   bool
		course  course
		want    string
	}{
		"our own":                   {sleep, true, course{stop, goOn, stop, goOn, kill}, ""},
		"a kill":                    {sleep, false, course{send(syscall.SIGKILL), end}, "ended by signal 9"},
		"a kill by us too":          {sleep, false, course{send(syscall.SIGKILL), state('X'), kill}, "ended by signal 9"},
		"a kill of who is paused":   {sleep, false, course{stop, send(syscall.SIGKILL), end}, "ended by signal 9"},
		"a plea":                    {sleep, false, course{send(syscall.SIGTERM), end}, "ended by signal 15"},
		"a stop":                    {sleep, false, course{send(syscall.SIGSTOP), state('T')}, "was stopped"},
		"a stop and our kill":       {sleep, false, course{send(syscall.SIGSTOP), state('T'), kill}, "was stopped"},
		"a stop and its end":        {sleep, false, course{send(syscall.SIGSTOP), state('T'), send(syscall.SIGCONT), state('S')}, "was stopped"},
		"another stop":              {sleep, false, course{send(syscall.SIGTSTP), state('T')}, "was stopped"},
		"the end of our stop":       {sleep, false, course{stop, send(syscall.SIGCONT), state('S')}, "was continued"},
		"the end of our stop twice": {sleep, false, course{stop, goOn, send(syscall.SIGCONT), state('S')}, ""},
		"an end of its own":         {fail, false, course{end}, ""},
		"an end of who is to stay":  {fail, true, course{end}, "ended with exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t)
			child, err := g.Start("child", exec.Command(c.command[0], c.command[1:]...))
			must(t, err)
			if c.stays {
				child.Stays()
			}
			var told []string
			over := g.Listen(func(x Unasked) {
				text := x.Cause
				for _, part := range []string{"was stopped", "was continued", "ended by signal 9", "ended by signal 15", "ended with exit status 3"} {
					if strings.Contains(x.Cause, part) {
						text = part
					}
				}
				told = append(told, text)
			})
			for _, step := range c.course {
				step(t, child)
			}
			over()
			if got := strings.Join(told, "; "); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

// What was done before anybody listens is told then.
func TestUnaskedBefore(t *testing.T) {
	g := newGroup(t)
	child, err := g.Start("child", exec.Command("sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	var told []Unasked
	over := g.Listen(func(x Unasked) { told = append(told, x) })
	over()
	if len(told) != 1 || told[0].Child != "child" || told[0].What != Ended || !child.Struck() {
		t.Errorf("told %+v", told)
	}
}
