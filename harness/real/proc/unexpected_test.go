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

// waitState returns a step that waits until /proc shows the given state.
func state(want byte) step {
	return func(t *testing.T, c *Child) {
		for until := time.Now().Add(signalTimeout); ; time.Sleep(time.Millisecond) {
			if s, err := files.StatOf(c.PID()); err != nil || s.State == want {
				must(t, err)
				return
			}
			if time.Now().After(until) {
				t.Fatalf("state is not %c after %v", want, signalTimeout)
			}
		}
	}
}

// Listen reports what other processes do to a child, and the exit of a child that must run. It does
// not report what the Group itself does.
func TestUnexpectedEvents(t *testing.T) {
	type steps []step
	sleep, fail := []string{"sleep", "60"}, []string{"sh", "-c", "read line; exit 3"}
	for name, c := range map[string]struct {
		command []string
		mustRun bool
		steps   steps
		want    string
	}{
		"our own signals":                 {sleep, true, steps{stop, cont, stop, cont, kill}, ""},
		"external kill":                   {sleep, false, steps{send(syscall.SIGKILL), waitEnd}, "ended by signal 9"},
		"external kill, then ours":        {sleep, false, steps{send(syscall.SIGKILL), state('X'), kill}, "ended by signal 9"},
		"external kill while paused":      {sleep, false, steps{stop, send(syscall.SIGKILL), waitEnd}, "ended by signal 9"},
		"external SIGTERM":                {sleep, false, steps{send(syscall.SIGTERM), waitEnd}, "ended by signal 15"},
		"external stop":                   {sleep, false, steps{send(syscall.SIGSTOP), state('T')}, "was stopped"},
		"external stop, then our kill":    {sleep, false, steps{send(syscall.SIGSTOP), state('T'), kill}, "was stopped"},
		"external stop and continue":      {sleep, false, steps{send(syscall.SIGSTOP), state('T'), send(syscall.SIGCONT), state('S')}, "was stopped"},
		"external SIGTSTP":                {sleep, false, steps{send(syscall.SIGTSTP), state('T')}, "was stopped"},
		"external continue while paused":  {sleep, false, steps{stop, send(syscall.SIGCONT), state('S')}, "was continued"},
		"external continue while running": {sleep, false, steps{stop, cont, send(syscall.SIGCONT), state('S')}, ""},
		"exit by itself":                  {fail, false, steps{waitEnd}, ""},
		"unexpected exit by itself":       {fail, true, steps{waitEnd}, "ended with exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t)
			child, err := g.Start("child", exec.Command(c.command[0], c.command[1:]...))
			must(t, err)
			if c.mustRun {
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
			for _, step := range c.steps {
				step(t, child)
			}
			stopListening()
			if got := strings.Join(reported, "; "); got != c.want {
				t.Errorf("reported %q, want %q", got, c.want)
			}
		})
	}
}

// Events that occur before Listen is called are reported once it is called.
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
