package nemesis

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"testing"
	"time"
)

// environment returns an environment with five clients and five nodes, where c5 can't reach n1. The
// seed modulo 3 decides whether nodes have no persistence, have persistence, or sync each write.
func environment(seed uint64) Environment {
	return Environment{
		Clients: []string{"c1", "c2", "c3", "c4", "c5"}, Nodes: []string{"n1", "n2", "n3", "n4", "n5"}, Resource: "r1",
		HasLink: func(client, node string) bool { return client != "c5" || node != "n1" },
		Start:   time.Second, TimeLimit: time.Minute, TTL: 5 * time.Second, DriftMargin: 50 * time.Millisecond,
		HasPersistence: seed%3 > 0, SyncsWrites: seed%3 == 2,
		RandomSource: func(names ...string) uint64 {
			h := fnv.New64a()
			fmt.Fprint(h, seed, names)
			x := h.Sum64() // mixed as in package client, because FNV hashes similar names to similar values
			x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
			x = (x ^ x>>27) * 0x94d049bb133111eb
			return x ^ x>>31
		},
	}
}

// allFaults returns random plans that may contain each kind of fault.
func allFaults(within string) Random {
	r := Random{Within: within, Every: Span{200 * time.Millisecond, 3 * time.Second}, Lasts: Span{10 * time.Millisecond, 12 * time.Second}, Safety: 0.6}
	for _, k := range Kinds {
		if within == "" || k.AllowedFaults != "" {
			r.Faults = append(r.Faults, k.Name)
		}
	}
	return r
}

func targetType(s Step) Target {
	k, _ := KindOf(s.Fault.Kind)
	switch {
	case k.Hits(Message), k.Hits(Link):
		return k.TargetTypes[0]
	case s.Fault.Targets[0][0] == 'c':
		return Client
	}
	return Node
}

// activeSpan returns when a step's fault is active. If an event triggers the step, that may be any
// time before the end of the safety phase.
func activeSpan(s Step, safetyEnd time.Duration) Span {
	if s.When.At == nil {
		return Span{0, safetyEnd}
	}
	span := Span{*s.When.At, *s.When.At}
	k, _ := KindOf(s.Fault.Kind)
	switch {
	case s.Fault.For != nil:
		span.Max += s.Fault.Timer.TrueDuration(*s.Fault.For)
	case k.Name == clockSlewKind.Name:
		span.Max += time.Duration(float64(s.Fault.By.Abs()) / slewRate)
	}
	if k.IsRepeated {
		span.Max += s.Fault.Lasts.Max
	}
	return span
}

// Every step of a random plan is valid, and its fault ends before the liveness phase begins.
func TestRandomPlansArePossible(t *testing.T) {
	drawnKinds, triggers := map[string]int{}, map[string]int{}
	for seed := range uint64(60) {
		within := []string{"", Assumptions}[seed%2]
		w := environment(seed)
		safetyEnd := time.Duration(0.6 * float64(w.TimeLimit))
		killed := map[string]bool{}
		plan := allFaults(within).Draw(w)
		for i, s := range plan {
			k, ok := KindOf(s.Fault.Kind)
			if o := k.Validate(s.Fault, Topology{Replicas: 1, HasPersistence: true}); !ok || o != nil {
				t.Fatalf("seed %d step %d: %s: %v", seed, i+1, k.Name, o)
			}
			drawnKinds[k.Name+" "+s.Fault.Mode]++
			triggers[fmt.Sprint(s.When.At != nil, s.When.Event != nil, s.When.Point != nil, s.When.Message != nil)]++
			span := activeSpan(s, safetyEnd)
			if span.Max > safetyEnd+time.Microsecond || s.When.At == nil && (s.When.Before <= 0 || s.When.Before > safetyEnd) {
				t.Errorf("seed %d step %d: %v %+v is not over by %v", seed, i+1, s.When, s.Fault, safetyEnd)
			}
			if k.Name == killKind.Name && targetType(s) == Client {
				killed[s.Fault.Targets[0]] = true
			}
		}
		if len(killed) > len(w.Clients)-MinSurvivors {
			t.Errorf("seed %d kills %d clients", seed, len(killed))
		}
		for i, a := range plan {
			if on := targetType(a); on == Client && a.Fault.Kind != killKind.Name && killed[a.Fault.Targets[0]] {
				t.Errorf("seed %d step %d hits %s, which is killed", seed, i+1, a.Fault.Targets[0])
			}
			for j, b := range plan[:i] {
				if reason := conflict(a, b, safetyEnd); reason != "" {
					t.Errorf("seed %d: steps %d and %d: %s", seed, j+1, i+1, reason)
				}
			}
		}
	}
	for _, k := range Kinds {
		for _, m := range append(slices.Clone(k.Modes), []string{""}[min(len(k.Modes), 1):]...) {
			if numDrawn := drawnKinds[k.Name+" "+m]; numDrawn > 0 == slices.Contains(k.ExcludedModes, m) {
				t.Errorf("%s %s: drawn %d times", k.Name, m, numDrawn)
			}
		}
	}
	if len(triggers) != 4 {
		t.Errorf("triggers: %v", triggers)
	}
}

// cutsReplica reports whether a step cuts off a replica. No other fault hits a replica's link.
func cutsReplica(s Step) bool {
	_, end, ok := SplitLink(s.Fault.Targets[0])
	return ok && end == Replica
}

// conflict returns the reason why two steps can't both take effect, or "".
func conflict(a, b Step, safetyEnd time.Duration) string {
	ka, _ := KindOf(a.Fault.Kind)
	kb, _ := KindOf(b.Fault.Kind)
	on := targetType(a)
	switch {
	case on != targetType(b), on == Message, ka.MayOverlap && kb.MayOverlap && (a.Fault.Mode != b.Fault.Mode || a.Fault.Way != b.Fault.Way) && on != Link:
		return ""
	case ka.MayOverlap && kb.MayOverlap:
		if ka.Name == kb.Name && !cutsReplica(a) && !cutsReplica(b) && (a.Fault.Mode != b.Fault.Mode || a.Fault.Way != b.Fault.Way) {
			return "they differ in mode or direction, so they can't overlap"
		}
		return ""
	case on == Link && ka.Capability(Link) != kb.Capability(Link):
		return ""
	}
	x, y := activeSpan(a, safetyEnd), activeSpan(b, safetyEnd)
	for _, target := range a.Fault.Targets {
		if slices.Contains(b.Fault.Targets, target) && x.Min <= y.Max && y.Min <= x.Max {
			return fmt.Sprintf("%s on %s at %v overlaps with %s at %v", ka.Name, target, x, kb.Name, y)
		}
	}
	return ""
}

// Within the assumptions, no clock error exceeds the lock's drift allowance, and no node comes back
// before all locks that it granted have expired.
func TestRandomPlansWithinAssumptions(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(150) {
		w := environment(seed)
		fullDisks := map[string]bool{}
		for i, s := range allFaults(Assumptions).Draw(w) {
			if assumption, violation := checkAssumptions(s, w); violation != "" {
				t.Errorf("seed %d step %d: %v %+v: %s", seed, i+1, s.When, s.Fault, violation)
			} else {
				counts[assumption]++
			}
			if s.Fault.Kind == fullDiskKind.Name && w.SyncsWrites {
				fullDisks[s.Fault.Targets[0]] = true
			}
		}
		if len(fullDisks) > (len(w.Nodes)-1)/2 {
			t.Errorf("seed %d fills the disks of %d nodes, which makes them exit", seed, len(fullDisks))
		}
	}
	for _, assumption := range []string{"offset", "client clock", "clock", "rate", "slew", "back after its keys expired", "back at once"} {
		if counts[assumption] < 50 {
			t.Errorf("%s: only %d drawn", assumption, counts[assumption])
		}
	}
}

// checkAssumptions returns the assumption that a step satisfies, or why it violates one.
func checkAssumptions(s Step, w Environment) (assumption, violation string) {
	f, limit := s.Fault, w.DriftMargin/4
	switch f.Kind {
	case clockJumpKind.Name, clockStrobeKind.Name:
		switch {
		case targetType(s) == Client:
			return "client clock", "" // a client's wall clock doesn't matter
		case f.Kind == clockJumpKind.Name && s.When.At != nil && *s.When.At < w.Start && f.By > 0 && f.For == nil:
			return "offset", "" // before any key exists
		case f.By.Abs() > limit:
			return "", "the clock offset is too large"
		}
		return "clock", ""
	case clockRateKind.Name:
		if drift := time.Duration((f.Rate - 1) * float64(w.TTL)).Abs(); drift > limit {
			return "", fmt.Sprintf("the clock drifts by %v in a TTL", drift)
		}
		return "rate", ""
	case clockSlewKind.Name:
		if f.By.Abs() > time.Duration(slewRate*float64(w.TimeLimit)) {
			return "", "the slew takes longer than the run"
		}
		return "slew", ""
	case killKind.Name, shutdownKind.Name, powerLossKind.Name:
		keepsKeys := w.SyncsWrites || w.HasPersistence && f.Kind == shutdownKind.Name
		switch {
		case targetType(s) != Node:
		case f.Timer != nil:
			return "", "its timer has the wrong rate"
		case *f.For >= w.TTL+w.DriftMargin:
			return "back after its keys expired", ""
		case !keepsKeys:
			return "", "the node comes back too soon"
		default:
			return "back at once", ""
		}
	case failoverKind.Name:
		return "", "failovers are beyond the assumptions"
	}
	return "", ""
}

// If the lock allows for little drift, no clock is slewed within the assumptions.
func TestSlewsStayWithinDrift(t *testing.T) {
	r := allFaults(Assumptions)
	r.Faults = []string{clockSlewKind.Name}
	for seed := range uint64(20) {
		w := environment(seed)
		if w.DriftMargin = w.TTL / 1000; len(r.Draw(w)) > 0 {
			t.Errorf("seed %d: slewed by 500 ppm although the drift allowance is 0.1 %%", seed)
		}
		if w.DriftMargin = w.TTL / 100; len(r.Draw(w)) == 0 {
			t.Errorf("seed %d: no slew although the drift allowance is 1 %%", seed)
		}
	}
}

// Before a failover to a lagging replica, the replica's link is cut.
func TestRandomFailoversLag(t *testing.T) {
	r := allFaults("")
	r.Faults = []string{failoverKind.Name}
	numLags, numFailovers := 0, 0
	for seed := range uint64(40) {
		cut := map[string]Step{}
		for i, s := range r.Draw(environment(seed)) {
			node := s.Fault.Targets[0]
			if s.Fault.Kind != failoverKind.Name {
				cut[node] = s
				continue
			}
			numFailovers++
			c, ok := cut[LinkName(node, Replica)]
			if !ok {
				continue
			}
			numLags++
			if span := activeSpan(c, 0); span.Min < time.Second || span.Min >= *s.When.At || span.Max <= *s.When.At || span.Max > 36*time.Second {
				t.Errorf("seed %d step %d: failover at %v, cut during %v", seed, i+1, *s.When.At, span)
			}
		}
	}
	if numLags < numFailovers/4 || numLags > numFailovers*3/4 {
		t.Errorf("%d of %d failovers lag", numLags, numFailovers)
	}
}

// Seeds differ in the faults that they use, and each uses about half of them.
func TestSwarm(t *testing.T) {
	r := allFaults("")
	numUsed, seen := 0, map[string]bool{}
	const seeds = 500
	for seed := range uint64(seeds) {
		d := &drawing{Random: r, Environment: environment(seed)}
		var names []string
		for _, c := range d.drawSwarm() {
			names = append(names, c.Name)
		}
		numUsed += len(names)
		seen[fmt.Sprint(names)] = true
	}
	if share := float64(numUsed) / seeds / float64(len(r.Choices())); share < 0.45 || share > 0.55 || len(seen) < seeds*9/10 {
		t.Errorf("seeds use %.2f of the faults on average, in %d sets for %d seeds", share, len(seen), seeds)
	}
	d := &drawing{Random: Random{Faults: []string{"gc"}}, Environment: environment(1)}
	for d.Environment = environment(1); d.chance("use", "gc") < 0.5; d.Environment = environment(d.RandomSource("another")) {
	}
	if len(d.drawSwarm()) != 1 {
		t.Error("a seed without any fault must use one")
	}
}

// The same seed draws the same plan. The steps drawn for one fault don't depend on which other
// faults may be drawn, unless the faults conflict.
func TestChoicesAreIndependent(t *testing.T) {
	cutsOnly := allFaults("")
	cutsOnly.Faults = []string{"cut"}
	cutsAndPauses := cutsOnly
	cutsAndPauses.Faults = []string{"gc", "cut"}
	numChecked := 0
	for seed := range uint64(100) {
		p := cutsAndPauses.Draw(environment(seed))
		if !reflect.DeepEqual(p, cutsAndPauses.Draw(environment(seed))) {
			t.Fatalf("seed %d: two different plans", seed)
		}
		cuts := slices.DeleteFunc(p, func(s Step) bool { return s.Fault.Kind != "cut" })
		if len(cuts) == 0 {
			continue
		}
		numChecked++
		if !reflect.DeepEqual(cuts, cutsOnly.Draw(environment(seed))) {
			t.Errorf("seed %d: garbage collections change the cuts", seed)
		}
	}
	if numChecked < 20 {
		t.Errorf("only %d seeds cut links", numChecked)
	}
}

// Each shape partitions three clients and five nodes as documented.
func TestShapes(t *testing.T) {
	w := environment(3)
	w.Clients, w.HasLink = w.Clients[:3], func(string, string) bool { return true }
	for _, c := range []struct {
		shape string
		fits  func(cut map[string]int, targets []string) bool
	}{
		{isolateShape, func(_ map[string]int, targets []string) bool { return len(targets) == 1 && len(targets[0]) == 2 }},
		{halvesShape, func(cut map[string]int, _ []string) bool {
			return cut["n"] == 5 && cut["c"] == 3 && cut["links"] == 1*3+2*2
		}},
		{bridgeShape, func(cut map[string]int, _ []string) bool { return cut["n"] == 4 && cut["links"] == 1*2+2*2 }},
		{ringShape, func(cut map[string]int, _ []string) bool { return cut["c"] == 3 && cut["links"] == 3*2 }},
		{majorityShape, func(cut map[string]int, targets []string) bool { return cut["c"] == 3 && cut["r1"] == 0 }},
		{fewLinksShape, func(cut map[string]int, _ []string) bool { return cut["links"] >= 1 && cut["links"] <= 3 }},
	} {
		d := &drawing{Random: Random{Shapes: []string{c.shape}}, Environment: w}
		for k := range 50 {
			targets := d.drawLinks(style{Choice: Choice{Name: "cut"}}, fmt.Sprint(k))
			count, seen := map[string]int{}, map[string]bool{}
			for _, l := range targets {
				client, node, ok := SplitLink(l)
				if !ok {
					continue
				}
				count["links"]++
				for _, end := range []string{client, node} {
					if !seen[end] {
						seen[end] = true
						count[end[:1]]++
					}
				}
				if node == "r1" {
					count["r1"]++
				}
			}
			if !c.fits(count, targets) {
				t.Errorf("%s %d: %v", c.shape, k, targets)
			}
		}
	}
}
