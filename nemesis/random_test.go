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
		Linked: func(client, node string) bool { return client != "c5" || node != "n1" },
		Begin:  time.Second, Limit: time.Minute, TTL: 5 * time.Second, Margin: 50 * time.Millisecond,
		Persists: seed%3 > 0, Durable: seed%3 == 2,
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
		if within == "" || k.Allowed != "" {
			r.Faults = append(r.Faults, k.Name)
		}
	}
	return r
}

func targetType(s Step) Target {
	k, _ := KindOf(s.Fault.Kind)
	switch {
	case k.Hits(Message), k.Hits(Link):
		return k.On[0]
	case s.Fault.Targets[0][0] == 'c':
		return Client
	}
	return Node
}

// activeSpan returns when a step's fault is active. If an event triggers the step, that may be any
// time before the end of the safety phase.
func activeSpan(s Step, over time.Duration) Span {
	if s.When.At == nil {
		return Span{0, over}
	}
	span := Span{*s.When.At, *s.When.At}
	k, _ := KindOf(s.Fault.Kind)
	switch {
	case s.Fault.For != nil:
		span.Max += s.Fault.Timer.TrueDuration(*s.Fault.For)
	case k.Name == clockSlew.Name:
		span.Max += time.Duration(float64(s.Fault.By.Abs()) / slewRate)
	}
	if k.Repeats {
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
		over := time.Duration(0.6 * float64(w.Limit))
		dead := map[string]bool{}
		plan := allFaults(within).Draw(w)
		for i, s := range plan {
			k, ok := KindOf(s.Fault.Kind)
			if o := k.Validate(s.Fault, Topology{Replicas: 1, Persists: true}); !ok || o != nil {
				t.Fatalf("seed %d step %d: %s: %v", seed, i+1, k.Name, o)
			}
			drawnKinds[k.Name+" "+s.Fault.Mode]++
			triggers[fmt.Sprint(s.When.At != nil, s.When.Event != nil, s.When.Point != nil, s.When.Message != nil)]++
			span := activeSpan(s, over)
			if span.Max > over+time.Microsecond || s.When.At == nil && (s.When.Before <= 0 || s.When.Before > over) {
				t.Errorf("seed %d step %d: %v %+v is not over by %v", seed, i+1, s.When, s.Fault, over)
			}
			if k.Name == kill.Name && targetType(s) == Client {
				dead[s.Fault.Targets[0]] = true
			}
		}
		if len(dead) > len(w.Clients)-MinSurvivors {
			t.Errorf("seed %d kills %d clients", seed, len(dead))
		}
		for i, a := range plan {
			if on := targetType(a); on == Client && a.Fault.Kind != kill.Name && dead[a.Fault.Targets[0]] {
				t.Errorf("seed %d step %d hits %s, which is killed", seed, i+1, a.Fault.Targets[0])
			}
			for j, b := range plan[:i] {
				if why := conflict(a, b, over); why != "" {
					t.Errorf("seed %d: steps %d and %d: %s", seed, j+1, i+1, why)
				}
			}
		}
	}
	for _, k := range Kinds {
		for _, m := range append(slices.Clone(k.Modes), []string{""}[min(len(k.Modes), 1):]...) {
			if drawn := drawnKinds[k.Name+" "+m]; drawn > 0 == slices.Contains(k.ExcludedModes, m) {
				t.Errorf("%s %s: drawn %d times", k.Name, m, drawn)
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
func conflict(a, b Step, over time.Duration) string {
	ka, _ := KindOf(a.Fault.Kind)
	kb, _ := KindOf(b.Fault.Kind)
	on := targetType(a)
	switch {
	case on != targetType(b), on == Message, ka.Overlaps && kb.Overlaps && (a.Fault.Mode != b.Fault.Mode || a.Fault.Way != b.Fault.Way) && on != Link:
		return ""
	case ka.Overlaps && kb.Overlaps:
		if ka.Name == kb.Name && !cutsReplica(a) && !cutsReplica(b) && (a.Fault.Mode != b.Fault.Mode || a.Fault.Way != b.Fault.Way) {
			return "they differ in mode or direction, so they can't overlap"
		}
		return ""
	case on == Link && ka.Capability(Link) != kb.Capability(Link):
		return ""
	}
	x, y := activeSpan(a, over), activeSpan(b, over)
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
			if what, why := checkAssumptions(s, w); why != "" {
				t.Errorf("seed %d step %d: %v %+v: %s", seed, i+1, s.When, s.Fault, why)
			} else {
				counts[what]++
			}
			if s.Fault.Kind == fullDisk.Name && w.Durable {
				fullDisks[s.Fault.Targets[0]] = true
			}
		}
		if len(fullDisks) > (len(w.Nodes)-1)/2 {
			t.Errorf("seed %d fills the disks of %d nodes, which makes them exit", seed, len(fullDisks))
		}
	}
	for _, what := range []string{"offset", "client clock", "clock", "rate", "slew", "back after its keys expired", "back at once"} {
		if counts[what] < 50 {
			t.Errorf("%s: only %d drawn", what, counts[what])
		}
	}
}

// checkAssumptions returns the assumption that a step satisfies, or why it violates one.
func checkAssumptions(s Step, w Environment) (what, why string) {
	f, most := s.Fault, w.Margin/4
	switch f.Kind {
	case clockJump.Name, clockStrobe.Name:
		switch {
		case targetType(s) == Client:
			return "client clock", "" // a client's wall clock doesn't matter
		case f.Kind == clockJump.Name && s.When.At != nil && *s.When.At < w.Begin && f.By > 0 && f.For == nil:
			return "offset", "" // before any key exists
		case f.By.Abs() > most:
			return "", "the clock offset is too large"
		}
		return "clock", ""
	case clockRate.Name:
		if off := time.Duration((f.Rate - 1) * float64(w.TTL)).Abs(); off > most {
			return "", fmt.Sprintf("the clock drifts by %v in a TTL", off)
		}
		return "rate", ""
	case clockSlew.Name:
		if f.By.Abs() > time.Duration(slewRate*float64(w.Limit)) {
			return "", "the slew takes longer than the run"
		}
		return "slew", ""
	case kill.Name, shutdown.Name, powerLoss.Name:
		keeps := w.Durable || w.Persists && f.Kind == shutdown.Name
		switch {
		case targetType(s) != Node:
		case f.Timer != nil:
			return "", "its timer has the wrong rate"
		case *f.For >= w.TTL+w.Margin:
			return "back after its keys expired", ""
		case !keeps:
			return "", "the node comes back too soon"
		default:
			return "back at once", ""
		}
	case failover.Name:
		return "", "failovers are beyond the assumptions"
	}
	return "", ""
}

// If the lock allows for little drift, no clock is slewed within the assumptions.
func TestSlewsStayWithinDrift(t *testing.T) {
	r := allFaults(Assumptions)
	r.Faults = []string{clockSlew.Name}
	for seed := range uint64(20) {
		w := environment(seed)
		if w.Margin = w.TTL / 1000; len(r.Draw(w)) > 0 {
			t.Errorf("seed %d: slewed by 500 ppm although the drift allowance is 0.1 %%", seed)
		}
		if w.Margin = w.TTL / 100; len(r.Draw(w)) == 0 {
			t.Errorf("seed %d: no slew although the drift allowance is 1 %%", seed)
		}
	}
}

// Before a failover to a lagging replica, the replica's link is cut.
func TestRandomFailoversLag(t *testing.T) {
	r := allFaults("")
	r.Faults = []string{failover.Name}
	lags, all := 0, 0
	for seed := range uint64(40) {
		cut := map[string]Step{}
		for i, s := range r.Draw(environment(seed)) {
			node := s.Fault.Targets[0]
			if s.Fault.Kind != failover.Name {
				cut[node] = s
				continue
			}
			all++
			c, ok := cut[LinkName(node, Replica)]
			if !ok {
				continue
			}
			lags++
			if span := activeSpan(c, 0); span.Min < time.Second || span.Min >= *s.When.At || span.Max <= *s.When.At || span.Max > 36*time.Second {
				t.Errorf("seed %d step %d: failover at %v, cut during %v", seed, i+1, *s.When.At, span)
			}
		}
	}
	if lags < all/4 || lags > all*3/4 {
		t.Errorf("%d of %d failovers lag", lags, all)
	}
}

// Seeds differ in the faults that they use, and each uses about half of them.
func TestSwarm(t *testing.T) {
	r := allFaults("")
	used, seen := 0, map[string]bool{}
	const seeds = 500
	for seed := range uint64(seeds) {
		d := &drawing{Random: r, Environment: environment(seed)}
		var words []string
		for _, c := range d.drawSwarm() {
			words = append(words, c.Name)
		}
		used += len(words)
		seen[fmt.Sprint(words)] = true
	}
	if share := float64(used) / seeds / float64(len(r.Choices())); share < 0.45 || share > 0.55 || len(seen) < seeds*9/10 {
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
	only := allFaults("")
	only.Faults = []string{"cut"}
	both := only
	both.Faults = []string{"gc", "cut"}
	checked := 0
	for seed := range uint64(100) {
		p := both.Draw(environment(seed))
		if !reflect.DeepEqual(p, both.Draw(environment(seed))) {
			t.Fatalf("seed %d: two different plans", seed)
		}
		cuts := slices.DeleteFunc(p, func(s Step) bool { return s.Fault.Kind != "cut" })
		if len(cuts) == 0 {
			continue
		}
		checked++
		if !reflect.DeepEqual(cuts, only.Draw(environment(seed))) {
			t.Errorf("seed %d: garbage collections change the cuts", seed)
		}
	}
	if checked < 20 {
		t.Errorf("only %d seeds cut links", checked)
	}
}

// Each shape partitions three clients and five nodes as documented.
func TestShapes(t *testing.T) {
	w := environment(3)
	w.Clients, w.Linked = w.Clients[:3], func(string, string) bool { return true }
	for _, c := range []struct {
		shape string
		fits  func(cut map[string]int, targets []string) bool
	}{
		{isolate, func(_ map[string]int, targets []string) bool { return len(targets) == 1 && len(targets[0]) == 2 }},
		{halves, func(cut map[string]int, _ []string) bool {
			return cut["n"] == 5 && cut["c"] == 3 && cut["links"] == 1*3+2*2
		}},
		{bridge, func(cut map[string]int, _ []string) bool { return cut["n"] == 4 && cut["links"] == 1*2+2*2 }},
		{ring, func(cut map[string]int, _ []string) bool { return cut["c"] == 3 && cut["links"] == 3*2 }},
		{majority, func(cut map[string]int, targets []string) bool { return cut["c"] == 3 && cut["r1"] == 0 }},
		{fewLinks, func(cut map[string]int, _ []string) bool { return cut["links"] >= 1 && cut["links"] <= 3 }},
	} {
		d := &drawing{Random: Random{Shapes: []string{c.shape}}, Environment: w}
		for k := range 50 {
			targets := d.drawLinks(style{Choice: Choice{Name: "cut"}}, fmt.Sprint(k))
			count, had := map[string]int{}, map[string]bool{}
			for _, l := range targets {
				client, node, ok := SplitLink(l)
				if !ok {
					continue
				}
				count["links"]++
				for _, end := range []string{client, node} {
					if !had[end] {
						had[end] = true
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
