package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOutputEscapesControlCharacters(t *testing.T) {
	var b strings.Builder
	o := &output{w: &b}
	n, err := o.Write([]byte("é\x1b[31m\r\t\u009b\u202e\xff\n"))
	if want := "é\\u001b[31m\\u000d\t\\u009b\\u202e\\ufffd\n"; b.String() != want || n != 16 || err != nil {
		t.Errorf("got %q, %d, %v; want %q", b.String(), n, err, want)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestLostOutputIsAFailure checks that a command fails if its result can't be printed.
func TestLostOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"version"}, {"help", "files"}, {"show", "baseline"}} {
		var errs strings.Builder
		if code := run(args, nil, fullDisk{}, &errs); code != 3 || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, errs.String())
		}
	}
}

// runLockpick runs lockpick in this process, and fails the test if it hangs.
func runLockpick(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	done := make(chan int, 1)
	go func() { done <- run(args, strings.NewReader(""), &o, &e) }()
	select {
	case code = <-done:
		return code, o.String(), e.String()
	case <-time.After(30 * time.Second):
		t.Fatalf("lockpick %s hangs", strings.Join(args, " "))
		return 0, "", ""
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
