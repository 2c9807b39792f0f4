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

// Why a verb is to end before it has done all.
var (
	errInterrupted = errors.New("interrupted")
	errUnread      = errors.New("ended, for nobody reads the result,")
)

const (
	// endBound is how long it may take to put away what a run has made: longer than with an
	// engine that hangs.
	endBound = 3 * time.Minute

	// echoBound is within which one wish may come twice: from the terminal and from whoever
	// started us, as timeout sends a signal to its child and then to all of its group.
	echoBound = 100 * time.Millisecond
)

// interrupts is a context that a signal ends: Ctrl-C, SIGTERM, and that the terminal is
// closed, unless that is to be survived, as nohup says. A second signal ends the program at
// once, and so does endBound, whatever it may be waiting for: the next start sweeps then.
func interrupts() (ctx context.Context, end context.CancelCauseFunc, stop func()) {
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
		first, late := time.Now(), time.After(endBound)
		for {
			select {
			case s := <-came:
				// A closed terminal says so several times: its kernel, and the shell.
				if s == syscall.SIGHUP || time.Since(first) < echoBound {
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

// tidies says that the verb has things to put away when it is interrupted. The others only
// read, and are left where they stand.
func (a *app) tidies() {
	a.tidy.Store(true)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // to write to nobody is an error then, no end
}

// isPart reports whether this process is a part of a run, as a client is or the links. A worker is
// none: it ends with its input.
func isPart(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], "__") && args[0] != workerVerb
}

// endsPart is interrupts for a part of a run. A signal ends it as it ends any process, so that
// whoever waits for it sees which one it was. For the first process of a container the kernel
// does nothing by default: that one ends with the exit status that a shell would show.
func endsPart() (ctx context.Context, end context.CancelCauseFunc, stop func()) {
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
