//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// A runningProcess is a lockpick process that has recorded the first events of a run on the process
// backend.
type runningProcess struct {
	*testing.T
	*exec.Cmd
	tmp, store string
}

// Lengths of runs, which a real backend scales to a tenth. Short runs end by themselves; endless runs
// need a signal.
const shortRun, endlessRun = "5s", "10m"

// startRun starts a run, and waits until its first events have been recorded. If script is not "",
// a shell runs it first.
func startRun(t *testing.T, length, script string, configure func(*exec.Cmd)) runningProcess {
	t.Helper()
	needRedis(t)
	r := runningProcess{t, nil, t.TempDir(), t.TempDir()}
	args := []string{"lockpick", "run", "baseline/", "--backend", "process", "--set", "workload.for=" + length, "--set", "workload.cycles=50000", "--set", "limit=11m", "--store", r.store}
	if script != "" {
		args = append([]string{"sh", "-c", script + `; exec "$@"`, "sh"}, args...)
	}
	r.Cmd = exec.Command(args[0], args[1:]...)
	r.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if configure != nil {
		configure(r.Cmd)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Process.Kill() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		paths, _ := filepath.Glob(filepath.Join(r.store, "baseline", "*", "history.jsonl"))
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Size() > 1000 {
				return r
			}
		}
		if time.Now().After(end) {
			t.Fatal("nothing was recorded")
		}
	}
}

// awaitEnd waits until lockpick has ended, and checks that it exited with want, stored a verdict,
// and left nothing behind.
func (r runningProcess) awaitEnd(want int) {
	r.Helper()
	timer := time.AfterFunc(time.Minute, func() { r.Errorf("lockpick did not end within a minute"); r.Process.Kill() })
	defer timer.Stop()
	if err, exit := r.Wait(), new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		r.Error(err)
	}
	if r.ProcessState.ExitCode() != want {
		r.Errorf("ended with %v, want exit code %d", r.ProcessState, want)
	}
	all, _ := filepath.Glob(filepath.Join(r.store, "baseline", "*-*-*")) // several, if it was retried
	for _, dir := range all {
		if o, err := campaign.ReadOutcome(dir); err == nil && o.Events == 0 && len(o.RetryReasons) > 0 {
			continue // a retry that was ended before it started
		}
		if _, err := os.Stat(filepath.Join(dir, "verdict.json")); err != nil {
			r.Error(err)
		}
	}
	if leftovers, err := os.ReadDir(r.tmp); err != nil || len(leftovers) > 0 {
		r.Errorf("left behind: %v, %v", leftovers, err)
	}
}

func (r runningProcess) sendSignal(s syscall.Signal) {
	r.Helper()
	if err := r.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

// TestClosedTerminalEndsARun checks that closing the terminal interrupts a run, as SIGTERM does.
func TestClosedTerminalEndsARun(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	var unlocked, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := startRun(t, endlessRun, "", func(c *exec.Cmd) {
		c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	})
	tty.Close()
	terminal.Close()
	r.awaitEnd(130)
}

// TestIgnoredHangupEndsNothing checks that a run started with nohup continues.
func TestIgnoredHangupEndsNothing(t *testing.T) {
	t.Parallel()
	r := startRun(t, shortRun, `trap "" HUP`, nil)
	r.sendSignal(syscall.SIGHUP)
	r.awaitEnd(0)
}

// TestTermIsNeverIgnored checks that SIGTERM ends a run even if the parent process ignores it.
func TestTermIsNeverIgnored(t *testing.T) {
	t.Parallel()
	r := startRun(t, endlessRun, `trap "" TERM`, nil)
	r.sendSignal(syscall.SIGTERM)
	r.awaitEnd(130)
}

// TestUnreadOutput checks that lockpick ends if nobody reads its output: with a full pipe, when it
// receives a signal; with a broken pipe, by itself.
func TestUnreadOutput(t *testing.T) {
	for name, c := range map[string]struct {
		full   bool
		signal syscall.Signal
		want   int
	}{
		"full":   {full: true, signal: syscall.SIGTERM, want: 130},
		"broken": {want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			if c.full {
				fillPipe(t, to)
			} else {
				from.Close()
			}
			r := startRun(t, shortRun, "", func(cmd *exec.Cmd) { cmd.Stdout = to; cmd.Stderr = to })
			to.Close()
			if c.signal != 0 {
				// Wait until lockpick blocks while it prints the result.
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if found, _ := filepath.Glob(filepath.Join(r.store, "baseline", "*-*", "report.html")); len(found) > 0 {
						break
					}
				}
				r.sendSignal(c.signal)
			}
			r.awaitEnd(c.want)
		})
	}
}

func fillPipe(t *testing.T, to *os.File) {
	t.Helper()
	if err := to.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(to, zeros{}, 1<<30); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	to.SetWriteDeadline(time.Time{})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestInterruptedJSON checks that the JSON output, the stored outcome and the exit code of an
// interrupted sweep agree. A sweep whose reader closes the pipe does not count as interrupted.
func TestInterruptedJSON(t *testing.T) {
	for name, want := range map[string]int{"interrupted": outcome.ExitInterrupt, "unread": outcome.ExitBackend} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := t.TempDir()
			cmd := exec.Command("lockpick", "run", "baseline/", "--seeds", "1000000", "--json", "--store", store)
			var output strings.Builder
			cmd.Stderr = &output
			from, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			firstBytes := make([]byte, 1000)
			if _, err := io.ReadFull(from, firstBytes); err != nil {
				t.Fatal(err)
			}
			codes := map[string]int{}
			recordCode := func(place string, text []byte) {
				var o struct {
					Code *int `json:"code"`
				}
				if err := json.Unmarshal(text, &o); err != nil || o.Code == nil {
					t.Fatalf("%s: %v", place, err)
				}
				codes[place] = *o.Code
			}
			if name == "unread" {
				from.Close()
			} else {
				cmd.Process.Signal(os.Interrupt)
				rest, err := io.ReadAll(from)
				if err != nil {
					t.Fatal(err)
				}
				recordCode("printed", append(firstBytes, rest...))
			}
			cmd.Wait()
			text, err := os.ReadFile(filepath.Join(store, "suites", "latest", "outcome.json"))
			if err != nil {
				t.Fatalf("%v\n%s", err, output.String())
			}
			recordCode("stored", text)
			codes["exit"] = cmd.ProcessState.ExitCode()
			for place, code := range codes {
				if code != want {
					t.Errorf("%s: code %d, want %d", place, code, want)
				}
			}
			if strings.Contains(output.String(), "interrupted after") != (name == "interrupted") {
				t.Errorf("output:\n%s", output.String())
			}
		})
	}
}

// TestInterruptedIsNotFailed checks that an interrupted run on real servers is reported as
// interrupted.
func TestInterruptedIsNotFailed(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	r := startRun(t, endlessRun, "", func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = &output, &output })
	r.sendSignal(os.Interrupt.(syscall.Signal))
	r.awaitEnd(outcome.ExitInterrupt)
	for _, want := range []string{"1 run on process, seed 1: 1 interrupted\n", "\nbaseline: interrupted\n", "interrupted after 0 of 1 runs"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("no %q in:\n%s", want, output.String())
		}
	}
	if strings.Contains(output.String(), "FAILED") {
		t.Errorf("reported as failed:\n%s", output.String())
	}
}

// TestUnreadRunCompletes checks that a run whose reader has closed the pipe, as in "| head", is not
// reported as interrupted. Standard error must be empty, except for progress on an overloaded
// machine.
func TestUnreadRunCompletes(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	defer to.Close()
	var output strings.Builder
	cmd := exec.Command("lockpick", "run", "baseline/", "--store", t.TempDir())
	cmd.Stdout, cmd.Stderr = to, &output
	cmd.Run()
	progress := regexp.MustCompile(`(?m)^0 of 1 runs done, \d+ s\n`)
	if cmd.ProcessState.ExitCode() != outcome.ExitBackend || progress.ReplaceAllString(output.String(), "") != "" {
		t.Errorf("%v:\n%s", cmd.ProcessState, output.String())
	}
	// SIGPIPE ends commands that only print, as help exit-codes says.
	cmd = exec.Command("lockpick", "list")
	cmd.Stdout = to
	cmd.Run()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGPIPE || !strings.Contains(topicText("exit-codes"), "141  ended by SIGPIPE") {
		t.Errorf("list: %v", cmd.ProcessState)
	}
}
