package nemesis

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Random describes the plans that seeds draw. Each plan has two phases:
//
//	0          safety phase: faults come and go          │ liveness phase: faults healed   limit
//	├──▒▒──▒▒▒▒▒▒▒────▒────▒▒▒▒▒▒▒▒▒▒▒▒───▒▒▒─────▒▒▒▒──│──────────────────────────────────┤
//
// In the safety phase, no client may hold a lock that another client holds. In the liveness phase,
// clients must be able to acquire locks again.
//
// Plans are drawn as in swarm testing. A seed leaves out about half of the faults. For each of the
// others it draws the frequency, the maximum duration, the mode and the targets. If all seeds used
// all faults alike, unusual situations would be rare, and each fault could mask others in every
// run. Source: A. Groce, C. Zhang, E. Eide, Y. Chen and J. Regehr, "Swarm Testing", ISSTA 2012.
type Random struct {
	Faults []string `json:"faults"`           // see Choices
	Within string   `json:"within,omitempty"` // Assumptions, or "" for no limits
	Every  Span     `json:"every"`            // range from which each seed draws the mean interval between faults of a kind
	Lasts  Span     `json:"lasts"`            // shortest and longest fault; each seed draws its own maximum from the upper half
	Safety float64  `json:"safety"`           // the safety phase's share of the time limit
	Modes  []string `json:"modes,omitempty"`  // nil means all modes
	Shapes []string `json:"shapes,omitempty"` // shapes of link faults; nil means all shapes
}

// Assumptions limits a plan to Redlock's assumptions: clock errors are smaller than the drift that
// the lock allows for, a node that may have forgotten its keys does not come back before all of
// them have expired, and masters are independent. Pauses, client crashes and network faults are
// unlimited. See Kind.AllowedFaults for each kind.
const Assumptions = "assumptions"

type Choice struct {
	Name       string // name in scenario files: "cut", "pause-client"
	Kind       Kind
	TargetType Target
}

// Fatal reports whether the target can't be restarted.
func (c Choice) Fatal() bool { return c.TargetType == c.Kind.FatalTarget }

func allChoices() []Choice {
	var all []Choice
	for _, k := range Kinds {
		if slices.Contains(k.ExcludedModes, "") {
			continue
		}
		for _, typ := range k.TargetTypes {
			c := Choice{k.Name, k, typ}
			if len(k.TargetTypes) > 1 {
				c.Name = Capability(k.Name, typ)
			}
			all = append(all, c)
		}
	}
	return all
}

// Choices returns the valid names of faults in a random plan. The name of a kind stands for all of
// its target types. A kind with several target types has another name for each of them.
func Choices() []string {
	var names []string
	for _, c := range allChoices() {
		for _, w := range []string{c.Kind.Name, c.Name} {
			if !slices.Contains(names, w) {
				names = append(names, w)
			}
		}
	}
	return names
}

// Choices returns the selected choices in the order of Kinds.
func (r Random) Choices() []Choice {
	return slices.DeleteFunc(allChoices(), func(c Choice) bool {
		return !slices.Contains(r.Faults, c.Name) && !slices.Contains(r.Faults, c.Kind.Name)
	})
}

// Without removes the choices for which exclude returns true, and returns their names.
func (r Random) Without(exclude func(Choice) bool) (_ Random, excluded []string) {
	var kept []string
	for _, c := range r.Choices() {
		if exclude(c) {
			excluded = append(excluded, c.Name)
		} else {
			kept = append(kept, c.Name)
		}
	}
	if len(excluded) > 0 {
		r.Faults = kept
	}
	return r, excluded
}

// ModesOf returns the modes of a kind that may be drawn.
func (r Random) ModesOf(k Kind) []string {
	return slices.DeleteFunc(slices.Clone(k.Modes), func(m string) bool {
		return slices.Contains(k.ExcludedModes, m) || r.Modes != nil && !slices.Contains(r.Modes, m)
	})
}

// Limits for faults that may violate the assumptions.
const (
	maxRate = 2 // a clock runs at most twice as fast or half as fast
	minRate = 1.0 / maxRate
)

// clockShare is the share of the margin that one clock may use up within the assumptions. A clock
// that goes from behind to ahead within a TTL moves by twice this share, and a client's clock may
// move in the opposite direction. So two clocks may diverge by four times the share.
const clockShare = 0.2

// minSlew is the minimum duration of a slew, long enough to slew a clock by a millisecond.
const minSlew = 2 * time.Second

// slewAllowed reports whether slewing a clock stays within the assumptions.
func (d *drawing) slewAllowed() bool {
	return slewRate*float64(d.TTL) <= clockShare*float64(d.DriftMargin)
}

// restartDelay returns how long a node that forgets its keys stays down. A client may rely on a
// lock for a TTL, and the node may have granted the lock just before it failed. The margin covers
// the error in the client's clock. Source: Redis documentation, "Distributed Locks with Redis",
// performance, crash recovery and fsync: delayed restarts.
func (d *drawing) restartDelay() time.Duration { return d.TTL + 2*d.DriftMargin + d.TTL/20 }

// maxOffset is the maximum offset of a clock that was never synchronized.
const maxOffset = 24 * time.Hour

// offsetSteps returns steps that permanently set nodes' clocks ahead before the clients begin,
// while there is no key that could expire as a result. There is no need to set clocks back, because
// nothing but the difference between two clocks could matter.
func (d *drawing) offsetSteps(s style) []drawnStep {
	if d.Start == 0 || d.chance(s.Name, "offsets") < 0.5 {
		return nil
	}
	var out []drawnStep
	for i, node := range d.sample(d.Nodes, s.Name, "ahead") {
		at := time.Duration(i) // each step at a different instant
		offset := d.logUniform(Span{time.Millisecond, maxOffset}, s.Name, "ahead by", node)
		out = append(out, drawnStep{at, Step{When: Trigger{At: &at}, Fault: Fault{Kind: s.Kind.Name, Targets: []string{node}, By: offset}, Drawn: true}})
	}
	return out
}

// drawLag draws how long a replica is cut off from its master before the failover. It returns 0 for
// half of the failovers.
func (d *drawing) drawLag(s style, k string, at time.Duration) time.Duration {
	if s.Kind.Name != failoverKind.Name || d.chance(s.Name, "lags", k) < 0.5 {
		return 0
	}
	return min(at-d.Start, d.logUniform(Span{d.TTL / 10, 2 * d.TTL}, s.Name, "lag", k))
}

// cutReplica returns a step that cuts the replica off before its failover and restores the link
// within the safety phase.
func (d *drawing) cutReplica(failoverStep Step, at, lag time.Duration) Step {
	link := LinkName(failoverStep.Fault.Targets[0], Replica)
	duration := lag + (d.safetyEnd-at-lag)/2
	return Step{When: Trigger{At: &at}, Fault: Fault{Kind: cutKind.Name, Mode: CutHold, Targets: []string{link}, For: &duration}, Drawn: true}
}

// maxSteps is the maximum number of steps for one choice.
const maxSteps = 100

func (r Random) Draw(w Environment) Plan {
	d := &drawing{Random: r, Environment: w, safetyEnd: time.Duration(r.Safety * float64(w.TimeLimit)), reservedSpans: map[string][]Span{}, usedTriggers: map[any]bool{}}
	swarm := d.drawSwarm()
	var all []drawnStep
	for _, c := range swarm {
		all = append(all, d.drawChoice(c, swarm)...)
	}
	slices.SortStableFunc(all, func(a, b drawnStep) int { return cmp.Compare(a.at, b.at) })
	plan := Plan{}
	for _, s := range all {
		plan = append(plan, s.Step)
	}
	return plan
}

// drawSwarm draws which choices the seed uses.
func (d *drawing) drawSwarm() []Choice {
	all := d.Choices()
	selected := slices.DeleteFunc(slices.Clone(all), func(c Choice) bool { return d.chance("use", c.Name) >= 0.5 })
	if len(selected) == 0 && len(all) > 0 {
		selected = all[d.intn(len(all), "use one"):][:1]
	}
	return selected
}

func (d *drawing) drawChoice(c Choice, swarm []Choice) []drawnStep {
	s := d.drawStyle(c, swarm)
	mean := d.logUniform(d.Every, c.Name, "mean")
	var out []drawnStep
	if c.Kind.Name == clockJumpKind.Name && c.TargetType == Node {
		out = d.offsetSteps(s)
	}
	at := d.Start
	for k := 1; k <= maxSteps; k++ {
		n := strconv.Itoa(k)
		at += time.Duration(float64(mean) * (0.5 + d.chance(c.Name, "gap", n)))
		if at >= d.safetyEnd {
			break
		}
		if step, ok := d.drawStep(s, n, at); ok {
			if lag := d.drawLag(s, n, at); lag > 0 {
				out = append(out, drawnStep{at - lag, d.cutReplica(step, at-lag, lag)})
			}
			out = append(out, drawnStep{at, step})
		}
	}
	return out
}

func (d *drawing) drawStyle(c Choice, swarm []Choice) style {
	s := style{Choice: c, maxDuration: d.logUniform(Span{geometricMean(d.Lasts), d.Lasts.Max}, c.Name, "longest")}
	if modes := d.ModesOf(c.Kind); len(modes) > 0 {
		s.mode = modes[d.intn(len(modes), c.Name, "mode")]
	}
	if slices.Contains(c.Kind.Fields, "way") && d.allowsShape(oneWayShape) && (len(c.Kind.Modes) == 0 || c.Kind.Name != cutKind.Name || cutsOneWay(s.mode)) {
		s.way = []string{"", "", Request, Reply}[d.intn(4, c.Name, "way")]
	}
	switch c.TargetType {
	case Node:
		s.targets = d.sample(d.Nodes, c.Name, "whom")
		if s.isLost = c.Kind.EndsNode != nil && c.Kind.EndsNode(d.Environment); s.isLost {
			s.targets = s.targets[:min(len(s.targets), (len(d.Nodes)-1)/2)]
		}
	case Client:
		// A client that will be killed gets no other faults, because they would have no effect after
		// its death.
		victims := d.drawVictims(swarm)
		s.targets = d.sample(slices.DeleteFunc(slices.Clone(d.Clients), func(n string) bool { return slices.Contains(victims, n) }), c.Name, "whom")
		if c.Fatal() {
			s.targets = victims
		}
	}
	s.exclusive = slices.ContainsFunc(swarm, func(o Choice) bool {
		return o.TargetType == c.TargetType && !o.Kind.MayOverlap && !o.Fatal() && (c.TargetType != Link || o.Kind.Capability(Link) == c.Kind.Capability(Link))
	})
	return s
}

// MinSurvivors is the minimum number of clients that are not killed, so that contention continues
// until the end.
const MinSurvivors = 2

func (d *drawing) drawVictims(swarm []Choice) []string {
	if !slices.ContainsFunc(swarm, Choice.Fatal) || len(d.Clients) <= MinSurvivors {
		return nil
	}
	return d.sample(d.shuffle(d.Clients, "survivors")[MinSurvivors:], "mortals")
}

// drawStep draws the k-th fault in a style, which happens at the given time. It returns false if
// the fault does not fit into the safety phase or conflicts with another fault.
func (d *drawing) drawStep(s style, k string, at time.Duration) (Step, bool) {
	f := Fault{Kind: s.Kind.Name, Mode: s.mode, Way: s.way}
	duration := d.logUniform(Span{d.Lasts.Min, s.maxDuration}, s.Name, "lasts", k)
	if d.Within == Assumptions && s.TargetType == Node && s.Kind.MayForget != nil && s.Kind.MayForget(d.Environment) {
		duration = max(duration, d.restartDelay())
	}
	if s.Kind.IsRepeated {
		duration = max(duration, 3*s.interval().Max)
	}
	if s.Kind.Name == clockSlewKind.Name {
		if duration = max(duration, minSlew); d.Within == Assumptions && !d.slewAllowed() {
			return Step{}, false
		}
		f.By = time.Duration(slewRate * float64(duration))
	}
	end := at + duration
	if s.Kind.IsRepeated {
		end += s.maxDuration // the last repetition may begin at the end
	}
	if end > d.safetyEnd {
		return Step{}, false
	}
	if !s.lastsToEnd() {
		f.For = &duration
	}
	d.drawFields(s, k, &f)
	trigger, targets := d.pickTargets(s, k, at, d.safetyEnd-(end-at))
	f.Targets = targets
	if trigger.Message == nil && len(targets) == 0 {
		return Step{}, false
	}
	if m := trigger.Message; m != nil {
		if d.usedTriggers[*m] {
			return Step{}, false // a message can be held only once
		}
		d.usedTriggers[*m] = true
	}
	if (!s.Kind.MayOverlap || s.exclusive) && s.TargetType != Message && !d.occupy(s, targets, Span{at - d.drawLag(s, k, at), end}) {
		return Step{}, false
	}
	return Step{When: trigger, Fault: f, Drawn: true}, true
}

// pickTargets draws the targets and the trigger. If the fault may overlap with others of its kind,
// half of the triggers are events, or points in a client's program, at which the fault is most
// disruptive.
func (d *drawing) pickTargets(s style, k string, at, deadline time.Duration) (Trigger, []string) {
	trigger := Trigger{At: &at}
	switch s.TargetType {
	case Message:
		return Trigger{Message: d.drawMessage(s, k), Before: deadline}, nil
	case Link:
		targets := d.drawLinks(s, k)
		if s.Kind.MayOverlap && !s.exclusive {
			trigger = d.drawTrigger(s, k, "", trigger, deadline)
		}
		return trigger, targets
	}
	if len(s.targets) == 0 {
		return trigger, nil
	}
	target := s.targets[d.intn(len(s.targets), s.Name, "target", k)]
	switch {
	case s.TargetType == Node && s.Kind.MayOverlap && !s.exclusive:
		trigger = d.drawTrigger(s, k, "", trigger, deadline)
	case s.TargetType == Client && (s.Kind.MayOverlap && !s.exclusive || s.hitsTargetOnce()):
		trigger = d.drawTrigger(s, k, target, trigger, deadline)
	}
	return trigger, []string{target}
}

// Events and points at which faults are most disruptive.
var (
	disruptiveEvents = []string{"acquiring", "acquired", "read", "writing", "releasing"}
	disruptivePoints = []string{"during-acquire", "after-acquire", "between-check-and-write", "before-release"}
)

// drawTrigger draws an event or a point in a client's program, or returns at. client is the client
// that triggers the step, or "" if any client may.
func (d *drawing) drawTrigger(s style, k, client string, at Trigger, deadline time.Duration) Trigger {
	if deadline <= 0 || len(d.Clients) == 0 {
		return at
	}
	if client == "" {
		client = d.Clients[d.intn(len(d.Clients), s.Name, "by", k)]
	}
	nth := 1 + d.intn(8, s.Name, "nth", k)
	switch d.intn(4, s.Name, "when", k) {
	case 0:
		e := &Event{Client: client, Event: disruptiveEvents[d.intn(len(disruptiveEvents), s.Name, "event", k)], Nth: nth}
		e.After = d.uniform(Span{0, d.TTL / 20}, s.Name, "after", k)
		return Trigger{Event: e, Before: deadline}
	case 1:
		p := OnPoint{Client: client, Point: disruptivePoints[d.intn(len(disruptivePoints), s.Name, "point", k)], Nth: nth}
		if d.usedTriggers[p] || s.Kind.IsRepeated {
			return at // a client reaches a point for the nth time only once
		}
		d.usedTriggers[p] = true
		return Trigger{Point: &p, Before: deadline}
	}
	return at
}

// drawMessage draws the message to hit: usually one that belongs to the lock, sometimes a write to
// the resource.
func (d *drawing) drawMessage(s style, k string) *OnMessage {
	links := d.links(func(_, node string) bool { return node != d.Resource })
	m := &OnMessage{Message: []string{"set", "release"}[d.intn(2, s.Name, "message", k)]}
	if d.chance(s.Name, "write", k) < 0.2 || len(links) == 0 {
		links = d.links(func(_, node string) bool { return node == d.Resource })
		m.Message = "write"
	}
	m.Link = links[d.intn(len(links), s.Name, "link", k)]
	m.Of = []string{Request, Reply}[d.intn(2, s.Name, "of", k)]
	m.Nth = int(d.logUniformFloat(1, 60, s.Name, "nth", k))
	return m
}

// occupy reserves targets for a span of time. It returns false if another fault occupies any of
// them. A node or client has at most one fault at a time, and a link at most one per capability.
func (d *drawing) occupy(s style, targets []string, span Span) bool {
	if s.hitsTargetOnce() {
		span.Max = d.TimeLimit
	}
	var keys []string
	for _, t := range targets {
		if s.TargetType != Link {
			keys = append(keys, t)
			continue
		}
		for _, l := range d.linksOf(t) {
			keys = append(keys, s.Kind.Capability(Link)+" "+l)
		}
	}
	gap := d.TTL / 4 // gap between two faults, because a restart takes a while
	for _, key := range keys {
		if slices.ContainsFunc(d.reservedSpans[key], func(o Span) bool { return span.Min <= o.Max+gap && o.Min <= span.Max+gap }) {
			return false
		}
	}
	for _, key := range keys {
		d.reservedSpans[key] = append(d.reservedSpans[key], span)
	}
	return true
}

// drawFields draws the values of the fields that apply to the fault.
func (d *drawing) drawFields(s style, k string, f *Fault) {
	name := func(what string) []string { return []string{s.Name, what, k} }
	for _, field := range s.Kind.Fields {
		switch field {
		case "by":
			f.By = d.drawOffset(s, k, f.By)
		case "rate":
			f.Rate = d.logUniformFloat(minRate, maxRate, name("rate")...)
			if d.Within == Assumptions {
				share := clockShare * (2*d.chance(name("rate")...) - 1)
				f.Rate = 1 + share*float64(d.DriftMargin)/float64(d.TTL)
			}
		case "delay":
			maxDelay := d.logUniform(Span{time.Millisecond, max(d.TTL/2, 2*time.Millisecond)}, name("delay")...)
			f.Delay = Span{max(maxDelay/10, time.Millisecond), max(maxDelay, time.Millisecond)}
		case "share":
			f.Share = d.logUniformFloat(0.01, 1, name("share")...)
		case "bandwidth":
			f.Bandwidth = int(d.logUniformFloat(200, 1e6, name("bandwidth")...))
		case "every":
			f.Every = s.interval()
		case "lasts":
			f.Lasts = Span{min(time.Millisecond, s.maxDuration), s.maxDuration}
		case "timer":
			if f.For != nil && d.Within == "" && d.chance(name("timer")...) < 0.3 {
				f.Timer = &Timer{Rate: d.logUniformFloat(minRate, maxRate, name("timer rate")...)}
				timerDuration := time.Duration(float64(*f.For) * f.Timer.Rate) // so that the node is down for the drawn duration of true time
				f.For = &timerDuration
			}
		}
	}
}

// drawOffset draws the sign of a clock offset. If by is 0, it draws the size, too.
func (d *drawing) drawOffset(s style, k string, offset time.Duration) time.Duration {
	if offset == 0 {
		limit := 2 * d.TTL
		if d.Within == Assumptions && s.TargetType == Node {
			limit = time.Duration(clockShare * float64(d.DriftMargin))
		}
		offset = d.logUniform(Span{time.Millisecond, max(limit, time.Millisecond)}, s.Name, "by", k)
	}
	if d.intn(2, s.Name, "back", k) == 0 {
		offset = -offset
	}
	return offset
}
