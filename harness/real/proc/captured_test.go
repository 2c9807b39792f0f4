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

// flood writes one word and then never stops writing.
func flood() *exec.Cmd { return exec.Command("sh", "-c", "echo first >&2; exec yes >&2") }

// A child that writes without end must not use up memory or disk, and must not block reading its output
// or killing it.
func TestFloodIsBounded(t *testing.T) {
	g := newGroup(t)
	p, err := g.JoinPiped(nil, "flood", flood())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	dropped := regexp.MustCompile(`^first\n(?s:.*)\n… (\d+) bytes dropped …\n(?s:.*)\ny$`)
	for end := time.Now().Add(time.Minute); ; {
		if size := diskUse(t, g.Dir); size > 1<<20 {
			t.Fatalf("%d bytes on disk", size)
		}
		words := p.Words()
		if len(words) > 10_000 {
			t.Fatalf("%d bytes of output kept", len(words))
		}
		if m := dropped.FindStringSubmatch(words); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n > 32<<20 {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("output %.100q … %.100q", words, words[max(0, len(words)-100):])
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	began := time.Now()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > signalBound {
		t.Errorf("Close took %v", took)
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

// What a child wrote before a visible action, such as exiting or writing to stdout, is in its output by
// the time that the action is seen.
func TestWordsAreThereOnceTheyMatter(t *testing.T) {
	g := newGroup(t)
	for range 20 {
		p, err := g.JoinPiped(nil, "talker", exec.Command("sh", "-c", "echo reason >&2; echo; read line; echo last >&2"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Out.Read(make([]byte, 1)); err != nil || p.Words() != "reason" {
			t.Fatalf("output is %q after it wrote to stdout; %v", p.Words(), err)
		}
		p.In.WriteString("\n")
		if <-p.Done(); p.Words() != "reason\nlast" {
			t.Fatalf("output is %q after it has ended", p.Words())
		}
		p.Leave()
	}
}

// A process that a child started may outlive it and hold the pipe open.
func TestHeirOfThePipeKeepsNobodyWaiting(t *testing.T) {
	g := newGroup(t)
	p, err := g.JoinPiped(nil, "parent", exec.Command("sh", "-c", "setsid sleep 60 & echo $!"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	<-p.Done()
	var heir int
	if _, err := fmt.Fscan(p.Out, &heir); err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(heir, unix.SIGKILL)
	closed := make(chan error, 1)
	go func() { closed <- g.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(signalBound):
		t.Error("the group does not close")
	}
}
