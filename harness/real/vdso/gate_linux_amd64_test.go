package vdso

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTime is the wall-clock time before any of our functions has run.
var startTime = time.Now()

// printDate prints startTime and everything that it reads from stdin.
func printDate() {
	fmt.Print(startTime.UnixNano())
	in := make([]byte, 10)
	n, _ := os.Stdin.Read(in)
	fmt.Printf(" %s", in[:n])
	os.Exit(0)
}

// startGate starts a program behind a gate. The program has the gate's process ID.
func startGate(t *testing.T, program ...string) (cmd *exec.Cmd, stdout *strings.Builder) {
	t.Helper()
	stdout = &strings.Builder{}
	cmd = exec.Command(os.Args[0], append([]string{GateVerb}, program...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("its own"), stdout, stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout
}

// The program behind the gate never sees true time. The gate does not read the program's stdin.
func TestGateStartsProgramWithWrongClocks(t *testing.T) {
	first := &Machine{}
	if _, _, err := first.Adjust(-time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		text, err := json.Marshal(first.ClockState()) // as for another machine
		if err != nil {
			t.Fatal(err)
		}
		var state ClockState
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		m := &Machine{}
		m.SetClockState(state)
		before := time.Now()
		cmd, stdout := startGate(t, os.Args[0], "__date")
		stop := make(chan bool)
		go func() { // like the Go runtime, which may send SIGURG at any time
			for tick := time.NewTicker(100 * time.Microsecond); ; {
				select {
				case <-tick.C:
					cmd.Process.Signal(syscall.SIGURG)
				case <-stop:
					tick.Stop()
					return
				}
			}
		}()
		startErr := m.StartGate(cmd.Process.Pid)
		close(stop)
		if startErr != nil {
			cmd.Process.Kill()
		}
		exitErr := cmd.Wait()
		m.Close()
		if startErr != nil || exitErr != nil {
			t.Fatal(startErr, exitErr, stdout)
		}
		var nanos int64
		var input string
		if _, err := fmt.Sscanf(stdout.String(), "%d %s", &nanos, &input); err != nil || !strings.HasSuffix(stdout.String(), " its own") {
			t.Fatalf("the program printed %q: %v", stdout, err)
		}
		at := time.Unix(0, nanos).Add(time.Hour)
		if at.Before(before) || at.After(time.Now()) {
			t.Errorf("the program's clock is off by %v", at.Sub(before))
		}
	}
}

func TestGateWithoutProgram(t *testing.T) {
	cmd, stdout := startGate(t, "/there/is/none")
	if err := cmd.Wait(); err == nil || !strings.Contains(stdout.String(), "/there/is/none") {
		t.Errorf("missing program: %v, the gate printed %q", err, stdout)
	}
	text := t.TempDir() + "/text" // not a program, which the gate notices only at the exec
	if err := os.WriteFile(text, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, stdout = startGate(t, text)
	if err := new(Machine).StartGate(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "exited at its gate") {
		t.Error(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if !strings.Contains(stdout.String(), "exec format error") {
		t.Errorf("the gate printed %q", stdout)
	}
}
