package nemesis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

// Kinds lists all kinds of faults.
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

// Capabilities lists the capabilities that the kinds need, each once, and reports for each whether
// a cluster of this type has it.
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

// WordingOf returns the wording for a kind named in a record. The record may come from another
// version of lockpick, or the event from the host itself.
func ToldOf(kind string) Told {
	k, _ := KindOf(kind)
	told := k.Told
	if told.Began == "" {
		told.Began, told.Ended, told.Was = "{targets} is hit by {kind}", "{targets} recovers from {kind}", "was hit by {kind}"
	}
	return told
}

// Details describes a fault's parameters in the syntax of scenario files: "by 11s, for 10s". It
// omits the kind and the targets.
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

// Kind defines a kind of fault completely. Adding one takes a file of its own, a file in each
// backend that supports it, and an entry in Kinds.
type Kind struct {
	Name string
	Doc  string // one sentence
	// Model is the failure model to which the kind belongs, in the plural, or "" if it is not a
	// failure by itself.
	Model string
	// On lists its possible targets. The capability that a backend needs is Name and the target, as
	// in "pause-client".
	On    []Target
	Modes []string // the first is the default; nil: no modes
	// ByMode lists the modes that need a different capability.
	ByMode map[string]mode
	// ExcludedModes lists the modes that random plans leave out, because their seeds must run in
	// the simulation. "" stands for a kind without modes.
	Undrawn []string
	// Fields and RequiredFields list the fields of Fault that apply to the kind, by their names in
	// a scenario file. For and Until apply to every kind.
	Takes, Needs []string
	// CheckFault validates a fault of the kind, which has only fields that apply to the kind.
	// CheckTarget validates one of its targets and CheckTopology a topology. Each may be nil.
	Fits   func(f Fault) *Objection
	Hit    func(f Fault, target string, on Target) *Objection
	Ground func(t Topology) *Objection

	As    string // kind under which it is recorded; "": its own name
	Power string // base name of the capability that a cluster needs; "": Name
	Act   act    // injects it

	Nests      bool                  // several steps may be in force on one target at the same time
	Rate       func(f Fault) float64 // clock rate during the fault; nil: as the fault specifies
	Sets       bool                  // sets a clock instead of changing its rate
	Again      bool                  // repeats at intervals of Every, for Lasts each
	Momentary  bool                  // happens at once, and lasts only if the plan ends it
	Fatal      Target                // targets of this type can't be restarted
	Replicates bool                  // can also hit the link between a node and its replica
	Keeps      bool                  // holds the message that triggered it until it ends
	Loses      bool                  // drops that message
	// AlsoNeeds lists further capabilities that random plans with this kind need.
	Besides []string
	// Allowed describes which faults of the kind Redlock's assumptions allow, and how random plans
	// stay within them. "" means none. Sources: Redis documentation, "Distributed Locks with
	// Redis", safety arguments, and performance, crash recovery and fsync; antirez 2016, "Is
	// Redlock safe?", http://antirez.com/news/101.
	Within string
	// MayForget reports whether a node that it hits may come back without keys that it promised to
	// keep, and EndsNode whether the node is gone for good. nil means never.
	Forgets, Ends func(World) bool
	// Proof lists the required evidence that the fault hit something. It is not required in random
	// plans.
	Proof history.Proof
	// Costs is the kind's impact on contending clients (history.CostsAnswers …), for the checker.
	// "" means the checker's own value for the kind's name, or the maximum if it has none.
	Costs string
	// Wording describes the fault in reports.
	Told Told
}

// mode is a mode that needs a different capability.
type mode struct {
	Needs string
	Act   act
}

// Topology lists the properties of the nodes that a kind may require.
type Topology struct {
	Replicas int  // replicas per node
	Persists bool // nodes have persistence
}

// Problem describes what is wrong with a field of a fault and how to fix it. Without a field it is
// about the whole fault.
type Objection struct{ Field, What, Hint string }

// Validate checks a fault of the kind in a topology. It returns nil if the fault is valid.
func (k Kind) Wrong(f Fault, t Topology) *Objection {
	given := f.given()
	for _, name := range given {
		if !slices.Contains(k.Takes, name) {
			return &Objection{name, "the " + k.Name + " fault has no field " + name, "leave it out"}
		}
	}
	for _, name := range k.Needs {
		if !slices.Contains(given, name) {
			return &Objection{"", "the " + k.Name + " fault needs " + name, "add " + name + ":"}
		}
	}
	if f.Timer != nil && f.For == nil {
		return &Objection{"timer", "a timer needs a duration to measure", "add for:"}
	}
	if o := k.Objects(t); o != nil {
		return o
	}
	if k.Fits != nil {
		return k.Fits(f)
	}
	return nil
}

// ValidateTopology checks whether the topology meets the kind's requirements. It returns nil if it
// does.
func (k Kind) Objects(t Topology) *Objection {
	if k.Ground == nil {
		return nil
	}
	return k.Ground(t)
}

// problemIf returns a problem if the condition is true, else nil.
func objection(wrong bool, field, what, hint string) *Objection {
	if !wrong {
		return nil
	}
	return &Objection{field, what, hint}
}

// Hits reports whether the fault can hit targets of this type.
func (k Kind) Hits(t Target) bool { return slices.Contains(k.On, t) }

// Inject injects a fault of the kind on one target, and reads back that it is in force.
func (k Kind) Inject(cluster any, f Fault, target string) (Effect, error) {
	if m, ok := k.ByMode[f.Mode]; ok {
		return m.Act.inject(cluster, f, target)
	}
	return k.Act.inject(cluster, f, target)
}

// Evidence that a fault hit something.
var (
	usedNode  = history.Proof{Use: []string{history.UseNode}}
	usedLink  = history.Proof{Use: []string{history.UseLink}}
	usedBoth  = history.Proof{Use: []string{history.UseClient, history.UseNode}}
	usedWrong = history.Proof{Use: usedBoth.Use, Off: Felt}
	keeps     = history.Proof{Keeps: true}
)

// MinNoticeable is the smallest message delay or clock error that can have a noticeable effect.
// Anything less is lost in the variation of message latency, and in Redis's millisecond resolution.
const Felt = 100 * time.Microsecond

// RecordedName returns the kind that the fault's events in the history have.
func (k Kind) Recorded() string { return cmp.Or(k.As, k.Name) }

// ProofOf returns the required evidence for a fault of the kind, given the nodes' persistence.
func (k Kind) ProofOf(persistence string) *history.Proof {
	p := k.Proof
	if later := persistence == "everysec" || persistence == "no"; !later {
		p.Idle = "" // nothing synced before the reply can be lost
	}
	if p.Off == 0 && !p.Keeps && p.Idle == "" && len(p.Use) == 0 {
		return nil
	}
	return &p
}

// RateOf returns the clock rate during a fault of the kind, or 0 if the fault doesn't change it.
func (k Kind) RateOf(f Fault) float64 {
	if k.Rate != nil {
		return k.Rate(f)
	}
	return f.Rate
}

// Capability returns the capability that a cluster needs to inject the fault on a target.
func (k Kind) Capability(on Target) string { return Capability(cmp.Or(k.Power, k.Name), on) }

// Wording describes a kind in reports. Its sentences may contain placeholders: {targets} for the
// targets, {client} for the client of links, {message} for the affected message, and {saw} for the
// read-back, in parentheses.
type Told struct {
	Name  string // "delayed messages", as in a list of planned faults
	Whom  string // subject of Was: "the disk of {targets}"; "": {targets}
	Began string // "{targets} is paused"
	Ended string // "{targets} resumes"
	Was   string // predicate of Whom: "was paused"
	Back  string // for faults that replace a node: the sentence for the return of the old one
	State State  // of a client or a node during the fault
}

// State is the state of a faulty client or node in figures.
type State string

const (
	Stopped State = "paused" // it does nothing and resumes later
	Down    State = "down"   // its process has ended; a node can be restarted
)
