package campaign

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/reports/display"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// Bug is a violated property and the cause of the violation.
type Bug struct {
	Property string `json:"property"`
	Cause    string `json:"cause,omitempty"`
}

func (b Bug) String() string {
	if b.Cause == "" {
		return b.Property
	}
	return fmt.Sprintf("%s (%s)", b.Property, b.Cause)
}

// BugOf chooses the violation to minimize. If a property is named, it is that property's violation,
// otherwise the first unexpected violation or, without any, the first violation. BugOf returns false
// if there is none.
func BugOf(o outcome.Outcome, property string) (Bug, bool) {
	for _, required := range []bool{true, false} {
		for _, j := range o.Violations() {
			if (property == "" && (!required || !j.AsExpected)) || j.Property == property {
				return Bug{Property: j.Property, Cause: j.Cause}, true
			}
		}
	}
	return Bug{}, false
}

// Minimizer reduces a scenario to what it takes to show a bug.
type Minimizer struct {
	Known scenario.KnownNames
	// Run runs a scenario and reports whether the result is as expected. It must be safe for
	// concurrent use.
	Run func(ctx context.Context, s scenario.Scenario, seed uint64) (asExpected bool)
	// Record runs a scenario and returns its history and verdict. Without it, long plans are reduced
	// by trial and error alone.
	Record  func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error)
	Workers int
	// MaxRuns limits the number of runs; 0 means defaultMaxRuns.
	MaxRuns int
}

// defaultMaxRuns limits the runs of one call to Minimize. A plan of a hundred steps takes about a
// hundred runs, at worst four hundred.
const defaultMaxRuns = 2000

// maxRounds limits how often all edits are tried. Every round but the last makes the scenario
// smaller.
const maxRounds = 20

// robustnessSeeds is the number of seeds used to measure how often the minimized scenario shows the
// bug, which may depend on one seed's timing.
const robustnessSeeds = 100

// Minimized is the result of minimizing a scenario.
type Minimized struct {
	Bug
	Scenario scenario.Scenario `json:"scenario"`
	// Seed shows the bug. It is the lowest such seed of those tried or, if none of them shows it,
	// the seed that minimizing ended with.
	Seed             uint64       `json:"seed"`
	OriginalID       string       `json:"from"` // the original scenario's ID
	OriginalSeed     uint64       `json:"given"`
	SizeBefore       scenarioSize `json:"before"`
	SizeAfter        scenarioSize `json:"after"`
	Runs             int          `json:"runs"`  // runs it took to minimize
	ReproducingSeeds int          `json:"shows"` // how many of the SeedsTried seeds show the bug
	SeedsTried       int          `json:"others"`
	// Complete means that all edits were tried. Otherwise the run limit was reached.
	Complete bool `json:"whole"`
}

type scenarioSize struct {
	Steps   int `json:"steps"`
	Targets int `json:"targets"`
	Clients int `json:"clients"`
	Nodes   int `json:"nodes"`
	Keys    int `json:"keys"`
}

func SizeOf(s scenario.Scenario) scenarioSize {
	z := scenarioSize{Steps: len(s.Plan), Clients: len(s.Clients), Nodes: s.Topology.Nodes, Keys: len(s.KeyNames())}
	for _, st := range s.Plan {
		z.Targets += len(st.Fault.Targets)
	}
	return z
}

// Minimize minimizes a scenario that shows a bug with the given seed. It fails if the scenario does
// not show the bug, or if ctx is done.
func (k Minimizer) Minimize(ctx context.Context, s scenario.Scenario, seed uint64, b Bug) (Minimized, error) {
	r := Minimized{Bug: b, OriginalID: s.ID(), OriginalSeed: seed}
	s = s.WithRandomPlan(seed)
	r.SizeBefore = SizeOf(s)
	x := &minimization{Minimizer: k, ctx: ctx, bug: b, seed: seed, best: deepCopy(ExpectBug(s, b)), triedRuns: map[string]bool{}, slots: make(chan struct{}, max(k.Workers, 1)), runsLeft: k.MaxRuns}
	if x.runsLeft == 0 {
		x.runsLeft = defaultMaxRuns
	}
	x.triedRuns[digestOf(x.best, seed)] = true
	x.runs, x.runsLeft = 1, x.runsLeft-1
	showsBug := x.best.Check(k.Known) == nil && k.Run(ctx, x.best, seed)
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case !showsBug:
		return r, fmt.Errorf("%s does not violate %s with seed %d", s.ID(), b, seed)
	}
	x.minimizeAll()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	r.Scenario, r.Runs, r.Complete = x.best, x.runs, x.runsLeft > 0
	r.SizeAfter = SizeOf(x.best)
	r.Seed, r.SeedsTried = x.seed, robustnessSeeds
	reproducing := x.seedsShowing(robustnessSeeds)
	r.ReproducingSeeds = len(reproducing)
	if len(reproducing) > 0 {
		r.Seed = reproducing[0]
	}
	return r, ctx.Err()
}

// MinimizedRun is a minimized scenario with its file and a run of that file.
type MinimizedRun struct {
	Minimized
	File         string                `json:"file"`
	Dir          string                `json:"dir"` // run directory
	Command      string                `json:"command"`
	Reproduction *outcome.Reproduction `json:"try,omitempty"` // on another backend; nil if not tried
}

// SaveMinimized writes a minimized scenario to a file, runs it, and stores the run with its reports.
func (x Simulator) SaveMinimized(ctx context.Context, r Minimized, name, file, store string) (*MinimizedRun, error) {
	text, err := r.Write(name, x.Known)
	if err != nil {
		return nil, err
	}
	parsed, err := scenario.Parse(file, text, x.Known)
	if err != nil {
		return nil, err
	}
	o, err := x.Save(ctx, parsed[0], r.Seed, file, text, store, x.Command(file, r.Seed))
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case o.Code != outcome.ExitOK:
		return nil, withKind(NotReproduced, fmt.Errorf("%s does not reproduce %s: %s", file, r.Bug, display.FirstLine(o.Error)))
	}
	return &MinimizedRun{Minimized: r, File: file, Dir: o.Dir, Command: o.Command}, nil
}

// TryOn runs the scenario on another backend until it violates the same property there, or gives up.
func (k *MinimizedRun) TryOn(ctx context.Context, r *Runner, known scenario.KnownNames, store string) {
	k.Reproduction = &outcome.Reproduction{Backend: r.Name(), State: outcome.ReproductionImpossible}
	selection := &Selection{Scenarios: []scenarios.Found{{File: k.File, Scenario: k.Scenario}}, Backend: r.Name(), Expectations: []string{k.Property + "=" + wantViolated}}
	c, err := r.choose(selection, known)
	switch {
	case err != nil:
		k.Reproduction.Why = display.FirstLine(err.Error())
	case len(c.Picks) == 0:
		k.Reproduction.Why = display.FirstLine(c.Skipped[0].Reason.Error())
	default:
		*k.Reproduction, _ = reproduce(ctx, r.Backend, r.job(selection, c.Picks[0], k.Seed, store, KeepAll), k.Property)
	}
}

// ExpectBug returns a copy of the scenario that expects the bug and nothing else. The copy has a
// name of its own.
func ExpectBug(s scenario.Scenario, b Bug) scenario.Scenario {
	s.Name, s.Variant, s.Tags, s.Debate, s.Tier, s.Cures, s.Numbers = "small", "", nil, nil, "", nil, nil
	s.Expect = map[string]scenario.Expectation{ // required by default
		verdict.MutualExclusion: {Want: outcome.AnyOutcome}, verdict.ResourceSafety: {Want: outcome.AnyOutcome},
	}
	s.Expect[b.Property] = scenario.Expectation{Want: string(verdict.Violated), Cause: b.Cause}
	scenario.AddImplied(s.Expect, s.Tier)
	return s
}

// minimizeAll applies edits until none of them preserves the bug.
func (x *minimization) minimizeAll() {
	for range maxRounds {
		before := x.acceptedEdits
		x.distillPlan()
		x.tryEdits(shortenRun(x.best))
		x.tryEdits(shrinkTopology(x.best)) // before removing steps, because it makes that cheaper, and again after it
		x.removeSteps()
		x.removePartsWithOtherSeeds()
		x.tryEdits(makeStepsMandatory(x.best))
		x.tryEdits(reduceTargets(x.best))
		x.tryEdits(shrinkTopology(x.best))
		x.tryEdits(reduceCycles(x.best))
		x.tryEdits(dropSettings(x.best))
		x.tryEdits(shareTrigger(x.best))
		x.tryEdits(roundValues(x.best))
		if x.acceptedEdits == before {
			x.removeWithOtherSeeds()
		}
		if x.acceptedEdits == before || x.stopped() {
			return
		}
	}
}

// maxAnchors is how many triggers to try in place of a fixed time.
const maxAnchors = 6

// distillPlan replaces a long plan with the faults that were active during the violation, each
// triggered by what its victim did just before. Most steps of a long plan only shift the timing of
// others, so without them, a fault at a fixed time would strike its victim at a different point.
func (x *minimization) distillPlan() {
	if x.Record == nil || len(x.best.Plan) <= smallPlanSize || x.stopped() {
		return
	}
	h, v, err := x.Record(x.ctx, x.best, x.seed)
	if err != nil {
		return // without the record, minimizing just takes longer
	}
	r := v.Result(x.bug.Property)
	if r == nil || r.Witness == nil || len(r.Witness.Sessions) == 0 {
		return
	}
	rec := newViolationRecord(h, r.Witness)
	var edits []edit
	for anchorIndex := range maxAnchors {
		plan := rec.planOf(x.best, anchorIndex)
		edits = append(edits, func(s *scenario.Scenario) {
			if len(plan) < len(s.Plan) {
				s.Plan = plan
			}
		})
	}
	if x.acceptFirstWithSeeds(edits, append([]uint64{x.seed}, otherSeeds()...)) >= 0 {
		x.removeSteps()
	}
}

// violationRecord is the history of a violation and the span of time that led to it.
type violationRecord struct {
	events      []history.Event
	faults      []*facts.Fault
	from, to    int64
	anchorCache map[*facts.Fault][]nemesis.Trigger // possible triggers for each fault
}

// newViolationRecord finds the span that led to a violation. It starts with the attempt that
// acquired the lock for the earlier session and ends with the violation.
func newViolationRecord(h *history.History, w *verdict.Witness) violationRecord {
	l := violationRecord{h.Events, facts.Read(h).Faults, w.From, w.From, map[*facts.Fault][]nemesis.Trigger{}}
	token := ""
	for _, e := range h.Events {
		if e.Session == w.Sessions[0] && e.Op == history.OpAcquire && e.Type == history.OK {
			l.from, token = min(l.from, e.T), e.Token
		}
	}
	for _, e := range h.Events {
		if token != "" && e.Token == token && e.Op == history.OpSet && e.SentAt > 0 {
			l.from = min(l.from, e.SentAt)
		}
	}
	return l
}

// planOf returns a plan of the faults that were active during the span. A fixed time is replaced by
// an action of the fault's victim: the last one before the fault if anchorIndex is 0, the one
// before that if it is 1, and so on.
func (l violationRecord) planOf(s scenario.Scenario, anchorIndex int) (plan nemesis.Plan) {
	unchanged := map[int]bool{} // numbers of the steps copied unchanged
	for _, f := range l.faults {
		if f.Begin == nil || f.Step < 1 || f.Step > len(s.Plan) || f.From() > l.to || unchanged[f.Step] {
			continue
		}
		st, end := s.Plan[f.Step-1], f.To()
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.LosesMessage {
			end = f.From()
		}
		switch {
		case end < l.from:
		case f.From() < l.from && end > l.to: // active throughout the span
			unchanged[f.Step] = true
			plan = append(plan, st)
		default:
			if when, ok := l.trigger(s, st.When, f, anchorIndex); ok {
				plan = append(plan, nemesis.Step{When: when, Fault: l.faultOf(st.Fault, f, end), Drawn: st.Drawn})
			}
		}
	}
	return plan
}

// faultOf turns one occurrence of a planned fault on one target into a fault of its own. end is when
// it ended.
func (l violationRecord) faultOf(planned nemesis.Fault, f *facts.Fault, end int64) nemesis.Fault {
	if kind, _ := nemesis.KindOf(planned.Kind); kind.IsRepeated {
		planned.Kind, planned.Every, planned.Lasts = kind.RecordedKind, nemesis.Span{}, nemesis.Span{}
	}
	if duration := time.Duration(end - max(f.From(), l.from)); end <= l.to && duration > 0 {
		planned.For, planned.Until, planned.Timer = &duration, nil, nil
	}
	if len(planned.Targets) > 0 {
		planned.Targets = []string{f.Target}
	}
	return planned
}

// trigger returns a trigger for a fault that started during the span, or false if there is none.
func (l violationRecord) trigger(s scenario.Scenario, w nemesis.Trigger, f *facts.Fault, anchorIndex int) (nemesis.Trigger, bool) {
	switch {
	case w.Message != nil:
		m := *w.Message
		m.Nth = 1
		w.Message = &m
		return w, true
	case w.Point != nil:
		p := *w.Point
		p.Nth = 1
		w.Point = &p
		return w, true
	}
	anchors, ok := l.anchorCache[f]
	if !ok {
		anchors = l.anchors(s, f.Target, max(f.From(), l.from))
		l.anchorCache[f] = anchors
	}
	if len(anchors) == 0 {
		return w, false
	}
	return anchors[min(anchorIndex, len(anchors)-1)], true
}

// anchors returns triggers for a fault on a target at a time: the actions in the span up to then,
// latest first. They are the target's own actions if it is a client or a client's link, otherwise
// those of all clients.
func (l violationRecord) anchors(s scenario.Scenario, target string, at int64) (all []nemesis.Trigger) {
	type candidate struct {
		at   int64
		when nemesis.Trigger
	}
	var candidates []candidate
	clients := s.ClientNames()
	if victim, _, _ := nemesis.SplitLink(target); slices.Contains(clients, victim) {
		clients = []string{victim}
	}
	for _, c := range clients {
		for _, name := range nemesis.EventNames() {
			if e, last := l.lastEvent(nemesis.Event{Client: c, Event: name}, at); e.Nth > 0 {
				e.After = time.Duration(at - last)
				candidates = append(candidates, candidate{last, nemesis.Trigger{Event: &e}})
			}
		}
		for m, last := range l.lastMessages(c, at) {
			candidates = append(candidates, candidate{last, nemesis.Trigger{Message: &m}})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.at, a.at), strings.Compare(a.when.String(), b.when.String()))
	})
	for _, c := range candidates {
		all = append(all, c.when)
	}
	return all
}

// lastEvent finds the last occurrence of a client's event in the span up to the given time. It
// returns the event with that occurrence's ordinal, which is 0 if there is none, and the time.
func (l violationRecord) lastEvent(e nemesis.Event, before int64) (nemesis.Event, int64) {
	at := int64(0)
	for _, f := range l.events {
		if f.Process == e.Client && f.T >= l.from && f.T <= before && e.Matches(f) { // excludes the fault's own effects
			e.Nth++
			at = f.T
		}
	}
	return e, at
}

// lastMessages returns the last message of each kind on each of a client's links, in the span up to
// the given time, with its ordinal and time.
func (l violationRecord) lastMessages(client string, before int64) map[nemesis.OnMessage]int64 {
	count, last := map[nemesis.OnMessage]int{}, map[nemesis.OnMessage]int64{}
	for _, e := range l.events {
		if left, _, isLink := nemesis.SplitLink(e.Process); !isLink || left != client || !slices.Contains(nemesis.MessageKinds, e.Op) {
			continue
		}
		for direction, t := range map[string]int64{nemesis.Request: e.SentAt, nemesis.Reply: e.AppliedAt} {
			if m := (nemesis.OnMessage{Link: e.Process, Message: e.Op, Of: direction}); t >= l.from && t <= before {
				count[m]++
				last[m] = max(last[m], t)
			}
		}
	}
	numbered := map[nemesis.OnMessage]int64{}
	for m, t := range last {
		n := count[m]
		m.Nth = n
		numbered[m] = t
	}
	return numbered
}

// reduceTargets keeps a single target of a step, or removes one.
func reduceTargets(best scenario.Scenario) (edits []edit) {
	for i, st := range best.Plan {
		targets := st.Fault.Targets
		if len(targets) < 2 {
			continue
		}
		for _, target := range targets {
			edits = append(edits, func(s *scenario.Scenario) {
				if f := &s.Plan[i].Fault; len(f.Targets) > 1 {
					f.Targets = []string{target}
				}
			})
		}
		for _, removed := range targets {
			edits = append(edits, func(s *scenario.Scenario) {
				if f := &s.Plan[i].Fault; len(f.Targets) > 1 {
					f.Targets = slices.DeleteFunc(f.Targets, func(t string) bool { return t == removed })
				}
			})
		}
	}
	return edits
}

// shrinkTopology removes clients, nodes and keys, and renumbers the clients. The steps and settings
// of a removed client or node are removed too, or moved to a remaining one.
func shrinkTopology(best scenario.Scenario) (edits []edit) {
	for _, c := range slices.Backward(best.Clients) {
		isClient := func(name string) bool { return name == c.Name }
		edits = append(edits, func(s *scenario.Scenario) {
			if len(s.Clients) > 1 {
				removeNames(s, isClient)
			}
		}, func(s *scenario.Scenario) {
			i := slices.IndexFunc(s.Clients, func(x scenario.Client) bool { return x.Name != c.Name })
			j := slices.IndexFunc(s.Clients, func(x scenario.Client) bool { return x.Name == c.Name })
			if i < 0 || j < 0 {
				return
			}
			replacement := s.Clients[i].Name
			s.Clients = slices.Delete(s.Clients, j, j+1)
			renameAll(s, func(name string) string {
				if name == c.Name {
					return replacement
				}
				return name
			})
		}, func(s *scenario.Scenario) { // two clients with one more cycle may do the same as three
			if len(s.Clients) >= 3 && s.Workload.Cycles > 0 && removeNames(s, isClient) {
				s.Workload.Cycles++
				for i := range s.Clients {
					s.Clients[i].Cycles = nil
				}
			}
		})
	}
	for n := 1; n < best.Topology.Nodes; n++ {
		edits = append(edits, func(s *scenario.Scenario) {
			nodes := s.NodeNames()
			s.Topology.Nodes = min(s.Topology.Nodes, n)
			renameAll(s, func(name string) string {
				if k := slices.Index(nodes, name); k >= n {
					return nodes[k%n]
				}
				return name
			})
		}, func(s *scenario.Scenario) {
			if n < s.Topology.Nodes {
				removedNodes := s.NodeNames()[n:]
				s.Topology.Nodes = n
				removeNames(s, func(name string) bool { return slices.Contains(removedNodes, name) })
			}
		})
	}
	for n := 1; n < best.Workload.Keys; n *= 2 {
		edits = append(edits, lowerTo(func(s *scenario.Scenario) *int { return &s.Workload.Keys }, n))
	}
	return append(edits, renumberClients)
}

// longerFactor is how many times longer the clients may work when one of them is removed. Fewer
// clients often show the same bug, but later.
const longerFactor = 16

// removeClientAndRunLonger removes one of at least three clients and lets the others work longer.
func removeClientAndRunLonger(best scenario.Scenario) (edits []edit) {
	for _, c := range slices.Backward(best.Clients) {
		edits = append(edits, func(s *scenario.Scenario) {
			if len(s.Clients) >= 3 && removeNames(s, func(name string) bool { return name == c.Name }) {
				s.Workload.For, s.Workload.Cycles, s.Limit = s.Workload.For*longerFactor, s.Workload.Cycles*longerFactor, s.Limit*longerFactor
			}
		})
	}
	return edits
}

// lowerTo lowers a field to a limit. field returns nil if the scenario no longer has the field.
func lowerTo[T cmp.Ordered](field func(*scenario.Scenario) *T, limit T) edit {
	return func(s *scenario.Scenario) {
		if x := field(s); x != nil {
			*x = min(*x, limit)
		}
	}
}

// removeNames removes the clients and nodes with certain names, and reports whether it removed a
// client.
func removeNames(s *scenario.Scenario, isRemoved func(name string) bool) bool {
	isRemovedTarget := func(target string) bool {
		left, right, isLink := nemesis.SplitLink(target)
		return isRemoved(left) || isLink && isRemoved(right)
	}
	before := len(s.Clients)
	s.Clients = slices.DeleteFunc(s.Clients, func(c scenario.Client) bool { return isRemoved(c.Name) })
	for i, c := range s.Clients {
		if c.Start != nil && isRemoved(c.Start.Client) {
			s.Clients[i].Start = nil
		}
		if s.Clients[i].Reach = slices.DeleteFunc(c.Reach, isRemoved); len(s.Clients[i].Reach) == 0 {
			s.Clients[i].Reach = nil // nil means all nodes; a client that reaches none does nothing
		}
	}
	s.Topology.Addresses = slices.DeleteFunc(s.Topology.Addresses, isRemoved)
	s.Plan = slices.DeleteFunc(s.Plan, func(st nemesis.Step) bool {
		w := st.When
		return w.Event != nil && isRemoved(w.Event.Client) || w.Point != nil && isRemoved(w.Point.Client) || w.Message != nil && isRemovedTarget(w.Message.Link) ||
			st.Fault.Until != nil && isRemoved(st.Fault.Until.Client) || len(st.Fault.Targets) > 0 && !slices.ContainsFunc(st.Fault.Targets, func(t string) bool { return !isRemovedTarget(t) })
	})
	for i := range s.Plan {
		s.Plan[i].Fault.Targets = slices.DeleteFunc(s.Plan[i].Fault.Targets, isRemovedTarget)
	}
	return len(s.Clients) < before
}

// renumberClients renames the remaining clients to c1, c2 and so on.
func renumberClients(s *scenario.Scenario) {
	before := s.ClientNames()
	renameAll(s, func(name string) string {
		if i := slices.Index(before, name); i >= 0 {
			return fmt.Sprintf("c%d", i+1)
		}
		return name
	})
}

// renameAll renames clients and nodes everywhere, and removes duplicates from lists of names.
func renameAll(s *scenario.Scenario, newName func(name string) string) {
	rename := func(name *string) {
		left, right, isLink := nemesis.SplitLink(*name)
		if *name = newName(left); isLink {
			*name = nemesis.LinkName(*name, newName(right))
		}
	}
	renameList := func(names []string) (unique []string) {
		for _, n := range names {
			if rename(&n); !slices.Contains(unique, n) {
				unique = append(unique, n)
			}
		}
		return unique
	}
	renameEvent := func(e *nemesis.Event) {
		if e != nil {
			rename(&e.Client)
		}
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		rename(&c.Name)
		renameEvent(c.Start)
		c.Reach = renameList(c.Reach)
	}
	for i := range s.Topology.Addresses {
		rename(&s.Topology.Addresses[i])
	}
	for i := range s.Plan {
		w, f := s.Plan[i].When, &s.Plan[i].Fault
		renameEvent(w.Event)
		if w.Point != nil {
			rename(&w.Point.Client)
		}
		if w.Message != nil {
			rename(&w.Message.Link)
		}
		renameEvent(f.Until)
		f.Targets = renameList(f.Targets)
	}
}

func setTo[T any](field func(*scenario.Scenario) *T, value T) edit {
	return func(s *scenario.Scenario) { *field(s) = value }
}

// clearField sets a field to its zero value.
func clearField[T any](field func(*scenario.Scenario) *T) edit {
	var zero T
	return setTo(field, zero)
}

// dropSettings resets settings to their defaults.
func dropSettings(best scenario.Scenario) []edit {
	type sc = scenario.Scenario
	edits := []edit{
		clearField(func(s *sc) *int { return &s.Topology.Replicas }),
		setTo(func(s *sc) *string { return &s.Topology.Persistence }, scenario.PersistNone),
		clearField(func(s *sc) *string { return &s.Topology.Expiry }),
		clearField(func(s *sc) *[]string { return &s.Topology.Addresses }),
		setTo(func(s *sc) *string { return &s.Workload.Fence }, client.FenceNone),
		clearField(func(s *sc) *bool { return &s.Lock.Fence }),
		clearField(func(s *sc) *string { return &s.Lock.Ask }),
		clearField(func(s *sc) *int { return &s.Lock.Extends }),
		setTo(func(s *sc) *int { return &s.Workload.Writes }, 1),
		clearField(func(s *sc) *client.Range { return &s.Workload.Prepare }),
		clearField(func(s *sc) *bool { return &s.Workload.NoCheck }),
		clearField(func(s *sc) *bool { return &s.MayBeVacuous }),
	}
	if best.Expect[verdict.BoundedHold].Want == "" {
		edits = append(edits, clearField(func(s *sc) *scenario.Limits { return &s.Limits }))
	}
	for i := range best.Clients {
		edits = append(edits,
			clearField(func(s *sc) **nemesis.Event { return &s.Clients[i].Start }),
			clearField(func(s *sc) *[]string { return &s.Clients[i].Reach }),
			clearField(func(s *sc) *time.Duration { return &s.Clients[i].TTL }),
			clearField(func(s *sc) **client.Range { return &s.Clients[i].Think }),
			clearField(func(s *sc) **client.Range { return &s.Clients[i].Hold }),
			clearField(func(s *sc) **int { return &s.Clients[i].Cycles }))
	}
	for i := range best.Plan {
		edits = append(edits, dropStepSettings(func(s *sc) *nemesis.Step { return &s.Plan[i] })...)
	}
	return edits
}

// dropStepSettings resets a step's settings except the fault kind, the targets and the trigger.
func dropStepSettings(getStep func(*scenario.Scenario) *nemesis.Step) []edit {
	type sc = scenario.Scenario
	return []edit{
		clearField(func(s *sc) *string { return &getStep(s).Fault.Way }),
		clearField(func(s *sc) *float64 { return &getStep(s).Fault.Share }),
		clearField(func(s *sc) **nemesis.Timer { return &getStep(s).Fault.Timer }),
		clearField(func(s *sc) **nemesis.Event { return &getStep(s).Fault.Until }),
		func(s *sc) {
			f := &getStep(s).Fault
			if kind, _ := nemesis.KindOf(f.Kind); len(kind.Modes) > 0 {
				f.Mode = kind.Modes[0]
			}
		},
		lowerTo(func(s *sc) *int {
			switch w := getStep(s).When; {
			case w.Event != nil:
				return &w.Event.Nth
			case w.Point != nil:
				return &w.Point.Nth
			case w.Message != nil:
				return &w.Message.Nth
			}
			return nil
		}, 1),
	}
}

// makeStepsMandatory makes optional steps mandatory: first all of them, then one at a time.
func makeStepsMandatory(best scenario.Scenario) []edit {
	makeMandatory := func(st *nemesis.Step) { st.Drawn, st.When.Before = false, 0 }
	edits := []edit{func(s *scenario.Scenario) {
		for i := range s.Plan {
			makeMandatory(&s.Plan[i])
		}
	}}
	for i := range best.Plan {
		edits = append(edits, func(s *scenario.Scenario) { makeMandatory(&s.Plan[i]) },
			clearField(func(s *scenario.Scenario) *bool { return &s.Plan[i].Drawn }))
	}
	return edits
}
