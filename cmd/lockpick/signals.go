package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"lockpick/scenarios/outcome"
)

// Reasons for ending a command early.
var (
	errInterrupted  = errors.New("interrupted")
	errOutputClosed = errors.New("stopped because the reader of the output is gone,")
)

const (
	// cleanupTimeout limits the time to clean up after a run. It is longer than the cleanup takes
	// with a container engine that hangs.
	cleanupTimeout = 3 * time.Minute

	// echoWindow is the time within which one request may arrive as two signals: from the terminal
	// and from the parent. For example, timeout signals its child and then the whole group.
	echoWindow = 100 * time.Millisecond
)

// interruptContext returns a context that ends on Ctrl-C, SIGTERM or a closed terminal (unless nohup
// ignores that). A second signal ends the program at once, and so does cleanupTimeout, whatever it is
// waiting for; the next start then cleans up.
func interruptContext() (ctx context.Context, end context.CancelCauseFunc, stop func()) {
	came := make(chan os.Signal, 8)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(came, syscall.SIGHUP)
	}
	over := make(chan struct{})
	ctx, end = context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-came:
		case <-over:
			return
		}
		end(errInterrupted)
		first, late := time.Now(), time.After(cleanupTimeout)
		for {
			select {
			case s := <-came:
				// For a closed terminal both the kernel and the shell send SIGHUP.
				if s == syscall.SIGHUP || time.Since(first) < echoWindow {
					continue
				}
			case <-late:
			case <-over:
				return
			}
			os.Exit(outcome.ExitInterrupt)
		}
	}()
	return ctx, end, func() { signal.Stop(came); close(over) }
}

// waitForCleanup marks a command that must clean up when it is interrupted. Other commands only
// read, and are abandoned.
func (a *app) waitForCleanup() {
	a.needsCleanup.Store(true)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writing to a closed pipe is then an error and does not end the process
}

// isPart reports whether this process is part of a run, such as a client or the links. A worker is
// not, because it ends when its input ends.
func isPart(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], "__") && args[0] != workerVerb
}

// partContext is interruptContext for a part of a run. A signal kills it like any process, so that
// the parent sees which signal it was. The kernel has no default action for the first process of a
// container, so that one exits with the status that a shell would show.
func partContext() (ctx context.Context, end context.CancelCauseFunc, stop func()) {
	ctx, end = context.WithCancelCause(context.Background())
	if os.Getpid() != 1 {
		return ctx, end, func() {}
	}
	came := make(chan os.Signal, 1)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if s, ok := (<-came).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	}()
	return ctx, end, func() {}
}
