package nemesis

import (
	"slices"
	"time"
)

// step draws the k-th fault of a style, for an instant, or none where it would not
// fit in.
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
		end += s.longest // the last one may begin at the end
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
			return Step{}, false // one message can be held once
		}
		d.had[*m] = true
	}
	if (!s.Kind.Nests || s.alone) && s.On != Message && !d.take(s, whom, Span{at - d.lag(s, k, at), end}) {
		return Step{}, false
	}
	return Step{When: when, Fault: f, Drawn: true}, true
}

// whom draws on whom, and what sets it off: half of what may overlap with others of
// its kind comes by an event or at a point of a client, where it does the most harm.
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

// Where clients are when it hurts.
var (
	hurtEvents = []string{"acquiring", "acquired", "read", "writing", "releasing"}
	hurtPoints = []string{"during-acquire", "after-acquire", "between-check-and-write", "before-release"}
)

// trigger draws an event, or a point of a client, or stays with the time. client is
// whom it must be about, "" if it may be anybody.
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
			return at // a client comes to each of them once
		}
		d.had[p] = true
		return Trigger{Point: &p, Before: before}
	}
	return at
}

// message draws which message is hit: one of the lock's, or now and then a write.
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

// take occupies targets for a time, or says that somebody else does. A node or a
// client is in one trouble at a time; a link in one of each power.
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
	rest := d.TTL / 4 // between two troubles: to be started again takes a while
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

// fields draws what the kind takes besides.
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
				counted := time.Duration(float64(*f.For) * f.Timer.Rate) // so that it is down as long as was drawn
				f.For = &counted
			}
		}
	}
}

// by draws how far a clock goes wrong, where that isn't settled, and to which side.
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
