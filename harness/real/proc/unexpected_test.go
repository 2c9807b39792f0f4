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
func stop(t *testing.T, c *Child)     { _, err := c.Stop(); must(t, err) }
func resume(t *testing.T, c *Child)   { _, err := c.Continue(); must(t, err) }
func kill(t *testing.T, c *Child)     { must(t, c.Kill()) }
func waitExit(_ *testing.T, c *Child) { <-c.Done() }

// waitState returns a step that waits until /proc shows the given state.
func waitState(want byte) step {
	return func(t *testing.T, c *Child) {
		for deadline := time.Now().Add(signalTimeout); ; time.Sleep(time.Millisecond) {
			if s, err := files.StatOf(c.PID()); err != nil || s.State == want {
				must(t, err)
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("state is not %c after %v", want, signalTimeout)
			}
		}
	}
}

// Listen reports what other processes do to a child, and the exit of a child that must run. It does
// not report what the Group itself does.
func TestUnexpectedEvents(t *testing.T) {
	type steps []step
	sleepCommand, failCommand := []string{"sleep", "60"}, []string{"sh", "-c", "read line; exit 3"}
	for name, c := range map[string]struct {
		command []string
		mustRun bool
		steps   steps
		want    string
	}{
		"our own signals":                 {sleepCommand, true, steps{stop, resume, stop, resume, kill}, ""},
		"external kill":                   {sleepCommand, false, steps{send(syscall.SIGKILL), waitExit}, "ended by signal 9"},
		"external kill, then ours":        {sleepCommand, false, steps{send(syscall.SIGKILL), waitState('X'), kill}, "ended by signal 9"},
		"external kill while paused":      {sleepCommand, false, steps{stop, send(syscall.SIGKILL), waitExit}, "ended by signal 9"},
		"external SIGTERM":                {sleepCommand, false, steps{send(syscall.SIGTERM), waitExit}, "ended by signal 15"},
		"external stop":                   {sleepCommand, false, steps{send(syscall.SIGSTOP), waitState('T')}, "was stopped"},
		"external stop, then our kill":    {sleepCommand, false, steps{send(syscall.SIGSTOP), waitState('T'), kill}, "was stopped"},
		"external stop and continue":      {sleepCommand, false, steps{send(syscall.SIGSTOP), waitState('T'), send(syscall.SIGCONT), waitState('S')}, "was stopped"},
		"external SIGTSTP":                {sleepCommand, false, steps{send(syscall.SIGTSTP), waitState('T')}, "was stopped"},
		"external continue while paused":  {sleepCommand, false, steps{stop, send(syscall.SIGCONT), waitState('S')}, "was continued"},
		"external continue while running": {sleepCommand, false, steps{stop, resume, send(syscall.SIGCONT), waitState('S')}, ""},
		"exit by itself":                  {failCommand, false, steps{waitExit}, ""},
		"unexpected exit by itself":       {failCommand, true, steps{waitExit}, "ended with exit status 3"},
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
	if len(reported) != 1 || reported[0].Child != "child" || reported[0].Kind != EventEnded || !child.KilledExternally() {
		t.Errorf("reported %+v", reported)
	}
}
