//go:build unix

package redlock_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockpick/redlock"
)

var stopCount = flag.Int("stops", 20, "number of processes that TestStoppedPastTheDeadline stops")

// maxConcurrent limits the number of concurrent processes. Stopped processes use no CPU, so the
// machine is not busy when they resume.
const maxConcurrent = 20

// When a process resumes after the deadline, its leases have ended, whether their contexts were in
// use before the stop or are requested afterward. Each process stops once and checks one lease of
// each kind.
func TestStoppedPastTheDeadline(t *testing.T) {
	if os.Getenv("LOCKPICK_TEST_STOPS") != "" {
		stopPastTheDeadline(t)
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrent)
	for range *stopCount {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if output, err := stopOne(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
	wg.Wait()
}

// stopOne runs a process until it stops itself, resumes it when its leases are over, and returns
// its output.
func stopOne() (string, error) {
	output, err := os.CreateTemp("", "stopped")
	if err != nil {
		return "", err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStoppedPastTheDeadline$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "LOCKPICK_TEST_STOPS=1")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer cmd.Process.Kill()
	numStops := 0
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
			return "", fmt.Errorf("wait for the process: %w", err)
		}
		if !status.Stopped() {
			break
		}
		numStops++
		time.Sleep(shortTTL + shortTTL/3) // past the leases' deadline
		if err := syscall.Kill(cmd.Process.Pid, syscall.SIGCONT); err != nil {
			return "", err
		}
	}
	text, err := os.ReadFile(output.Name())
	if numStops != 1 || status.ExitStatus() != 0 {
		err = fmt.Errorf("the process was stopped %d times and exited with status %d", numStops, status.ExitStatus())
	}
	return string(text), err
}

const shortTTL = 300 * time.Millisecond

// stopPastTheDeadline is the main function of the processes that stopOne runs.
func stopPastTheDeadline(t *testing.T) {
	l, err := redlock.New(redlock.Config{TTL: shortTTL, Nodes: []redlock.Node{grantingNode{}, grantingNode{}, grantingNode{}}})
	if err != nil {
		t.Fatal(err)
	}
	unused, inUse := lease(t, l), lease(t, l)
	before := inUse.Context()
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for inUse.Remaining() > 0 { // the signal may take effect slightly later
	}
	errBefore, errAfter := before.Err(), unused.Context().Err()
	if errBefore == nil || errAfter == nil || !isClosed(before.Done()) || !isClosed(unused.Context().Done()) {
		t.Errorf("%v after the deadline: Err is %v for the context in use, and %v for the context requested afterward", -inUse.Remaining(), errBefore, errAfter)
	}
	wantCause(t, before, redlock.ErrExpired)
	wantCause(t, unused.Context(), redlock.ErrExpired)
}

// grantingNode grants everything.
type grantingNode struct{}

func (grantingNode) Set(context.Context, string, string, time.Duration) (bool, error) {
	return true, nil
}
func (grantingNode) Extend(context.Context, string, string, time.Duration) (bool, error) {
	return true, nil
}
func (grantingNode) Release(context.Context, string, string) (bool, error) { return true, nil }
