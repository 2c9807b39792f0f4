package nemesis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

// Kinds is the one table of faults.
var Kinds = []Kind{pause, gc, kill, shutdown, powerLoss, cut, delay, throttle, lose, hold, drop,
	clockJump, clockRate, clockSlew, clockStrobe, slowDisk, fullDisk, failover, unplug, starve, touch}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Capabilities lists what the kinds need of a cluster, each once, and whether one of the
// type of cluster has it.
func Capabilities(cluster any) (names []string, has map[string]bool) {
	has = map[string]bool{}
	add := func(name string, a act) {
		if !slices.Contains(names, name) {
			names = append(names, name)
			has[name] = a.has(cluster)
		}
	}
	for _, k := range Kinds {
		for _, on := range k.On {
			add(k.Capability(on), k.Act)
		}
		for _, mode := range k.Modes {
			if m, ok := k.ByMode[mode]; ok {
				add(m.Needs, m.Act)
			}
		}
	}
	return names, has
}

// ToldOf is how a kind is told of that a record names, which may be another lockpick's, or
// the machine's.
func ToldOf(kind string) Told {
	k, _ := KindOf(kind)
	told := k.Told
	if told.Began == "" {
		told.Began, told.Ended, told.Was = "{targets} is hit by {kind}", "{targets} is rid of {kind}", "was hit by {kind}"
	}
	return told
}

// Details is what a fault does besides its kind and targets, in the words of a
// scenario file: "by 11s, for 10s".
func (f Fault) Details() string {
	var parts []string
	add := func(there bool, name string, value any) {
		if there {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	kind, _ := KindOf(f.Kind)
	add(f.Mode != "" && len(kind.Modes) > 0 && f.Mode != kind.Modes[0], "mode", f.Mode)
	add(f.Way != "", "way", f.Way)
	add(f.By != 0, "by", f.By)
	add(f.Rate != 0, "rate", f.Rate)
	add(f.Delay != Span{}, "delay", f.Delay)
	add(f.Share != 0, "share", fmt.Sprintf("%g %%", 100*f.Share))
	add(f.Bandwidth != 0, "bandwidth", f.Bandwidth)
	add(f.CPU != 0, "cpu", f.CPU)
	add(f.Memory != 0, "memory", Bytes(f.Memory))
	add(f.Every != Span{}, "every", f.Every)
	add(f.Lasts != Span{}, "lasts", f.Lasts)
	if f.For != nil {
		add(true, "for", time.Duration(*f.For))
	}
	if f.Until != nil {
		add(true, "until", f.Until)
	}
	if f.Timer != nil {
		add(true, "timer", f.Timer)
	}
	return strings.Join(parts, ", ")
}

// Kind is a fault: all that anybody must know of it, so that a new one is its own file, a
// file of each backend that has it, and a line of Kinds.
type Kind struct {
	Name string
	Doc  string // one sentence
	// Model is the sort of failure that it is one of, in the plural; "": it is none by itself.
	Model string
	// On lists what it can hit. The capability that a backend must have is
	// Name and the target, as in "pause-client".
	On    []Target
	Modes []string // the first is the default; nil: it has none
	// ByMode has the modes that a cluster must have another capability for.
	ByMode map[string]mode
	// Undrawn lists the modes that random plans leave out, for their seeds must run in
	// the simulation; "" is the mode of a kind that has none.
	Undrawn []string
	// Takes and Needs name the fields of a Fault that it has a use for, and can't do without, by
	// their names in a scenario file. For and Until any kind takes.
	Takes, Needs []string
	// Fits says what is wrong with a fault of the kind, all of whose fields are among those
	// that it takes; Hit the same of one of its targets, and Ground of a topology. Nil: nothing.
	Fits   func(f Fault) *Objection
	Hit    func(f Fault, target string, on Target) *Objection
	Ground func(t Topology) *Objection

	As    string // the kind that it is recorded as, where it makes that one's; "": its own
	Power string // what a cluster must be able to do; "": what the kind is called
	Act   act    // how it is brought about

	Nests      bool                  // on one target it may be in force for several steps at once
	Rate       func(f Fault) float64 // how fast it lets clocks run; nil: as the fault says
	Sets       bool                  // it sets a clock, rather than let it run fast or slow
	Again      bool                  // it comes again and again: Every between, Lasts each
	Momentary  bool                  // it has happened at once, and lasts only if something is to end it
	Fatal      Target                // of these it leaves nothing that could come back
	Replicates bool                  // it can hit the link of a node and its replica, too
	Keeps      bool                  // it keeps the message that set it off, until its end
	Loses      bool                  // it loses that message
	// Besides are the capabilities that random plans of it need besides.
	Besides []string
	// Within is what of it Redlock's assumptions allow, as a random plan keeps to them;
	// "": none of it. Sources: Redis documentation, "Distributed Locks with Redis",
	// safety arguments, and performance, crash recovery and fsync; antirez 2016, "Is
	// Redlock safe?", http://antirez.com/news/101.
	Within string
	// Forgets says whether a node that it hits may come back without keys that it has
	// promised to keep, and Ends whether the node is gone for good; nil: never.
	Forgets, Ends func(World) bool
	// Proof is what must be seen of it besides that it is in force, unless the dice drew it.
	Proof history.Proof
	// Costs is what it takes from those who contend (history.CostsAnswers …), for whoever
	// judges the record; "": what the checker knows a kind of its name for, or else everything.
	Costs string
	// Told is how people are told of it.
	Told Told
}

// mode is a way of a kind's for which a cluster must have another capability.
type mode struct {
	Needs string
	Act   act
}

// Topology is what a kind may ask of the nodes.
type Topology struct {
	Replicas int  // of each
	Persists bool // they keep what they are told on disk
}

// Objection is what is wrong with a fault, at which of its fields, and what to do about
// it. Without a field it is the fault itself.
type Objection struct{ Field, What, Hint string }

// Wrong is what is wrong with a fault of the kind where nodes are such; nil: nothing.
func (k Kind) Wrong(f Fault, t Topology) *Objection {
	given := f.given()
	for _, name := range given {
		if !slices.Contains(k.Takes, name) {
			return &Objection{name, "the fault " + k.Name + " has no " + name, "leave it out"}
		}
	}
	for _, name := range k.Needs {
		if !slices.Contains(given, name) {
			return &Objection{"", "the fault " + k.Name + " needs " + name, "add " + name + ":"}
		}
	}
	if f.Timer != nil && f.For == nil {
		return &Objection{"timer", "a timer needs something to count", "add for:, which it counts"}
	}
	if o := k.Objects(t); o != nil {
		return o
	}
	if k.Fits != nil {
		return k.Fits(f)
	}
	return nil
}

// Objects is what a kind objects to nodes that are such; nil: nothing.
func (k Kind) Objects(t Topology) *Objection {
	if k.Ground == nil {
		return nil
	}
	return k.Ground(t)
}

// objection is one if something is wrong, and nil otherwise.
func objection(wrong bool, field, what, hint string) *Objection {
	if !wrong {
		return nil
	}
	return &Objection{field, what, hint}
}

// Hits says whether the fault can hit that sort of thing.
func (k Kind) Hits(t Target) bool { return slices.Contains(k.On, t) }

// Inject brings a fault of the kind into force on one target, and reads back that it is.
func (k Kind) Inject(cluster any, f Fault, target string) (Effect, error) {
	if m, ok := k.ByMode[f.Mode]; ok {
		return m.Act.inject(cluster, f, target)
	}
	return k.Act.inject(cluster, f, target)
}

// What shows that a fault hit something.
var (
	usedNode  = history.Proof{Use: []string{history.UseNode}}
	usedLink  = history.Proof{Use: []string{history.UseLink}}
	usedBoth  = history.Proof{Use: []string{history.UseClient, history.UseNode}}
	usedWrong = history.Proof{Use: usedBoth.Use, Off: Felt}
	keeps     = history.Proof{Keeps: true}
)

// Felt is the least that a message has to be late, or a clock to be wrong, for anybody to
// notice: what is less is lost in how long messages travel, and in the milliseconds that
// Redis counts by.
const Felt = 100 * time.Microsecond

// Recorded is the kind that its events in the history name.
func (k Kind) Recorded() string { return cmp.Or(k.As, k.Name) }

// ProofOf is what must be seen of a fault of the kind where nodes persist in a way.
func (k Kind) ProofOf(persistence string) *history.Proof {
	p := k.Proof
	if later := persistence == "everysec" || persistence == "no"; !later {
		p.Idle = "" // what is synced before it is answered, nothing can lose
	}
	if p.Off == 0 && !p.Keeps && p.Idle == "" && len(p.Use) == 0 {
		return nil
	}
	return &p
}

// RateOf is how fast a fault of the kind lets clocks run; 0: it leaves that as it is.
func (k Kind) RateOf(f Fault) float64 {
	if k.Rate != nil {
		return k.Rate(f)
	}
	return f.Rate
}

// Capability is what a cluster must be able to do for the fault on a target.
func (k Kind) Capability(on Target) string { return Capability(cmp.Or(k.Power, k.Name), on) }

// Told is how people are told of a kind. In its sentences {targets} stands for what is
// hit, {client} for the client of links, {message} for the message that was hit, and {saw}
// for what was read back, in brackets.
type Told struct {
	Name  string // "late messages", as in a list of what was planned
	Whom  string // whom it befell: "the disk of {targets}"; "": {targets}
	Began string // "{targets} is paused"
	Ended string // "{targets} resumes"
	Was   string // after Whom: "was paused"
	Back  string // of what is replaced, and whose first comes back: how that is told
	State State  // what becomes of a client or a node for as long as it lasts
}

// State is what a fault makes of what it hits, as pictures show it.
type State string

const (
	Stopped State = "paused" // it does nothing, and goes on
	Down    State = "down"   // it has ended, and starts again if it is a node
)
