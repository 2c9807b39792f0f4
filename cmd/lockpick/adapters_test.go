package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/lock"
	"lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/scenarios/campaign"
)

// TestAdaptersReadme compares the table in the adapters' README with the adapters in the
// repository, and checks that help adapter names every language that "adapter new" supports.
func TestAdaptersReadme(t *testing.T) {
	table := "| adapter | library | command |\n|---|---|---|\n"
	for _, s := range exec.Libraries {
		table += fmt.Sprintf("| %s | %s | `%s` |\n", s.Name, s.Library, s.Command(exec.AdapterFolder))
	}
	checkReadme(t, "../../harness/lock/exec/adapters/README.md", map[string]string{"adapters": table})
	for _, s := range exec.Starters {
		if !strings.Contains(topicText("adapter"), s.Lang) {
			t.Errorf("help adapter does not mention %s, which adapter new supports", s.Lang)
		}
	}
}

// TestOptionsOfAnAdapter checks that overriding a lock option affects the lock under test but not
// the scenario's own lock, which may not have the option, and that printed rerun commands include
// the override.
func TestOptionsOfAnAdapter(t *testing.T) {
	all := maps.Clone(kinds.All)
	all[exec.Name] = lock.Kind{Options: []lock.Option{{Name: "driver", Values: []string{"defaults", "bounded"}}, {Name: "retries", Values: []string{"defaults", "none"}}}}
	k := campaign.KnownLocks(all)
	s := campaign.Selection{Names: []string{"baseline/"}, Adapter: "node x.js", Lock: exec.Name, Backend: "process",
		Overrides: []string{"lock.options.retries=none", "lock.ttl=5s", "lock.options.driver=bounded"}}
	c, err := s.Choose(k)
	if err != nil || len(c.Picks) != 1 {
		t.Fatal(err, c)
	}
	if got, want := c.Picks[0].Lock.Options, map[string]string{"driver": "bounded", "retries": "none"}; !maps.Equal(got, want) {
		t.Errorf("options %v, want %v", got, want)
	}
	if want := []string{"lock.ttl=5s"}; !slices.Equal(s.Overrides, want) {
		t.Errorf("other overrides %q, want %q", s.Overrides, want)
	}
	const want = " --backend process --adapter 'node x.js' --set lock.options.retries=none --set lock.options.driver=bounded --set lock.ttl=5s"
	if got := overrideFlags(&s, "", ""); got != want {
		t.Errorf("the command ends with\n%s\nwant\n%s", got, want)
	}
	s.Lock, s.Overrides = exec.Name, []string{"lock.options.driver=fast"}
	if _, err := s.Choose(k); err == nil || !strings.Contains(err.Error(), "driver=fast") {
		t.Errorf("unknown option of an adapter: %v", err)
	}
}
