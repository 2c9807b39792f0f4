package main

import (
	"errors"
	"strings"
	"testing"
)

func TestOutputShowsWhatATerminalWouldObey(t *testing.T) {
	var b strings.Builder
	o := &output{w: &b}
	n, err := o.Write([]byte("é\x1b[31m\r\t\u009b\u202e\xff\n"))
	if want := "é\\u001b[31m\\u000d\t\\u009b\\u202e\\ufffd\n"; b.String() != want || n != 16 || err != nil {
		t.Errorf("got %q, %d, %v; want %q", b.String(), n, err, want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A result that could not be told is no success.
func TestLostOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"version"}, {"help", "files"}, {"show", "baseline"}} {
		var errs strings.Builder
		if code := run(args, nil, full{}, &errs); code != 3 || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, errs.String())
		}
	}
}
