package nemesis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

var Kinds = []Kind{pauseKind, gcKind, killKind, shutdownKind, powerLossKind, cutKind, delayKind, throttleKind, loseKind, holdKind, dropKind,
	clockJumpKind, clockRateKind, clockSlewKind, clockStrobeKind, slowDiskKind, fullDiskKind, failoverKind, unplugKind, starveKind, touchKind}

func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Capabilities returns the capabilities that the kinds need, without duplicates. supported says
// which of them a cluster of this type has.
func Capabilities(cluster any) (names []string, supported map[string]bool) {
	supported = map[string]bool{}
	add := func(name string, a action) {
		if !slices.Contains(names, name) {
			names = append(names, name)
			supported[name] = a.supports(cluster)
		}
	}
	for _, k := range Kinds {
		for _, target := range k.TargetTypes {
			add(k.Capability(target), k.Action)
		}
		for _, mode := range k.Modes {
			if m, ok := k.ModeActions[mode]; ok {
				add(m.Capability, m.Action)
			}
		}
	}
	return names, supported
}

// WordingOf returns the wording for a kind named in a history, or generic wording if the kind is
// unknown. The history may come from another version of lockpick, or the event from the host
// itself.
func WordingOf(kind string) Wording {
	k, _ := KindOf(kind)
	wording := k.Wording
	if wording.BeginText == "" {
		wording.BeginText, wording.EndText, wording.PastPredicate = "{targets} is hit by {kind}", "{targets} recovers from {kind}", "was hit by {kind}"
	}
	return wording
}

// Details describes a fault's parameters in the syntax of scenario files, as in "by 11s, for 10s".
// It omits the kind and the targets.
func (f Fault) Details() string {
	var parts []string
	add := func(isSet bool, name string, value any) {
		if isSet {
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

// Kind defines a kind of fault. To add one, write a file for it here and in each backend that
// supports it, and add it to Kinds.
type Kind struct {
	Name string
	Doc  string // one sentence
	// Model is the failure model to which the kind belongs, in the plural. It is "" if the kind is
	// not a failure by itself.
	Model string
	// TargetTypes lists the types of targets that the fault can hit. The capability that a backend
	// needs is named after the kind and the target type, as in "pause-client".
	TargetTypes []Target
	Modes       []string // the first is the default; nil means that there are no modes
	// ModeActions lists the modes that need a different capability.
	ModeActions map[string]mode
	// ExcludedModes lists the modes that random plans leave out because the simulation, in which
	// every seed must run, does not support them. "" excludes a kind without modes.
	ExcludedModes []string
	// Fields and RequiredFields list the fields of Fault that apply to the kind, named as in a
	// scenario file. For and Until apply to every kind.
	Fields, RequiredFields []string
	// CheckFault validates a fault of the kind, after its fields have been checked against Fields.
	// CheckTarget validates one of its targets, and CheckTopology a topology. Each may be nil.
	CheckFault    func(f Fault) *Problem
	CheckTarget   func(f Fault, target string, on Target) *Problem
	CheckTopology func(t Topology) *Problem

	RecordedKind   string // kind under which histories record the fault; "" means Name
	CapabilityName string // base name of the capability that a cluster needs; "" means Name
	Action         action // injects the fault

	MayOverlap      bool                  // several steps may be active on one target at the same time
	ClockRate       func(f Fault) float64 // clock rate during the fault; nil means Fault.Rate
	SetsClock       bool                  // sets a clock instead of changing its rate
	IsRepeated      bool                  // repeats at intervals of Fault.Every, for Fault.Lasts each time
	IsInstant       bool                  // happens at once, and has no duration unless the plan ends it
	FatalTarget     Target                // targets of this type can't be restarted
	HitsReplication bool                  // can hit the link between a node and its replica
	HoldsMessage    bool                  // holds the triggering message until the fault ends
	LosesMessage    bool                  // drops the triggering message
	// ExtraCapabilities lists further capabilities that random plans with this kind need.
	ExtraCapabilities []string
	// AllowedFaults describes which faults of the kind Redlock's assumptions allow, and how random
	// plans stay within them. "" means none. Sources: Redis documentation, "Distributed Locks with
	// Redis", safety arguments, and performance, crash recovery and fsync; antirez 2016, "Is
	// Redlock safe?", http://antirez.com/news/101.
	AllowedFaults string
	// MayForget reports whether a node may come back from the fault without keys that it promised
	// to keep. EndsNode reports whether the node never comes back. nil means never.
	MayForget, EndsNode func(Environment) bool
	// Proof describes the evidence required to show that the fault hit something. Random plans
	// don't require it.
	Proof history.Proof
	// Impact tells the checker how the kind affects contending clients (history.ImpactAnswers …).
	// If it is "", the checker uses its own value for the kind's name, or the maximum if it has
	// none.
	Impact  string
	Wording Wording
}

// mode is a mode whose capability differs from its kind's.
type mode struct {
	Capability string
	Action     action
}

// Topology holds the node properties that a kind may require.
type Topology struct {
	Replicas       int  // replicas per node
	HasPersistence bool // nodes have persistence
}

// Problem says what is wrong with a field of a fault and how to fix it. If Field is "", the problem
// concerns the whole fault.
type Problem struct{ Field, What, Hint string }

// Validate checks a fault of the kind that is to be used in topology t. It returns nil if the fault
// is valid.
func (k Kind) Validate(f Fault, t Topology) *Problem {
	setFields := f.fieldNames()
	for _, name := range setFields {
		if !slices.Contains(k.Fields, name) {
			return &Problem{name, "the " + k.Name + " fault has no field \"" + name + "\"", "leave it out"}
		}
	}
	for _, name := range k.RequiredFields {
		if !slices.Contains(setFields, name) {
			return &Problem{"", "the " + k.Name + " fault needs \"" + name + "\"", "add " + name + ":"}
		}
	}
	if f.Timer != nil && f.For == nil {
		return &Problem{"timer", "a timer needs a duration to measure", "add for:"}
	}
	if o := k.ValidateTopology(t); o != nil {
		return o
	}
	if k.CheckFault != nil {
		return k.CheckFault(f)
	}
	return nil
}

// ValidateTopology returns nil if a topology meets the kind's requirements.
func (k Kind) ValidateTopology(t Topology) *Problem {
	if k.CheckTopology == nil {
		return nil
	}
	return k.CheckTopology(t)
}

// problemIf returns a problem if wrong is set, and otherwise nil.
func problemIf(wrong bool, field, what, hint string) *Problem {
	if !wrong {
		return nil
	}
	return &Problem{field, what, hint}
}

func (k Kind) Hits(t Target) bool { return slices.Contains(k.TargetTypes, t) }

// Inject injects a fault of the kind into a target and reads back that it is active.
func (k Kind) Inject(cluster any, f Fault, target string) (Effect, error) {
	if m, ok := k.ModeActions[f.Mode]; ok {
		return m.Action.inject(cluster, f, target)
	}
	return k.Action.inject(cluster, f, target)
}

// Evidence that a fault hit something.
var (
	nodeUseProof          = history.Proof{Targets: []string{history.TargetNode}}
	linkUseProof          = history.Proof{Targets: []string{history.TargetLink}}
	clientAndNodeUseProof = history.Proof{Targets: []string{history.TargetClient, history.TargetNode}}
	clockUseProof         = history.Proof{Targets: clientAndNodeUseProof.Targets, MinOffset: MinNoticeable}
	persistenceProof      = history.Proof{NeedsPersistence: true}
)

// MinNoticeable is the smallest message delay or clock error that can have a noticeable effect.
// Anything smaller is lost in the variation of message latency and in Redis's millisecond
// resolution.
const MinNoticeable = 100 * time.Microsecond

// RecordedName returns the name under which histories record faults of the kind.
func (k Kind) RecordedName() string { return cmp.Or(k.RecordedKind, k.Name) }

// ProofOf returns the evidence required for a fault of the kind, given the nodes' persistence.
func (k Kind) ProofOf(persistence string) *history.Proof {
	p := k.Proof
	if syncsLater := persistence == "everysec" || persistence == "no"; !syncsLater {
		p.IdleText = "" // nothing synced before the reply can be lost
	}
	if p.MinOffset == 0 && !p.NeedsPersistence && p.IdleText == "" && len(p.Targets) == 0 {
		return nil
	}
	return &p
}

// RateOf returns the clock rate during a fault of the kind, or 0 if the fault doesn't change it.
func (k Kind) RateOf(f Fault) float64 {
	if k.ClockRate != nil {
		return k.ClockRate(f)
	}
	return f.Rate
}

// Capability returns the capability that a cluster needs to inject the fault into a target of this
// type.
func (k Kind) Capability(target Target) string {
	return Capability(cmp.Or(k.CapabilityName, k.Name), target)
}

// Wording describes a kind in reports. Its texts may contain placeholders: {targets} for the
// targets, {client} for the client of a link, {message} for the affected message, and {saw} for the
// read-back, in parentheses.
type Wording struct {
	Name          string // "delayed messages", as in a list of planned faults
	Subject       string // subject of PastPredicate: "the disk of {targets}"; "" means {targets}
	BeginText     string // "{targets} is paused"
	EndText       string // "{targets} resumes"
	PastPredicate string // predicate: "was paused"
	ReturnText    string // if the fault replaces a node: "its old master was back"
	State         State  // state of a client or node during the fault
}

// State is the state that figures show for a client or node during a fault.
type State string

const (
	StateStopped State = "paused" // does nothing and resumes later
	StateDown    State = "down"   // its process has ended; a node can be restarted
)
