package nemesis

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// mostSteps of one kind bounds a plan.
const mostSteps = 100

// Draw draws the plan.
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

// swarm is which of the faults a seed uses.
func (d *drawing) swarm() []Choice {
	all := d.Choices()
	used := slices.DeleteFunc(slices.Clone(all), func(c Choice) bool { return d.chance("use", c.Word) >= 0.5 })
	if len(used) == 0 && len(all) > 0 {
		used = all[d.upto(len(all), "use one"):][:1]
	}
	return used
}

// course draws all faults of one choice.
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
	if slices.Contains(c.Kind.Takes, "way") && d.shapeable(OneWay) && (len(c.Kind.Modes) == 0 || c.Kind.Name != cut.Name || cutsOneWay(s.mode)) {
		s.way = []string{"", "", Request, Reply}[d.upto(4, c.Word, "way")]
	}
	switch c.On {
	case Node:
		s.whom = d.some(d.Nodes, c.Word, "whom")
		if s.lasting = c.Kind.Ends != nil && c.Kind.Ends(d.World); s.lasting {
			s.whom = s.whom[:min(len(s.whom), (len(d.Nodes)-1)/2)]
		}
	case Client:
		// Who is to die is spared all else, for what hits the dead does not take effect.
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

// Survivors is how many clients live to the end: the lock must be contended for.
const Survivors = 2

// mortals are the clients that a seed will kill.
func (d *drawing) mortals(swarm []Choice) []string {
	if !slices.ContainsFunc(swarm, Choice.Fatal) || len(d.Clients) <= Survivors {
		return nil
	}
	return d.some(d.shuffled(d.Clients, "survivors")[Survivors:], "mortals")
}
