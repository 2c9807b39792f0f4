package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Modes of a cut.
const (
	// CutHold keeps what is sent and delivers it after healing, as TCP does with
	// a connection that outlives a partition.
	CutHold = "hold"
	// CutDrop loses what is sent. Connections that lost something are reset when
	// it heals, for no byte of TCP can be missing.
	CutDrop = "drop"
	// CutReset ends the connections at once, and each new one.
	CutReset = "reset"
	// CutRefuse leaves the connections that there are, and refuses new ones.
	CutRefuse = "refuse"
	// CutPackets loses the packets below TCP: no connection is made, and what was sent
	// is sent again after ever longer waits, and comes late after healing.
	CutPackets = "packets"
)

// PowerPackets is what a cut of packets needs besides.
const PowerPackets = "packets"

// oneWay are the modes that can cut one direction of a link.
var oneWay = []string{CutHold, CutDrop, CutPackets}

// cutsOneWay says whether a cut of a mode can be one way.
func cutsOneWay(mode string) bool { return slices.Contains(oneWay, cmp.Or(mode, CutHold)) }

// LinkCut is how a link is cut, in any mode but CutPackets. The zero value: it isn't.
type LinkCut struct{ Mode, Way string }

// Begin returns the cut of a mode and a way. Without a mode it holds.
func (c LinkCut) Begin(mode, way string) (LinkCut, error) {
	mode = cmp.Or(mode, CutHold)
	switch {
	case c != LinkCut{}:
		return c, errors.New("it is cut already")
	case mode == CutPackets || !slices.Contains(cut.Modes, mode):
		return c, fmt.Errorf("unknown mode %q", mode)
	case way != "" && !cutsOneWay(mode):
		return c, fmt.Errorf("mode %s has no one way", mode)
	}
	return LinkCut{mode, way}, nil
}

// Blocks says whether what travels a direction doesn't arrive.
func (c LinkCut) Blocks(of string) bool {
	return (c.Mode == CutHold || c.Mode == CutDrop) && (c.Way == "" || c.Way == of)
}

// Cutter cuts a link and mends it, in all modes but CutPackets. The way is Request,
// Reply or "", both; see CutsOneWay.
type Cutter interface {
	Cut(link, mode, way string) (readBack string, err error)
	Mend(link string) (readBack string, err error)
}

// PacketCutter loses the packets of a link, and reads back that PING gets no answer,
// and how many packets it has lost.
type PacketCutter interface {
	CutPackets(link, way string) (readBack string, err error)
	// MendPackets lets them pass again, and reads back how many were lost in all.
	MendPackets(link string) (readBack string, err error)
}

var cut = Kind{
	Name:   "cut",
	Model:  "networks",
	Doc:    "cuts links; a client as target means its links to all nodes, a node those to all clients",
	Within: "any: the network need not deliver",
	On:     []Target{Link},
	Proof:  usedLink,
	Modes:  []string{CutHold, CutDrop, CutReset, CutRefuse, CutPackets},
	ByMode: map[string]mode{CutPackets: {Capability(PowerPackets, Link), by("lose packets",
		func(c PacketCutter, f Fault, link string) (string, error) { return c.CutPackets(link, f.Way) },
		func(c PacketCutter, _ Fault, link string) (string, error) { return c.MendPackets(link) })}},
	Undrawn: []string{CutPackets},
	Takes:   []string{"way"}, Nests: true, Replicates: true,
	Fits: func(f Fault) *Objection {
		return objection(f.Way != "" && !cutsOneWay(f.Mode), "way", "a cut of mode "+f.Mode+" has no one way", "leave it out, or use mode hold, drop or packets")
	},
	Hit: func(f Fault, target string, _ Target) *Objection {
		_, end, _ := SplitLink(target)
		return objection(end == Replica && f.Mode == CutPackets, "", "a cut of mode "+f.Mode+" can't hit a replication link", "use another mode")
	},
	Told: Told{Name: "cut of links", Whom: "{client}", Began: "{client} is cut off from {targets}", Ended: "{client} reaches {targets} again",
		Was: "was cut off from {targets}"},
	Act: by("cut",
		func(c Cutter, f Fault, link string) (string, error) { return c.Cut(link, f.Mode, f.Way) },
		func(c Cutter, _ Fault, link string) (string, error) { return c.Mend(link) }),
}
