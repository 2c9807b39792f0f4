package sequence

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSummaries holds the one sentence of each story there is to a file: its cause and its harm.
func TestSummaries(t *testing.T) {
	var got strings.Builder
	drawn(t, func(name string, d Diagram) {
		if d.Summary != "" {
			fmt.Fprintf(&got, "%s: %s.\n", name, d.Summary)
		}
	})
	const path = "testdata/summaries.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got.String() != string(want) {
		t.Errorf("the sentences differ (%v); look at them and run with -update if they are right:\n%s", err, got.String())
	}
}
