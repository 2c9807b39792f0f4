package scenario

import (
	"fmt"
	"time"

	"lockpick/harness/history"
)

// checkWork bounds what a run takes of the machine, as far as the scenario tells: how
// many things there are, and how often something is done again, which is an event at
// least each time. A run that repeats itself otherwise, as clients do that neither
// think nor hold, is stopped when it has recorded history.MaxEvents.
func checkWork(s *Scenario) error {
	nodes := max(s.Topology.Nodes, len(s.Topology.Addresses))
	if links := nodes * len(s.Clients); links > maxLinks {
		return badAt("clients", fmt.Sprintf("fewer clients or nodes: at most %d links", maxLinks), "%d clients and %d nodes have %d links", len(s.Clients), nodes, links)
	}
	w := s.Workload
	total := 0
	if err := repeats(&total, "workload.extend", s.Limit, w.Extend, len(s.Clients)); err != nil {
		return err
	}
	total = 0
	for _, c := range s.Clients {
		path, cycles := "workload.cycles", w.Cycles
		if c.Cycles != nil {
			path, cycles = "clients."+c.Name+".cycles", *c.Cycles
		}
		if total += cycles * w.Writes; total > history.MaxEvents {
			return badAt(path, fmt.Sprintf("at most %d writes of all clients", history.MaxEvents), "the clients' cycles come to more than %d writes", history.MaxEvents)
		}
	}
	total = 0
	for i, step := range s.Plan {
		f := step.Fault
		lasts := s.Limit
		if f.For != nil {
			lasts = min(lasts, *f.For)
		}
		if err := repeats(&total, fmt.Sprintf("plan.%d.fault.every", i+1), lasts, f.Every.Min, len(f.Targets)); err != nil {
			return err
		}
	}
	return nil
}

// repeats adds how often something comes that comes every so often, to so many, and
// bounds the sum.
func repeats(total *int, path string, lasts, every time.Duration, to int) error {
	if every <= 0 {
		return nil // it doesn't
	}
	// A day has fewer microseconds than an int has room for, also of a thousand targets.
	if *total += int(lasts/every) * to; *total > history.MaxEvents {
		return badAt(path, fmt.Sprintf("at most %d times in one run: make it longer, or the run shorter", history.MaxEvents), "every %v is too often: %d times in this run", every, *total)
	}
	return nil
}
