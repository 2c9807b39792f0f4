//go:build linux

package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// floodCommand returns a command that writes one line and then never stops writing.
func floodCommand() *exec.Cmd { return exec.Command("sh", "-c", "echo first >&2; exec yes >&2") }

// A child that never stops writing must not exhaust memory or disk space. Its output can be read
// and the child can be killed.
func TestOutputFloodIsBounded(t *testing.T) {
	g := newGroup(t)
	p, err := g.StartPiped(nil, "flood", floodCommand())
	if err != nil {
		t.Fatal(err)
	}
	defer p.ClosePipes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	dropped := regexp.MustCompile(`^first\n(?s:.*)\n… (\d+) bytes dropped …\n(?s:.*)\ny$`)
	for end := time.Now().Add(time.Minute); ; {
		if size := diskUse(t, g.Dir); size > 1<<20 {
			t.Fatalf("%d bytes on disk", size)
		}
		output := p.StderrTail()
		if len(output) > 10_000 {
			t.Fatalf("%d bytes of output in memory", len(output))
		}
		if m := dropped.FindStringSubmatch(output); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n > 32<<20 {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("output %.100q … %.100q", output, output[max(0, len(output)-100):])
		}
	}
	runtime.ReadMemStats(&after)
	if growth := int64(after.HeapInuse) - int64(before.HeapInuse); growth > 16<<20 {
		t.Errorf("the heap grew by %d MB", growth>>20)
	}
	start := time.Now()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if elapsed := time.Since(start); elapsed > signalTimeout {
		t.Errorf("Close took %v", elapsed)
	}
}

func diskUse(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// If a child's action can be observed, such as its exit or a write to stdout, the child's output
// contains everything written before the action.
func TestOutputIsCompleteOnceVisible(t *testing.T) {
	g := newGroup(t)
	for range 20 {
		p, err := g.StartPiped(nil, "talker", exec.Command("sh", "-c", "echo reason >&2; echo; read line; echo last >&2"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Out.Read(make([]byte, 1)); err != nil || p.StderrTail() != "reason" {
			t.Fatalf("after a write to stdout: output %q, %v", p.StderrTail(), err)
		}
		p.In.WriteString("\n")
		if <-p.Done(); p.StderrTail() != "reason\nlast" {
			t.Fatalf("after the exit: output %q", p.StderrTail())
		}
		p.ClosePipes()
	}
}

// A process started by a child may outlive the child and keep the pipe open.
func TestCloseDoesNotWaitForPipeHolder(t *testing.T) {
	g := newGroup(t)
	p, err := g.StartPiped(nil, "parent", exec.Command("sh", "-c", "setsid sleep 60 & echo $!"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.ClosePipes()
	<-p.Done()
	var holder int
	if _, err := fmt.Fscan(p.Out, &holder); err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(holder, unix.SIGKILL)
	closeErr := make(chan error, 1)
	go func() { closeErr <- g.Close() }()
	select {
	case err := <-closeErr:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(signalTimeout):
		t.Error("Close did not return")
	}
}
