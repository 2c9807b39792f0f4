// Package nemesis describes faults as data: what is done to whom, when, and for
// how long.
//
// A Plan is a list of Steps; a Step is a Trigger and a Fault. Kinds is the one
// table of faults: for each it names what it can hit, the capability that a
// cluster must have for it, and how it is injected, read back and healed. One
// fault is one file. A cluster has a fault's power if it implements the small
// interface that the file declares, so that nothing here knows a backend.
//
// Deliberately missing: time, goroutines and the history. The engine in package
// harness waits for triggers and records what happened.
package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

// Plan is what the nemesis does in one run.
type Plan []Step

// Step is one fault and what sets it off.
type Step struct {
	When  Trigger `json:"when"`
	Fault Fault   `json:"fault"`
	// Drawn: the dice put it there. It need not come, nor meet anything while it is in
	// force; but if it comes, it has to come into force.
	Drawn bool `json:"drawn,omitempty"`
}

// Fault is what is done to whom. Which fields a kind takes, Kinds says.
type Fault struct {
	Kind    string         `json:"kind"`
	Targets []string       `json:"targets,omitempty"` // clients, nodes or links ("c1-n3")
	Mode    string         `json:"mode,omitempty"`    // how, where there are several ways
	For     *time.Duration `json:"for,omitempty"`     // how long it lasts from when it is in force; for a node that is down: until it is started again
	Until   *Event         `json:"until,omitempty"`   // or the event that ends it; neither: until the run ends

	Way       string        `json:"way,omitempty"`       // on a link: Request, Reply or "", both
	By        time.Duration `json:"by,omitempty"`        // how far a clock goes wrong; negative: it is set back
	Rate      float64       `json:"rate,omitempty"`      // how fast a clock runs; 1 is right
	Delay     Span          `json:"delay,omitzero"`      // how late messages are
	Share     float64       `json:"share,omitempty"`     // of the messages; 0: all
	Bandwidth int           `json:"bandwidth,omitempty"` // bytes a second
	Every     Span          `json:"every,omitzero"`      // of what comes again and again: the time between
	Lasts     Span          `json:"lasts,omitzero"`      // and how long each one lasts; most are short, some long
	CPU       float64       `json:"cpu,omitempty"`       // of one processor, what a node may use
	Memory    int           `json:"memory,omitempty"`    // bytes that it may use
	Timer     *Timer        `json:"timer,omitempty"`     // the clock that For is counted by
}

// Span is a range that durations are drawn from.
type Span struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// given lists the fields that a fault has, by their names in a scenario file.
func (f Fault) given() []string {
	var names []string
	for name, is := range map[string]bool{
		"way": f.Way != "", "by": f.By != 0, "rate": f.Rate != 0, "delay": f.Delay != Span{}, "share": f.Share != 0,
		"bandwidth": f.Bandwidth != 0, "every": f.Every != Span{}, "lasts": f.Lasts != Span{}, "timer": f.Timer != nil,
		"cpu": f.CPU != 0, "memory": f.Memory != 0,
	} {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Unfit names a field that the kind doesn't take, or one that it needs and the
// fault doesn't have; both "" if all fits.
func (k Kind) Unfit(f Fault) (extra, wanting string) {
	given := f.given()
	for _, name := range given {
		if !slices.Contains(k.Takes, name) {
			return name, ""
		}
	}
	for _, name := range k.Needs {
		if !slices.Contains(given, name) {
			return "", name
		}
	}
	return "", ""
}

// Target is a sort of thing that a fault can hit.
type Target string

const (
	Client  Target = "client"
	Node    Target = "node"
	Link    Target = "link"
	Message Target = "message"
)

// Kind is a fault as the engine sees it.
type Kind struct {
	Name string
	Doc  string // one sentence
	// On lists what it can hit. The capability that a backend must have is
	// Name and the target, as in "pause-client".
	On    []Target
	Modes []string // the first is the default; nil: it has none
	// ModeNeeds lists the modes that a cluster must have another capability for.
	ModeNeeds map[string]string
	// Undrawn lists the modes that random plans leave out, for their seeds must run in
	// the simulation; "" is the mode of a kind that has none.
	Undrawn []string
	// Takes and Needs name the fields of a Fault that it has a use for, and can't do without, by
	// their names in a scenario file. For and Until any kind takes.
	Takes, Needs []string
	As           string // the kind that it is recorded as, where it makes that one's; "": its own
	Power        string // what a cluster must be able to do; "": what the kind is called
	Nests        bool   // on one target it may be in force for several steps at once
	Sets         bool   // it sets a clock, rather than let it run fast or slow
	Again        bool   // it comes again and again: Every between, Lasts each
	// Within is what of it Redlock's assumptions allow, as a random plan keeps to them;
	// "": none of it. Sources: Redis documentation, "Distributed Locks with Redis",
	// safety arguments, and performance, crash recovery and fsync; antirez 2016, "Is
	// Redlock safe?", http://antirez.com/news/101.
	Within string
	// Proof is what must be seen of it besides that it is in force, unless the dice drew it.
	Proof history.Proof
	// Inject brings it into force on one target, and reads back that it is.
	Inject func(cluster any, f Fault, target string) (Effect, error)
}

// Hits says whether the fault can hit that sort of thing.
func (k Kind) Hits(t Target) bool { return slices.Contains(k.On, t) }

// Effect is a fault in force.
type Effect struct {
	ReadBack string // what was seen that shows the fault is in force
	// Heal ends it and reads back that it is gone. Nil: there is no way back. With
	// ErrIdle it is gone, and was in force for nothing.
	Heal func() (readBack string, err error)
	// Over is when it ends by itself, after the begin; 0: when For or Until says.
	Over time.Duration
}

// ErrIdle is Heal's word for a fault that has met nothing while it was in force. A
// step that is idle on all of its targets has not taken place.
var ErrIdle = errors.New("it hit nothing")

// What shows that a fault hit something.
var (
	usedNode = history.Proof{Use: []string{history.UseNode}}
	usedLink = history.Proof{Use: []string{history.UseLink}}
	usedBoth = history.Proof{Use: []string{history.UseClient, history.UseNode}}
	turned   = history.Proof{Use: usedBoth.Use, Off: Felt}
	keeps    = history.Proof{Keeps: true}
)

// Felt is the least that a message has to be late, or a clock to be wrong, for anybody to
// notice: what is less is lost in how long messages travel, and in the milliseconds that
// Redis counts by.
const Felt = 100 * time.Microsecond

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

// Powers of a cluster that serve several kinds. The others have a kind's name.
const (
	PowerClock = "clock"
	PowerShape = "shape"
	PowerDisk  = "disk"
)

// Capability names a cluster's power over a sort of target.
func Capability(power string, on Target) string { return power + "-" + string(on) }

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
	if k.Name == "clock-slew" {
		return slewed(f.By)
	}
	return f.Rate
}

// Capability is what a cluster must be able to do for the fault on a target.
func (k Kind) Capability(on Target) string { return Capability(cmp.Or(k.Power, k.Name), on) }

// LinkName is the name of the link between a client and a node or resource.
func LinkName(client, node string) string { return client + "-" + node }

// SplitLink is the reverse of LinkName.
func SplitLink(link string) (client, node string, ok bool) { return strings.Cut(link, "-") }

// by is an Inject for clusters with the power P: do brings the fault into force, and undo
// is the way back; nil: there is none.
func by[P any](kind string, do, undo func(c P, f Fault, target string) (readBack string, err error)) func(any, Fault, string) (Effect, error) {
	return func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(P)
		if !ok {
			return Effect{}, missing(kind, cluster)
		}
		back, err := do(c, f, target)
		e := Effect{ReadBack: back}
		if undo != nil {
			e.Heal = func() (string, error) { return undo(c, f, target) }
		}
		return e, err
	}
}

func missing(kind string, cluster any) error {
	return fmt.Errorf("this cluster (%T) can't %s", cluster, kind)
}
