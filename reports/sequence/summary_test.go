package sequence

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestSummaries(t *testing.T) {
	var got strings.Builder
	eachExample(t, func(name string, d Diagram) {
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
		t.Errorf("summaries differ (%v): check them and, if they are right, run with -update:\n%s", err, got.String())
	}
}

func TestLostVersionsAndWriters(t *testing.T) {
	updates := func(client string, versions ...int64) (all []lostUpdate) {
		for _, v := range versions {
			all = append(all, lostUpdate{client, v})
		}
		return all
	}
	for _, c := range []struct {
		lost           []lostUpdate
		whose, summary string
	}{
		{updates("c2", 3), "c2's update", "c2's write"},
		{updates("c2", 3, 4), "versions 3 and 4 of c2", "c2's writes"},
		{updates("c2", 3, 4, 5, 6), "versions 3 to 6 of c2", "c2's writes"},
		{updates("c2", 3, 5, 6, 7), "versions 3 and 5 to 7 of c2", "c2's writes"},
		{append(updates("c2", 3), updates("c3", 4, 5)...), "version 3 of c2 and versions 4 and 5 of c3", "writes of c2 and c3"},
	} {
		if got := lostVersions(c.lost); got != c.whose {
			t.Errorf("lostVersions is %q, want %q", got, c.whose)
		}
		if got := lostWriters(c.lost); got != c.summary {
			t.Errorf("lostWriters is %q, want %q", got, c.summary)
		}
	}
}
