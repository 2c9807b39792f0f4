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
	"fmt"
	"slices"
	"strings"
	"time"
)

// Plan is what the nemesis does in one run.
type Plan []Step

// Step is one fault and what sets it off.
type Step struct {
	When  Trigger `json:"when"`
	Fault Fault   `json:"fault"`
}

// Fault is what is done to whom. Which fields a kind takes, Kinds says.
type Fault struct {
	Kind    string         `json:"kind"`
	Targets []string       `json:"targets,omitempty"` // clients, nodes or links ("c1-n3")
	Mode    string         `json:"mode,omitempty"`    // of a cut: how
	For     *time.Duration `json:"for,omitempty"`     // how long it lasts; for a killed node: until it is started again
	Until   *Event         `json:"until,omitempty"`   // or the event that ends it; neither: until the run ends
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
	// Inject brings it into force on one target, and reads back that it is.
	Inject func(cluster any, f Fault, target string) (Effect, error)
}

// Hits says whether the fault can hit that sort of thing.
func (k Kind) Hits(t Target) bool { return slices.Contains(k.On, t) }

// Effect is a fault in force.
type Effect struct {
	ReadBack string // what was seen that shows the fault is in force
	// Heal ends it and reads back that it is gone. Nil: there is no way back.
	Heal func() (readBack string, err error)
}

// Kinds is the one table of faults.
var Kinds = []Kind{pause, kill, cut, hold}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Capability names what a cluster must be able to do for a fault on a target.
func Capability(kind string, on Target) string { return kind + "-" + string(on) }

// LinkName is the name of the link between a client and a node or resource.
func LinkName(client, node string) string { return client + "-" + node }

// SplitLink is the reverse of LinkName.
func SplitLink(link string) (client, node string, ok bool) { return strings.Cut(link, "-") }

func missing(kind string, cluster any) error {
	return fmt.Errorf("this cluster (%T) can't %s", cluster, kind)
}
