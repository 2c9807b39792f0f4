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

// Causes of a canceled context.
var (
	errInterrupted  = errors.New("interrupted")
	errOutputClosed = errors.New("stopped because nothing reads the output anymore,")
)

const (
	// cleanupTimeout is the time limit for cleaning up after a run. It is longer than the
	// cleanup takes with an unresponsive container engine.
	cleanupTimeout = 3 * time.Minute

	// echoWindow is the time within which two signals count as one. For example, timeout(1)
	// signals its child and then the whole process group.
	echoWindow = 100 * time.Millisecond
)

// newInterruptContext returns a context that is canceled on Ctrl-C, SIGTERM or, except under nohup, when the
// terminal is closed. A second signal, or the end of cleanupTimeout, exits at once, whatever the
// program is waiting for. The next lockpick process then cleans up.
func newInterruptContext() (ctx context.Context, cancel context.CancelCauseFunc, stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	stopCh := make(chan struct{})
	ctx, cancel = context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-signals:
		case <-stopCh:
			return
		}
		cancel(errInterrupted)
		first, timeoutCh := time.Now(), time.After(cleanupTimeout)
		for {
			select {
			case s := <-signals:
				// When a terminal is closed, both the kernel and the shell send
				// SIGHUP.
				if s == syscall.SIGHUP || time.Since(first) < echoWindow {
					continue
				}
			case <-timeoutCh:
			case <-stopCh:
				return
			}
			os.Exit(outcome.ExitInterrupt)
		}
	}()
	return ctx, cancel, func() { signal.Stop(signals); close(stopCh) }
}

// waitForCleanup makes an interrupted process wait until the command has cleaned up. Commands that
// only read need no cleanup.
func (a *app) waitForCleanup() {
	a.needsCleanup.Store(true)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // so that writing to a closed pipe returns an error instead of ending the process
}

// isPart reports whether this process is part of a run, such as a client or the links. A worker is
// not: it ends when its input ends.
func isPart(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], "__") && args[0] != workerVerb
}

// newPartContext is newInterruptContext for a part of a run. A signal kills the process, as usual, so that
// its parent sees which signal it was. A container's first process has no default signal actions, so
// it exits with the status that a shell would report.
func newPartContext() (ctx context.Context, cancel context.CancelCauseFunc, stop func()) {
	ctx, cancel = context.WithCancelCause(context.Background())
	if os.Getpid() != 1 {
		return ctx, cancel, func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if s, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	}()
	return ctx, cancel, func() {}
}
