package main

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/harness/lock/exec"
)

// The page of adapters names those that are shipped, and how each is called.
func TestAdaptersReadme(t *testing.T) {
	table := "| adapter | library | command |\n|---|---|---|\n"
	for _, s := range exec.Libraries {
		table += fmt.Sprintf("| %s | %s | `%s` |\n", s.Name, s.Library, s.Command(exec.AdapterFolder))
	}
	inReadme(t, "../../harness/lock/exec/adapters/README.md", map[string]string{"adapters": table})
	for _, s := range exec.Starters {
		if !strings.Contains(topic("adapter"), s.Lang) {
			t.Errorf("help adapter has no word of %s, in which adapter new writes one", s.Lang)
		}
	}
}
