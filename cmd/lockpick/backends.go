package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/files"
)

// simulation is the name of the backend in virtual time, containers that of the one
// that takes images.
const (
	simulation = "sim"
	containers = "docker"
)

// backendNames lists the backends; the first is the default.
var backendNames = []string{simulation, "process", containers}

// backend makes one, that of containers by its own settings.
func backend(name string, in docker.Config, adapter ...string) (harness.Backend, error) {
	switch name {
	case simulation:
		return sim.New(kinds.All), nil
	case containers:
		in.Adapter = adapter
		return docker.New(in), nil
	case "process":
		self, err := os.Executable()
		if err != nil {
			return nil, unable(fmt.Errorf("find own binary: %w", err), "start lockpick by its path")
		}
		return process.New(process.Config{Self: []string{self, clientVerb}, Adapter: adapter}), nil
	}
	return nil, usage(fmt.Errorf("no backend %q", name), "one of "+strings.Join(backendNames, ", ")+meant(name, backendNames))
}

// remarker is a backend of which people must know how it stands in for what they
// may think of.
type remarker interface{ Remark(context.Context) string }

// preparer is a backend that must get things before runs, as images, which may take
// long. It says what it gets.
type preparer interface {
	Prepare(ctx context.Context, all []scenario.Scenario, say func(line string)) error
}

// prepare lets a backend get what the runs of these need, and passes on what it says.
func prepare(ctx context.Context, b harness.Backend, all []pick, says io.Writer) error {
	p, ok := b.(preparer)
	if !ok {
		return nil
	}
	err := p.Prepare(ctx, resolved(all), func(line string) { fmt.Fprintf(says, "%s: %s\n", b.Name(), line) })
	var lack *docker.Lack
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &lack):
		return unable(fmt.Errorf("backend %s can't run this: %w", b.Name(), lack.Reason), lack.Remedy)
	case err != nil:
		return unable(fmt.Errorf("backend %s can't run this: %w", b.Name(), err), cmp.Or(files.Remedy(err, files.TempDirHint), "see lockpick doctor"))
	}
	return nil
}

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
	names := append([]string{harness.CanRun}, scenario.Capabilities()...)
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
		c = harness.Capability{Name: name, Reason: cmp.Or(scenario.LackOf(name), "this backend does not have it")}
	}
	return c
}

// missing lists what a scenario needs and the backend can't do.
func (a abilities) missing(s scenario.Scenario) []harness.Capability {
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
		if scenario.LackOf(c.Name) != "" { // its name is a part of the reason
			out = append(out, c.Reason)
		} else {
			out = append(out, c.Name+": "+c.Reason)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}
