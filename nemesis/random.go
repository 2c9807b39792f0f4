package nemesis

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Random is a plan that each seed draws anew, in two phases:
//
//	0          safety phase: faults come and go          │ liveness phase: faults healed   limit
//	├──▒▒──▒▒▒▒▒▒▒────▒────▒▒▒▒▒▒▒▒▒▒▒▒───▒▒▒─────▒▒▒▒──│──────────────────────────────────┤
//
// In the safety phase, no client may hold a lock that another client holds. In the liveness phase,
// clients must be able to acquire locks again.
//
// Plans are drawn as in swarm testing. A seed leaves out about half of the faults. For each of the
// others it draws the frequency, the maximum duration, the mode and the targets. Behavior shared by
// all seeds rarely triggers unusual situations, and a fault that is left out can't mask other
// faults. Source: A. Groce, C. Zhang, E. Eide, Y. Chen and J. Regehr, "Swarm Testing", ISSTA 2012.
type Random struct {
	Faults []string `json:"faults"`           // see Choices
	Within string   `json:"within,omitempty"` // Assumptions, or "" for no bounds
	Every  Span     `json:"every"`            // range of the mean interval between faults of a kind; each seed draws a mean
	Lasts  Span     `json:"lasts"`            // shortest and longest fault; a seed's longest is above the middle
	Safety float64  `json:"safety"`           // the safety phase's share of the time limit
	Modes  []string `json:"modes,omitempty"`  // nil: all modes
	Shapes []string `json:"shapes,omitempty"` // shapes of link faults; nil: all
}

// Assumptions limits a plan to Redlock's assumptions: clock errors are smaller than the drift
// allowed for, a node that may have forgotten its keys comes back after all of them have expired,
// and masters are independent. There is no limit to pauses, client crashes and network faults.
// Kind.Allowed has the details for each kind.
const Assumptions = "assumptions"

// Choice is a kind of fault on one type of target.
type Choice struct {
	Word string // as in a scenario file: "cut", "pause-client"
	Kind Kind
	On   Target
}

// Fatal reports whether the target can't be restarted.
func (c Choice) Fatal() bool { return c.On == c.Kind.Fatal }

func allChoices() []Choice {
	var all []Choice
	for _, k := range Kinds {
		if slices.Contains(k.Undrawn, "") {
			continue
		}
		for _, on := range k.On {
			c := Choice{k.Name, k, on}
			if len(k.On) > 1 {
				c.Word = Capability(k.Name, on)
			}
			all = append(all, c)
		}
	}
	return all
}

// Choices lists the valid names of faults in a random plan: the name of a kind, which stands for
// all of its target types, and for a kind with several target types also the name of each choice.
func Choices() []string {
	var words []string
	for _, c := range allChoices() {
		for _, w := range []string{c.Kind.Name, c.Word} {
			if !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	return words
}

// Choices lists the selected choices, in the order of Kinds.
func (r Random) Choices() []Choice {
	return slices.DeleteFunc(allChoices(), func(c Choice) bool {
		return !slices.Contains(r.Faults, c.Word) && !slices.Contains(r.Faults, c.Kind.Name)
	})
}

// Without returns the plan without some choices, and the names of these choices.
func (r Random) Without(out func(Choice) bool) (_ Random, left []string) {
	var kept []string
	for _, c := range r.Choices() {
		if out(c) {
			left = append(left, c.Word)
		} else {
			kept = append(kept, c.Word)
		}
	}
	if len(left) > 0 {
		r.Faults = kept
	}
	return r, left
}

// ModesOf lists the modes of a kind that may be drawn.
func (r Random) ModesOf(k Kind) []string {
	return slices.DeleteFunc(slices.Clone(k.Modes), func(m string) bool {
		return slices.Contains(k.Undrawn, m) || r.Modes != nil && !slices.Contains(r.Modes, m)
	})
}

// Bounds for faults that are not limited to the assumptions.
const (
	mostRate  = 2 // a clock runs at most this much faster or slower
	leastRate = 1.0 / mostRate
)

// clockShare is the share of the margin that one clock may use up within the assumptions. A clock
// that goes from behind to ahead moves twice as far in a TTL, and a client's clock may move the
// other way from a node's. This leaves four times the share.
const clockShare = 0.2

// minSlew is the minimum duration of a slew: the time to slew a clock by a millisecond.
const leastSlew = 2 * time.Second

// slewAllowed reports whether a slewed clock stays within the assumptions.
func (d *drawing) slews() bool { return slewRate*float64(d.TTL) <= clockShare*float64(d.Margin) }

// restartDelay returns how long a node that forgets its keys stays down. A client may rely on a
// lock for a TTL, and the node may have granted it just before it failed. The margin covers the
// error of the client's clock. Source: Redis documentation, "Distributed Locks with Redis",
// performance, crash recovery and fsync: delayed restarts.
func (d *drawing) lapse() time.Duration { return d.TTL + 2*d.Margin + d.TTL/20 }

// maxOffset is the maximum offset of a clock that was never synchronized.
const mostOffset = 24 * time.Hour

// offsetSteps returns steps that permanently set nodes' clocks ahead before the clients begin, when
// there are no keys that could expire as a result. Setting clocks back is unnecessary, since only
// the difference between two clocks could matter.
func (d *drawing) offsets(s style) []drawn {
	if d.Begin == 0 || d.chance(s.Word, "offsets") < 0.5 {
		return nil
	}
	var out []drawn
	for i, node := range d.some(d.Nodes, s.Word, "ahead") {
		at := time.Duration(i) // each at an instant of its own
		by := d.logarithmic(Span{time.Millisecond, mostOffset}, s.Word, "ahead by", node)
		out = append(out, drawn{at, Step{When: Trigger{At: &at}, Fault: Fault{Kind: s.Kind.Name, Targets: []string{node}, By: by}, Drawn: true}})
	}
	return out
}

// lag returns how long a replica has been cut off from its master before the failover. It is 0 in
// half of the failovers.
func (d *drawing) lag(s style, k string, at time.Duration) time.Duration {
	if s.Kind.Name != failover.Name || d.chance(s.Word, "lags", k) < 0.5 {
		return 0
	}
	return min(at-d.Begin, d.logarithmic(Span{d.TTL / 10, 2 * d.TTL}, s.Word, "lag", k))
}

// cutReplica returns a step that cuts the replica off before its failover and restores the link
// within the safety phase.
func (d *drawing) behind(failover Step, at, lag time.Duration) Step {
	link := LinkName(failover.Fault.Targets[0], Replica)
	lasts := lag + (d.over-at-lag)/2
	return Step{When: Trigger{At: &at}, Fault: Fault{Kind: cut.Name, Mode: CutHold, Targets: []string{link}, For: &lasts}, Drawn: true}
}

// maxSteps limits the steps of one choice.
const mostSteps = 100

// Draw draws a plan.
func (r Random) Draw(w World) Plan {
	d := &drawing{Random: r, World: w, over: time.Duration(r.Safety * float64(w.Limit)), taken: map[string][]Span{}, had: map[any]bool{}}
	swarm := d.swarm()
	var all []drawn
	for _, c := range swarm {
		all = append(all, d.course(c, swarm)...)
	}
	slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(a.at, b.at) })
	plan := Plan{}
	for _, s := range all {
		plan = append(plan, s.Step)
	}
	return plan
}

// swarm returns the choices that a seed uses.
func (d *drawing) swarm() []Choice {
	all := d.Choices()
	used := slices.DeleteFunc(slices.Clone(all), func(c Choice) bool { return d.chance("use", c.Word) >= 0.5 })
	if len(used) == 0 && len(all) > 0 {
		used = all[d.upto(len(all), "use one"):][:1]
	}
	return used
}

// drawChoice draws all faults of one choice.
func (d *drawing) course(c Choice, swarm []Choice) []drawn {
	s := d.style(c, swarm)
	mean := d.logarithmic(d.Every, c.Word, "mean")
	var out []drawn
	if c.Kind.Name == clockJump.Name && c.On == Node {
		out = d.offsets(s)
	}
	at := d.Begin
	for k := 1; k <= mostSteps; k++ {
		n := strconv.Itoa(k)
		at += time.Duration(float64(mean) * (0.5 + d.chance(c.Word, "gap", n)))
		if at >= d.over {
			break
		}
		if step, ok := d.step(s, n, at); ok {
			if lag := d.lag(s, n, at); lag > 0 {
				out = append(out, drawn{at - lag, d.behind(step, at-lag, lag)})
			}
			out = append(out, drawn{at, step})
		}
	}
	return out
}

func (d *drawing) style(c Choice, swarm []Choice) style {
	s := style{Choice: c, longest: d.logarithmic(Span{middle(d.Lasts), d.Lasts.Max}, c.Word, "longest")}
	if modes := d.ModesOf(c.Kind); len(modes) > 0 {
		s.mode = modes[d.upto(len(modes), c.Word, "mode")]
	}
	if slices.Contains(c.Kind.Takes, "way") && d.shapeable(oneWayOnly) && (len(c.Kind.Modes) == 0 || c.Kind.Name != cut.Name || cutsOneWay(s.mode)) {
		s.way = []string{"", "", Request, Reply}[d.upto(4, c.Word, "way")]
	}
	switch c.On {
	case Node:
		s.whom = d.some(d.Nodes, c.Word, "whom")
		if s.lasting = c.Kind.Ends != nil && c.Kind.Ends(d.World); s.lasting {
			s.whom = s.whom[:min(len(s.whom), (len(d.Nodes)-1)/2)]
		}
	case Client:
		// A client that will be killed gets no other faults, which would not take effect after its
		// death.
		mortal := d.mortals(swarm)
		s.whom = d.some(slices.DeleteFunc(slices.Clone(d.Clients), func(n string) bool { return slices.Contains(mortal, n) }), c.Word, "whom")
		if c.Fatal() {
			s.whom = mortal
		}
	}
	s.alone = slices.ContainsFunc(swarm, func(o Choice) bool {
		return o.On == c.On && !o.Kind.Nests && !o.Fatal() && (c.On != Link || o.Kind.Capability(Link) == c.Kind.Capability(Link))
	})
	return s
}

// Survivors is the minimum number of clients that live to the end, so that there is contention.
const Survivors = 2

// victims returns the clients that a seed will kill.
func (d *drawing) mortals(swarm []Choice) []string {
	if !slices.ContainsFunc(swarm, Choice.Fatal) || len(d.Clients) <= Survivors {
		return nil
	}
	return d.some(d.shuffled(d.Clients, "survivors")[Survivors:], "mortals")
}

// step draws the k-th fault of a style at an instant. It returns false if the fault does not fit.
func (d *drawing) step(s style, k string, at time.Duration) (Step, bool) {
	f := Fault{Kind: s.Kind.Name, Mode: s.mode, Way: s.way}
	lasts := d.logarithmic(Span{d.Lasts.Min, s.longest}, s.Word, "lasts", k)
	if d.Within == Assumptions && s.On == Node && s.Kind.Forgets != nil && s.Kind.Forgets(d.World) {
		lasts = max(lasts, d.lapse())
	}
	if s.Kind.Again {
		lasts = max(lasts, 3*s.again().Max)
	}
	if s.Kind.Name == clockSlew.Name {
		if lasts = max(lasts, leastSlew); d.Within == Assumptions && !d.slews() {
			return Step{}, false
		}
		f.By = time.Duration(slewRate * float64(lasts))
	}
	end := at + lasts
	if s.Kind.Again {
		end += s.longest // the last repetition may begin at the end
	}
	if end > d.over {
		return Step{}, false
	}
	if !s.final() {
		f.For = &lasts
	}
	d.fields(s, k, &f)
	when, whom := d.whom(s, k, at, d.over-(end-at))
	f.Targets = whom
	if when.Message == nil && len(whom) == 0 {
		return Step{}, false
	}
	if m := when.Message; m != nil {
		if d.had[*m] {
			return Step{}, false // a message can be held only once
		}
		d.had[*m] = true
	}
	if (!s.Kind.Nests || s.alone) && s.On != Message && !d.take(s, whom, Span{at - d.lag(s, k, at), end}) {
		return Step{}, false
	}
	return Step{When: when, Fault: f, Drawn: true}, true
}

// pickTargets draws the targets and the trigger. Half of the faults that may overlap with others of
// their kind are triggered by an event or at a client's point, when they are most disruptive.
func (d *drawing) whom(s style, k string, at, before time.Duration) (Trigger, []string) {
	when := Trigger{At: &at}
	switch s.On {
	case Message:
		return Trigger{Message: d.message(s, k), Before: before}, nil
	case Link:
		targets := d.shape(s, k)
		if s.Kind.Nests && !s.alone {
			when = d.trigger(s, k, "", when, before)
		}
		return when, targets
	}
	if len(s.whom) == 0 {
		return when, nil
	}
	target := s.whom[d.upto(len(s.whom), s.Word, "target", k)]
	switch {
	case s.On == Node && s.Kind.Nests && !s.alone:
		when = d.trigger(s, k, "", when, before)
	case s.On == Client && (s.Kind.Nests && !s.alone || s.once()):
		when = d.trigger(s, k, target, when, before)
	}
	return when, []string{target}
}

// Events and points at which faults are most disruptive.
var (
	hurtEvents = []string{"acquiring", "acquired", "read", "writing", "releasing"}
	hurtPoints = []string{"during-acquire", "after-acquire", "between-check-and-write", "before-release"}
)

// trigger draws an event or a client's point, or returns the given time. client is the client that
// triggers the step, or "" for any client.
func (d *drawing) trigger(s style, k, client string, at Trigger, before time.Duration) Trigger {
	if before <= 0 || len(d.Clients) == 0 {
		return at
	}
	if client == "" {
		client = d.Clients[d.upto(len(d.Clients), s.Word, "by", k)]
	}
	nth := 1 + d.upto(8, s.Word, "nth", k)
	switch d.upto(4, s.Word, "when", k) {
	case 0:
		e := &Event{Client: client, Event: hurtEvents[d.upto(len(hurtEvents), s.Word, "event", k)], Nth: nth}
		e.After = d.even(Span{0, d.TTL / 20}, s.Word, "after", k)
		return Trigger{Event: e, Before: before}
	case 1:
		p := OnPoint{Client: client, Point: hurtPoints[d.upto(len(hurtPoints), s.Word, "point", k)], Nth: nth}
		if d.had[p] || s.Kind.Again {
			return at // a client reaches each of them only once
		}
		d.had[p] = true
		return Trigger{Point: &p, Before: before}
	}
	return at
}

// message draws the message to hit: usually one of the lock's, sometimes a write.
func (d *drawing) message(s style, k string) *OnMessage {
	links := d.links(func(_, node string) bool { return node != d.Resource })
	m := &OnMessage{Message: []string{"set", "release"}[d.upto(2, s.Word, "message", k)]}
	if d.chance(s.Word, "write", k) < 0.2 || len(links) == 0 {
		links = d.links(func(_, node string) bool { return node == d.Resource })
		m.Message = "write"
	}
	m.Link = links[d.upto(len(links), s.Word, "link", k)]
	m.Of = []string{Request, Reply}[d.upto(2, s.Word, "of", k)]
	m.Nth = int(d.magnitude(1, 60, s.Word, "nth", k))
	return m
}

// occupy reserves targets for a time. It returns false if another fault occupies them. A node or a
// client has at most one fault at a time, and a link at most one per capability.
func (d *drawing) take(s style, targets []string, when Span) bool {
	if s.once() {
		when.Max = d.Limit
	}
	var keys []string
	for _, t := range targets {
		if s.On != Link {
			keys = append(keys, t)
			continue
		}
		for _, l := range d.spelledOut(t) {
			keys = append(keys, s.Kind.Capability(Link)+" "+l)
		}
	}
	rest := d.TTL / 4 // gap between two faults, since a restart takes a while
	for _, key := range keys {
		if slices.ContainsFunc(d.taken[key], func(o Span) bool { return when.Min <= o.Max+rest && o.Min <= when.Max+rest }) {
			return false
		}
	}
	for _, key := range keys {
		d.taken[key] = append(d.taken[key], when)
	}
	return true
}

// drawFields draws the other parameters of the fault.
func (d *drawing) fields(s style, k string, f *Fault) {
	name := func(what string) []string { return []string{s.Word, what, k} }
	for _, field := range s.Kind.Takes {
		switch field {
		case "by":
			f.By = d.by(s, k, f.By)
		case "rate":
			f.Rate = d.magnitude(leastRate, mostRate, name("rate")...)
			if d.Within == Assumptions {
				share := clockShare * (2*d.chance(name("rate")...) - 1)
				f.Rate = 1 + share*float64(d.Margin)/float64(d.TTL)
			}
		case "delay":
			most := d.logarithmic(Span{time.Millisecond, max(d.TTL/2, 2*time.Millisecond)}, name("delay")...)
			f.Delay = Span{max(most/10, time.Millisecond), max(most, time.Millisecond)}
		case "share":
			f.Share = d.magnitude(0.01, 1, name("share")...)
		case "bandwidth":
			f.Bandwidth = int(d.magnitude(200, 1e6, name("bandwidth")...))
		case "every":
			f.Every = s.again()
		case "lasts":
			f.Lasts = Span{min(time.Millisecond, s.longest), s.longest}
		case "timer":
			if f.For != nil && d.Within == "" && d.chance(name("timer")...) < 0.3 {
				f.Timer = &Timer{Rate: d.magnitude(leastRate, mostRate, name("timer rate")...)}
				counted := time.Duration(float64(*f.For) * f.Timer.Rate) // so that the node is down for as long as was drawn
				f.For = &counted
			}
		}
	}
}

// drawOffset draws a clock offset, unless by is given, and its sign.
func (d *drawing) by(s style, k string, by time.Duration) time.Duration {
	if by == 0 {
		most := 2 * d.TTL
		if d.Within == Assumptions && s.On == Node {
			most = time.Duration(clockShare * float64(d.Margin))
		}
		by = d.logarithmic(Span{time.Millisecond, max(most, time.Millisecond)}, s.Word, "by", k)
	}
	if d.upto(2, s.Word, "back", k) == 0 {
		by = -by
	}
	return by
}
