package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoredRunLimits checks that commands that open a stored run enforce the size limits of runs.
func TestStoredRunLimits(t *testing.T) {
	clients := make([]string, 1000)
	for i := range clients {
		clients[i] = fmt.Sprintf("%q", fmt.Sprint("c", i+1))
	}
	file := filepath.Join(t.TempDir(), "history.jsonl")
	must(t, os.WriteFile(file, []byte(`{"n":1,"t":0,"process":"harness","type":"begin","op":"run","params":{"schema":1,"clients":[`+strings.Join(clients, ",")+`],"nodes":["n1"],"quorum":1}}`+"\n"), 0o644))
	for _, command := range []string{"check", "explain", "report", "replay"} {
		var out, errs bytes.Buffer
		if code := run([]string{command, file}, strings.NewReader(""), &out, &errs); code != 64 || !strings.Contains(errs.String(), "it has 1000 clients, but a run has at most 999") {
			t.Errorf("%s: %d\n%s%s", command, code, out.String(), errs.String())
		}
	}
}
