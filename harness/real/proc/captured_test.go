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

// flood begins with a word and never stops writing.
func flood() *exec.Cmd { return exec.Command("sh", "-c", "echo first >&2; exec yes >&2") }

// A child that writes without end must cost neither memory nor disk, and must not keep
// anybody from reading what it wrote or from ending it.
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
			t.Fatalf("%d bytes are on disk", size)
		}
		words := p.Words()
		if len(words) > 10_000 {
			t.Fatalf("%d bytes are kept", len(words))
		}
		if m := dropped.FindStringSubmatch(words); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n > 32<<20 {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("it says %.100q … %.100q", words, words[max(0, len(words)-100):])
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}
	began := time.Now()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > signalBound {
		t.Errorf("to end it took %v", took)
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

// Whatever a child wrote before it did something that can be seen, as to end or to write on
// stdout, is in its words by then.
func TestWordsAreThereOnceTheyMatter(t *testing.T) {
	g := newGroup(t)
	for range 20 {
		p, err := g.JoinPiped(nil, "talker", exec.Command("sh", "-c", "echo reason >&2; echo; read line; echo last >&2"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Out.Read(make([]byte, 1)); err != nil || p.Words() != "reason" {
			t.Fatalf("words are %q when it has spoken; %v", p.Words(), err)
		}
		p.In.WriteString("\n")
		if <-p.Done(); p.Words() != "reason\nlast" {
			t.Fatalf("words are %q when it has ended", p.Words())
		}
		p.Leave()
	}
}

// What a child has started may outlive it with the pipe in its hands.
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
		t.Error("the group doesn't close")
	}
}
