package real

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
)

// The test binary is also the process whose clocks are changed, and its gate.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__tell":
			reportClocks()
			os.Exit(0)
		case vdso.GateVerb:
			fmt.Fprintln(os.Stderr, vdso.Gate(os.Args[2:]))
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// reportClocks prints a clock reading for each line of stdin.
func reportClocks() {
	start := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		r := ClockReading{From: proc.TrueClock()}
		r.Wall, r.Now = time.Now().UnixNano(), start.Add(time.Since(start)).UnixNano()
		r.To = proc.TrueClock()
		json.NewEncoder(os.Stdout).Encode(r)
	}
}

// startClockAgent starts an agent and returns a function that stops it.
func startClockAgent(t *testing.T) (agent *Caller, end func()) {
	in, calls := io.Pipe()
	answers, out := io.Pipe()
	go func() { out.CloseWithError(ServeClock(in, out)) }()
	end = sync.OnceFunc(func() { calls.Close() })
	t.Cleanup(end)
	return NewCaller(calls, answers, nil), end
}

// startBehindGate starts a process behind a gate, opens the gate with start, and returns a function
// that reads the process's clocks.
func startBehindGate(t *testing.T, start func(pid int) error) (read func() (ClockReading, error)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], vdso.GateVerb, os.Args[0], "__tell")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := start(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(out)
	return func() (reading ClockReading, err error) {
		if _, err := fmt.Fprintln(in); err != nil {
			return reading, err
		}
		return reading, answers.Decode(&reading)
	}
}

func TestAgentChangesClocks(t *testing.T) {
	if err := vdso.Available(); err != nil {
		t.Skip(err)
	}
	m := NewClock(t.Context(), true, proc.TrueClock)
	agent, end := startClockAgent(t)
	startWithAgent := func(pid int) error { return m.StartWithAgent(agent, pid) }
	read := startBehindGate(t, startWithAgent)
	first, err := read()
	if err == nil {
		err = m.checkFirstReading(first)
	}
	if err != nil {
		t.Fatal(err)
	}
	readBack := func() (string, error) { return m.ReadBack("wall clock shows", read) }
	for _, c := range []struct {
		by   time.Duration
		rate float64
		want string
	}{
		{-time.Hour, 1, ", 1h0m0s behind, rate 1"},
		{time.Hour, 1, ", which is right, rate 1"},
		{0, 2, "rate 2, seen over"},
	} {
		at, err := m.Adjust(c.by, c.rate)
		if back, readErr := readBack(); err != nil || readErr != nil || !strings.Contains(back, c.want) || at == 0 {
			t.Errorf("change by %v to rate %g at %v: %q, %v, %v", c.by, c.rate, at, back, err, readErr)
		}
	}
	if _, err := m.Adjust(0, -1); err == nil || !strings.Contains(err.Error(), "rate -1") {
		t.Errorf("clock running backward: %v", err)
	}

	// The agent exits together with its process. The next process continues with the same clocks.
	end()
	<-agent.Done()
	if _, err := m.Adjust(-48*time.Hour, 1); err != nil || !strings.HasPrefix(m.noProcessReadBack(), "no process is running there") {
		t.Errorf("no process: %q, %v", m.noProcessReadBack(), err)
	}
	agent, _ = startClockAgent(t)
	for starter, start := range map[string]func(pid int) error{"an agent": startWithAgent, "this process": m.StartGate} {
		read = startBehindGate(t, start)
		m.minAhead, m.maxAhead = 0, 0 // each process has its own bounds
		if back, err := readBack(); err != nil || !strings.Contains(back, "47h59m59.") {
			t.Errorf("the next process, started by %s, shows %q, %v", starter, back, err)
		}
	}
}

func TestReadBackRejectsWrongClock(t *testing.T) {
	m := NewClock(t.Context(), false, proc.TrueClock)
	wrongReading := ClockReading{From: proc.TrueClock(), Wall: time.Now().Add(time.Second).UnixNano(), To: proc.TrueClock()}
	if _, err := m.ReadBack("TIME shows", func() (ClockReading, error) { return wrongReading, nil }); err == nil || !strings.Contains(err.Error(), "should show") {
		t.Errorf("clock that is off by a second: %v", err)
	}
}

// pausedProgram is a client that never reports its clocks.
type pausedProgram struct {
	Program
	paused bool
	done   chan struct{}
}

func (p pausedProgram) Paused() bool          { return p.paused }
func (p pausedProgram) Done() <-chan struct{} { return p.done }

func TestReadClocksOfUnresponsiveClient(t *testing.T) {
	p := pausedProgram{paused: true, done: make(chan struct{})}
	c := &Client{Program: p, In: io.Discard}
	if _, err := c.ReadClocks(proc.TrueClock); !errors.Is(err, errPaused) {
		t.Errorf("paused: %v", err)
	}
	close(p.done)
	p.paused = false
	c.Program = p
	if _, err := c.ReadClocks(proc.TrueClock); !errors.Is(err, proc.ErrEnded) {
		t.Errorf("ended: %v", err)
	}
}
