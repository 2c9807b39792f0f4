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

// running is a lockpick in the middle of a run on processes, in a TMPDIR and with a store of
// its own.
type running struct {
	*testing.T
	*exec.Cmd
	tmp, store string
}

// The lengths of runs, on a backend in real time and at a tenth of them: one that comes to
// its end soon, and one that has to be ended.
const short, endless = "5s", "10m"

// runs starts one, by a shell where there is a script, and waits until something is recorded.
func runs(t *testing.T, length, script string, change func(*exec.Cmd)) running {
	t.Helper()
	needRedis(t)
	r := running{t, nil, t.TempDir(), t.TempDir()}
	args := []string{"lockpick", "run", "baseline/", "--backend", "process", "--set", "workload.for=" + length, "--set", "workload.cycles=50000", "--set", "limit=11m", "--store", r.store}
	if script != "" {
		args = append([]string{"sh", "-c", script + `; exec "$@"`, "sh"}, args...)
	}
	r.Cmd = exec.Command(args[0], args[1:]...)
	r.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if change != nil {
		change(r.Cmd)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Process.Kill() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(r.store, "baseline", "*", "history.jsonl"))
		for _, path := range found {
			if is, err := os.Stat(path); err == nil && is.Size() > 1000 {
				return r
			}
		}
		if time.Now().After(end) {
			t.Fatal("nothing was recorded")
		}
	}
}

// ends waits for its end, and sees that it has judged its run and has left nothing.
func (r running) ends(want int) {
	r.Helper()
	late := time.AfterFunc(time.Minute, func() { r.Errorf("it does not end"); r.Process.Kill() })
	defer late.Stop()
	if err, exit := r.Wait(), new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		r.Error(err)
	}
	if r.ProcessState.ExitCode() != want {
		r.Errorf("it ended with %v, want exit code %d", r.ProcessState, want)
	}
	all, _ := filepath.Glob(filepath.Join(r.store, "baseline", "*-*-*")) // several, where it was tried again
	for _, dir := range all {
		if o, err := campaign.ReadOutcome(dir); err == nil && o.Events == 0 && len(o.Retried) > 0 {
			continue // another try, which was ended before it began
		}
		if _, err := os.Stat(filepath.Join(dir, "verdict.json")); err != nil {
			r.Error(err)
		}
	}
	if left, err := os.ReadDir(r.tmp); err != nil || len(left) > 0 {
		r.Errorf("left behind: %v, %v", left, err)
	}
}

func (r running) gets(s syscall.Signal) {
	r.Helper()
	if err := r.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

// A terminal that is closed ends a run as SIGTERM does.
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
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := runs(t, endless, "", func(c *exec.Cmd) {
		c.Stdin, c.Stdout, c.Stderr = side, side, side
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	})
	side.Close()
	terminal.Close()
	r.ends(130)
}

// Who is started with nohup goes on.
func TestIgnoredHangupEndsNothing(t *testing.T) {
	t.Parallel()
	r := runs(t, short, `trap "" HUP`, nil)
	r.gets(syscall.SIGHUP)
	r.ends(0)
}

// SIGTERM counts even if whoever started us has it ignored.
func TestTermIsNeverIgnored(t *testing.T) {
	t.Parallel()
	r := runs(t, endless, `trap "" TERM`, nil)
	r.gets(syscall.SIGTERM)
	r.ends(130)
}

// A result that nobody reads keeps no run from its end, neither in a pipe that is full, nor in
// one that is broken, by which a run may end, but in good order.
func TestUnreadOutput(t *testing.T) {
	for what, c := range map[string]struct {
		full   bool
		signal syscall.Signal
		want   int
	}{
		"full":   {full: true, signal: syscall.SIGTERM, want: 130},
		"broken": {want: 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			if c.full {
				fill(t, to)
			} else {
				from.Close()
			}
			r := runs(t, short, "", func(cmd *exec.Cmd) { cmd.Stdout = to; cmd.Stderr = to })
			to.Close()
			if c.signal != 0 {
				// Until it has come to print its result, which it can't.
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if found, _ := filepath.Glob(filepath.Join(r.store, "baseline", "*-*", "report.html")); len(found) > 0 {
						break
					}
				}
				r.gets(c.signal)
			}
			r.ends(c.want)
		})
	}
}

// fill fills a pipe.
func fill(t *testing.T, to *os.File) {
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

// What a sweep prints for machines when it is interrupted, what it leaves in the store, and its
// exit code say the same; one that nobody reads is not interrupted.
func TestInterruptedJSON(t *testing.T) {
	for what, want := range map[string]int{"interrupted": outcome.ExitInterrupt, "unread": outcome.ExitBackend} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store := t.TempDir()
			cmd := exec.Command("lockpick", "run", "baseline/", "--seeds", "1000000", "--json", "--store", store)
			var said strings.Builder
			cmd.Stderr = &said
			from, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			begun := make([]byte, 1000)
			if _, err := io.ReadFull(from, begun); err != nil {
				t.Fatal(err)
			}
			codes := map[string]int{}
			is := func(where string, text []byte) {
				var o struct {
					Code *int `json:"code"`
				}
				if err := json.Unmarshal(text, &o); err != nil || o.Code == nil {
					t.Fatalf("%s: %v", where, err)
				}
				codes[where] = *o.Code
			}
			if what == "unread" {
				from.Close()
			} else {
				cmd.Process.Signal(os.Interrupt)
				rest, err := io.ReadAll(from)
				if err != nil {
					t.Fatal(err)
				}
				is("printed", append(begun, rest...))
			}
			cmd.Wait()
			text, err := os.ReadFile(filepath.Join(store, "suites", "latest", "outcome.json"))
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			is("stored", text)
			codes["exit"] = cmd.ProcessState.ExitCode()
			for where, code := range codes {
				if code != want {
					t.Errorf("%s: code %d, want %d", where, code, want)
				}
			}
			if strings.Contains(said.String(), "interrupted after") != (what == "interrupted") {
				t.Errorf("it said:\n%s", said.String())
			}
		})
	}
}

// TestInterruptedIsNotFailed checks what an interrupted run on real servers is called.
func TestInterruptedIsNotFailed(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	r := runs(t, endless, "", func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = &said, &said })
	r.gets(os.Interrupt.(syscall.Signal))
	r.ends(outcome.ExitInterrupt)
	for _, want := range []string{"1 run on process, seed 1: 1 interrupted\n", "\nbaseline: interrupted\n", "interrupted after 0 of 1 runs"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in:\n%s", want, said.String())
		}
	}
	if strings.Contains(said.String(), "FAILED") {
		t.Errorf("it is called failed:\n%s", said.String())
	}
}

// TestUnreadRunIsWhole checks that a run whose reader has gone, as behind "| head", prints nothing
// on standard error but, where the machine is busy, its progress, and was not interrupted.
func TestUnreadRunIsWhole(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	defer to.Close()
	var said strings.Builder
	cmd := exec.Command("lockpick", "run", "baseline/", "--store", t.TempDir())
	cmd.Stdout, cmd.Stderr = to, &said
	cmd.Run()
	progress := regexp.MustCompile(`(?m)^0 of 1 runs done, \d+ s\n`)
	if cmd.ProcessState.ExitCode() != outcome.ExitBackend || progress.ReplaceAllString(said.String(), "") != "" {
		t.Errorf("%v:\n%s", cmd.ProcessState, said.String())
	}
	// What only prints is ended by SIGPIPE itself, as the topic says.
	cmd = exec.Command("lockpick", "list")
	cmd.Stdout = to
	cmd.Run()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGPIPE || !strings.Contains(topic("exit-codes"), "141  ended by SIGPIPE") {
		t.Errorf("list: %v", cmd.ProcessState)
	}
}
