package campaign

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// death is why a worker gave no answer: the exit code that this calls for, the reason,
// and what to do about it.
type death struct {
	code      int
	why, hint string
}

func startFailed(err error) death {
	if hint := files.Remedy(err, files.TempDirHint); hint != "" {
		return death{outcome.ExitBackend, fmt.Sprintf("start worker: %v", err), hint}
	}
	return death{outcome.ExitBug, fmt.Sprintf("start worker: %v", err), ""}
}

// TooLong begins the error of a run that took longer than it may.
const TooLong = "the run did not end within "

// outside lists the signals by which others end a program. By any other it ended itself.
var outside = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// died tells how a worker came to its end that has ended by itself: a bug in lockpick,
// or that somebody killed it, or that the machine was short of something. The exit
// status of Go's runtime is 2 for most of these, and says nothing.
func (w *Worker) died() death {
	if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && slices.Contains(outside, status.Signal()) {
		return death{outcome.ExitBackend, fmt.Sprintf("the worker was killed in this run (%v)", w.cmd.ProcessState),
			"if nobody did it, the kernel did for want of memory, as dmesg tells: allow more, or use fewer clients"}
	}
	last := w.said.reason()
	if strings.HasPrefix(last, "SIGQUIT:") {
		return death{outcome.ExitBackend, "the worker was told to quit in this run (" + last + ")", "let it run to its end"}
	}
	if hint := files.Remedy(errors.New(last), ""); hint != "" {
		return death{outcome.ExitBackend, "the worker died in this run: " + last, hint}
	}
	if last == "" {
		last = w.cmd.ProcessState.String()
	}
	return death{outcome.ExitBug, "the worker died in this run: " + last, ""}
}

// speech is what a worker has printed on its standard error since its job began.
type speech struct {
	mu   sync.Mutex
	text []byte
}

// longestSpeech bounds what is kept: the reason stands first, and then all goroutines.
const longestSpeech = 4 << 20

func (s *speech) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b[:min(len(b), longestSpeech-len(s.text))]...)
	return len(b), nil
}

func (s *speech) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = s.text[:0]
}

func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// reason is the line in which Go's runtime says why it ends a program; "": there is none.
func (s *speech) reason() string {
	for line := range strings.Lines(s.String()) {
		for _, begin := range []string{"panic: ", "fatal error: ", "SIG", "runtime: out of memory", "runtime: failed to create", "error: "} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// keep writes it to a file, and says which: it is long, and seldom read.
func (s *speech) keep(folder string, j Job) string {
	text := s.String()
	if text == "" {
		return ""
	}
	name := fmt.Sprintf("lockpick-stack-%s-%d-%.8s.txt", strings.ReplaceAll(j.Scenario.ID(), "/", "+"), j.Seed, rand.Text())
	if err := files.WriteIn(folder, name, []byte(text)); err != nil {
		return fmt.Sprintf("; its stacks could not be kept: %v:\n%s", err, text)
	}
	return "; its stacks are in " + filepath.Join(folder, name)
}
