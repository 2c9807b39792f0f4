package scenario

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/harness/history"
)

func TestCheckHistorySize(t *testing.T) {
	names := func(prefix string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(prefix, i+1))
		}
		return all
	}
	events := func(n int, event func(i int) history.Event) (all []history.Event) {
		for i := range n {
			all = append(all, event(i))
		}
		return all
	}
	for want, h := range map[string]history.History{
		"":                        {Params: history.Params{Clients: names("c", 99), Nodes: names("n", 99)}},
		"1000 clients":            {Params: history.Params{Clients: names("c", 1000)}},
		"100 nodes":               {Params: history.Params{Nodes: names("n", 100)}},
		"at most 10000":           {Params: history.Params{Clients: names("c", 999), Nodes: names("n", 99)}},
		"10001 steps":             {Params: history.Params{Steps: make([]history.PlannedStep, 10_001)}},
		"10001 targets in a step": {Params: history.Params{Steps: []history.PlannedStep{{Targets: names("n", 10_001)}}}},
		"1000 clients that can't": {Params: history.Params{Reach: make([]history.Reach, 1000)}},
		"100 nodes that a client": {Params: history.Params{Reach: []history.Reach{{Nodes: names("n", 100)}}}},
		"1001 keys": {Params: history.Params{Clients: []string{"c1"}}, Events: events(1001, func(i int) history.Event {
			return history.Event{Process: "c1", Op: history.OpAcquire, Key: fmt.Sprint(i)}
		})},
		"20000 processes": {Events: events(20_000, func(i int) history.Event { return history.Event{Process: fmt.Sprint(i)} })},
	} {
		if err := CheckHistorySize(&h); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
