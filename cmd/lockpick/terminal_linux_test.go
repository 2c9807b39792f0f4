package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// openPTY opens a pseudo-terminal with 80 columns. theirs is the end for the program, and ours is the
// end for the test.
func openPTY(t *testing.T) (theirs, ours *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { ours.Close() })
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(n)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return theirs, ours
}

// runOnTerminal runs lockpick on a terminal, and returns its output.
func runOnTerminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	theirs, ours := openPTY(t)
	cmd := exec.Command("lockpick", args...)
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr, cmd.Env = theirs, theirs, append(append(os.Environ(), "TERM=xterm", "COLUMNS=", "NO_COLOR="), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	text, _ := io.ReadAll(ours) // returns an error when the other end is closed
	if err := cmd.Wait(); err != nil {
		t.Fatalf("lockpick %v: %v\n%s", args, err, text)
	}
	return string(text)
}

// runUntilProgress repeats a run with more and more seeds until it takes long enough to show
// progress, and returns its output. Progress is shown after a second.
func runUntilProgress(t *testing.T, env ...string) (output string, runs int) {
	t.Helper()
	for runs = 24; runs < 3000; runs *= 2 {
		output = runOnTerminal(t, env, "run", "random-faults/", "--seeds", strconv.Itoa(runs))
		if strings.Contains(output, " runs done, ") && strings.Contains(output, " left") {
			break
		}
	}
	return output, runs
}

// TestOnATerminal checks that progress takes one line, which is erased before other output, and
// that no line is wider than the window.
func TestOnATerminal(t *testing.T) {
	output, runs := runUntilProgress(t)
	for _, want := range []string{"\r\x1b[K", fmt.Sprintf(" of %d runs done, ", runs), ", about ", "\x1b[33m"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in %q", want, output)
		}
	}
	finalText := screenText(output)
	for line := range strings.Lines(finalText) {
		if line = strings.TrimRight(line, "\r\n"); utf8.RuneCountInString(line) > 80 {
			t.Errorf("line is wider than the window: %q", line)
		}
	}
	if strings.Contains(finalText, "runs done") {
		t.Errorf("the progress was not erased:\n%s", finalText)
	}
	output, _ = runUntilProgress(t, "NO_COLOR=1")
	if strings.Contains(output, "\x1b[3") || !strings.Contains(output, "\x1b[K") {
		t.Errorf("with NO_COLOR: %q", output)
	}
	if output = runOnTerminal(t, []string{"TERM=dumb"}, "run", "random-faults/", "--seeds", "4"); strings.Contains(output, "\x1b") {
		t.Errorf("on a dumb terminal: %q", output)
	}
}

// screenText returns the text that a terminal shows at the end, without colors.
func screenText(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i+len("\r\x1b[K"):]
		}
		for _, code := range []string{"\x1b[0m", "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m"} {
			line = strings.ReplaceAll(line, code, "")
		}
		b.WriteString(line)
	}
	return b.String()
}
