//go:build !windows

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockpick/scenarios/outcome"
)

// TestServe checks that serve prints its address, serves the store, and ends when interrupted.
func TestServe(t *testing.T) {
	store := t.TempDir()
	run1 := filepath.Join(store, "baseline", "20260102T030405.000Z-sim-1")
	if err := os.MkdirAll(run1, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run1, "report.html"), []byte("a report"), 0o644); err != nil {
		t.Fatal(err)
	}
	output, out := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run([]string{"serve", "--store", store, "--port", "0"}, strings.NewReader(""), out, out)
		out.Close()
	}()
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("printed %q, %v", url, err)
	}
	url = strings.TrimSpace(url)
	for path, want := range map[string]string{"": "baseline", "baseline/20260102T030405.000Z-sim-1/report.html": "a report"} {
		r, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %v\n%s", path, r.Status, err, body)
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != outcome.ExitInterrupt {
		t.Errorf("it ended with %d", got)
	}
}
