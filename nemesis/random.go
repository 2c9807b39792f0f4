package nemesis

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// Random is a plan that every seed draws anew, in two phases:
//
//	0          safety phase: faults come and go          │ liveness phase: all is healed   limit
//	├──▒▒──▒▒▒▒▒▒▒────▒────▒▒▒▒▒▒▒▒▒▒▒▒───▒▒▒─────▒▒▒▒──│──────────────────────────────────┤
//
// In the first nobody must hold what another holds; in the second somebody must acquire again.
//
// It is a swarm: a seed leaves out about half of the faults, and draws for each of
// the others how often it comes, how long it lasts at most, in which mode, and on
// whom. What all seeds do alike, none does often enough to meet the rare; what is
// left out can't hide the rest. Source: A. Groce, C. Zhang, E. Eide, Y. Chen and
// J. Regehr, "Swarm Testing", ISSTA 2012.
type Random struct {
	Faults []string `json:"faults"`           // words of Choices
	Within string   `json:"within,omitempty"` // Assumptions, or "": no bounds
	Every  Span     `json:"every"`            // between two faults of a kind: where a seed's mean lies
	Lasts  Span     `json:"lasts"`            // the shortest fault, and the longest; a seed's longest is above the middle
	Safety float64  `json:"safety"`           // the safety phase's share of the limit
	Modes  []string `json:"modes,omitempty"`  // nil: all that the kinds have
	Shapes []string `json:"shapes,omitempty"` // of what hits links; nil: all
}

// Assumptions keeps a plan within what Redlock assumes: clocks go wrong by less
// than the drift that is allowed for, a node that may have forgotten its keys comes
// back after all of them have lapsed, and masters are independent. Pauses, deaths
// of clients and the network are as bad as they like. Of each kind, Within says it.
const Assumptions = "assumptions"

// World is what a plan is drawn for.
type World struct {
	Clients  []string      // that run through the safety phase
	Begin    time.Duration // when they have been started
	Nodes    []string
	Resource string
	Linked   func(client, node string) bool // whether they have a link
	Limit    time.Duration
	TTL      time.Duration
	Margin   time.Duration // what the lock allows clocks to differ by in a TTL
	Persists bool          // nodes keep what they are told on disk
	Durable  bool          // and sync each write before they answer
	// Dice gives a number for a name, the same for the same seed.
	Dice func(names ...string) uint64
}

// Choice is one sort of fault on one sort of target.
type Choice struct {
	Word string // in a scenario file: "cut", "pause-client"
	Kind Kind
	On   Target
}

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

// Choices lists the words for faults in a random plan: a kind for all that it
// hits, and where that is more than one sort, each of them.
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

// Choices are what its faults stand for, in the order of Kinds.
func (r Random) Choices() []Choice {
	return slices.DeleteFunc(allChoices(), func(c Choice) bool {
		return !slices.Contains(r.Faults, c.Word) && !slices.Contains(r.Faults, c.Kind.Name)
	})
}

// ModesOf lists the modes of a kind that may be drawn.
func (r Random) ModesOf(k Kind) []string {
	return slices.DeleteFunc(slices.Clone(k.Modes), func(m string) bool {
		return slices.Contains(k.Undrawn, m) || r.Modes != nil && !slices.Contains(r.Modes, m)
	})
}

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

// drawing is a plan while it is drawn.
type drawing struct {
	Random
	World
	over  time.Duration     // the safety phase's end
	taken map[string][]Span // by what a fault occupies while it is in force
	had   map[any]bool      // points and messages that set something off
}

// drawn is a step, and the instant it was drawn for: where an event sets it off, a
// rough one.
type drawn struct {
	at time.Duration
	Step
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

// style is how one seed uses one fault.
type style struct {
	Choice
	longest time.Duration
	mode    string
	way     string
	whom    []string // clients or nodes
	alone   bool     // others that don't nest hit the same targets
	lasting bool     // it lasts until the run ends
}

func (d *drawing) style(c Choice, swarm []Choice) style {
	s := style{Choice: c, longest: d.logarithmic(Span{middle(d.Lasts), d.Lasts.Max}, c.Word, "longest")}
	if modes := d.ModesOf(c.Kind); len(modes) > 0 {
		s.mode = modes[d.upto(len(modes), c.Word, "mode")]
	}
	if slices.Contains(c.Kind.Takes, "way") && d.shapeable(OneWay) && (len(c.Kind.Modes) == 0 || c.Kind.Name != cut.Name || CutsOneWay(s.mode)) {
		s.way = []string{"", "", Request, Reply}[d.upto(4, c.Word, "way")]
	}
	switch c.On {
	case Node:
		s.whom = d.some(d.Nodes, c.Word, "whom")
		if s.lasting = d.ends(c.Kind); s.lasting {
			s.whom = s.whom[:min(len(s.whom), (len(d.Nodes)-1)/2)]
		}
	case Client:
		// Who is to die is spared all else, for what hits the dead does not take effect.
		mortal := d.mortals(swarm)
		s.whom = d.some(slices.DeleteFunc(slices.Clone(d.Clients), func(n string) bool { return slices.Contains(mortal, n) }), c.Word, "whom")
		if c.Kind.Name == kill.Name {
			s.whom = mortal
		}
	}
	s.alone = slices.ContainsFunc(swarm, func(o Choice) bool {
		return o.On == c.On && !o.Kind.Nests && !(o.Kind.Name == kill.Name && o.On == Client) && (c.On != Link || o.Kind.Capability(Link) == c.Kind.Capability(Link))
	})
	return s
}

// Survivors is how many clients live to the end: the lock must be contended for.
const Survivors = 2

// mortals are the clients that a seed will kill.
func (d *drawing) mortals(swarm []Choice) []string {
	if !slices.ContainsFunc(swarm, func(c Choice) bool { return c.Kind.Name == kill.Name && c.On == Client }) || len(d.Clients) <= Survivors {
		return nil
	}
	return d.some(d.shuffled(d.Clients, "survivors")[Survivors:], "mortals")
}

// Dice by name.

func (d *drawing) chance(names ...string) float64 { return float64(d.Dice(names...)>>11) / (1 << 53) }

func (d *drawing) upto(n int, names ...string) int { return int(d.chance(names...) * float64(n)) }

func (d *drawing) even(s Span, names ...string) time.Duration {
	return s.Min + time.Duration(d.chance(names...)*float64(s.Max-s.Min))
}

// logarithmic draws so that each order of magnitude comes equally often.
func (d *drawing) logarithmic(s Span, names ...string) time.Duration {
	return time.Duration(d.magnitude(float64(s.Min), float64(s.Max), names...))
}

// middle is a span's geometric mean: as many orders of magnitude lie on either side.
func middle(s Span) time.Duration {
	return time.Duration(math.Sqrt(float64(s.Min)) * math.Sqrt(float64(s.Max)))
}

func (d *drawing) magnitude(least, most float64, names ...string) float64 {
	return least * math.Pow(most/least, d.chance(names...))
}

// shuffled is the same things in another order.
func (d *drawing) shuffled(things []string, names ...string) []string {
	order := map[string]uint64{}
	for _, t := range things {
		order[t] = d.Dice(slices.Concat(names, []string{t})...)
	}
	return slices.SortedFunc(slices.Values(things), func(a, b string) int { return cmp.Compare(order[a], order[b]) })
}

// some are one of the things at least, and perhaps all.
func (d *drawing) some(things []string, names ...string) []string {
	if len(things) == 0 {
		return nil
	}
	return d.shuffled(things, names...)[:1+d.upto(len(things), slices.Concat(names, []string{"many"})...)]
}
