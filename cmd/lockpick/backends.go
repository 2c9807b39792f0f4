package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/sim"
)

// simulation is the name of the backend in virtual time.
const simulation = "sim"

// backendNames lists the backends; the first is the default.
var backendNames = []string{simulation, "process", "docker"}

func backend(name string) (harness.Backend, error) {
	switch name {
	case simulation:
		return sim.New(kinds.All), nil
	case "process", "docker":
		self, err := os.Executable()
		if err != nil {
			return nil, unable(fmt.Errorf("find own binary: %w", err), "start lockpick by its path")
		}
		if name == "docker" {
			return docker.New(docker.Config{Client: []string{self, clientVerb}}), nil
		}
		return process.New(process.Config{Self: []string{self, clientVerb}}), nil
	}
	return nil, usage(fmt.Errorf("no backend %q", name), "one of "+strings.Join(backendNames, ", "))
}

// remarker is a backend of which people must know how it stands in for what they
// may think of.
type remarker interface{ Remark(context.Context) string }

// abilities is what a backend can do on this machine.
type abilities map[string]harness.Capability

func probe(ctx context.Context, b harness.Backend) abilities {
	a := abilities{}
	for _, c := range b.Probe(ctx) {
		a[c.Name] = c
	}
	return a
}

// all lists every capability there is, what the backend doesn't know of as missing.
func (a abilities) all() []harness.Capability {
	names := append([]string{harness.CanRun}, harness.Capabilities()...)
	for _, more := range slices.Sorted(maps.Keys(a)) {
		if !slices.Contains(names, more) {
			names = append(names, more)
		}
	}
	var out []harness.Capability
	for _, name := range names {
		out = append(out, a.of(name))
	}
	return out
}

func (a abilities) of(name string) harness.Capability {
	c, known := a[name]
	if !known {
		c = harness.Capability{Name: name, Reason: "this backend does not have it"}
	}
	return c
}

// missing lists what a scenario needs and the backend can't do.
func (a abilities) missing(s harness.Scenario) []harness.Capability {
	var out []harness.Capability
	for _, need := range append([]string{harness.CanRun}, s.NeedsOf(kinds.All[s.Lock.Kind])...) {
		if c := a.of(need); !c.Available {
			out = append(out, c)
		}
	}
	return out
}

func reasons(cs []harness.Capability) string {
	var out []string
	for _, c := range cs {
		out = append(out, c.Name+": "+c.Reason)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}
