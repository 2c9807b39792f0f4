package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Modes of a cut.
const (
	// CutHold holds messages and delivers them when the link is restored, as TCP does if a
	// connection outlives a partition.
	CutHold = "hold"
	// CutDrop drops messages. Connections that lost a message are reset when the link is restored,
	// because TCP never skips bytes.
	CutDrop = "drop"
	// CutReset resets all existing connections at once, and then each new one.
	CutReset = "reset"
	// CutRefuse leaves existing connections alone and refuses new ones.
	CutRefuse = "refuse"
	// CutPackets drops packets below TCP, so no new connection succeeds. Data on existing
	// connections is retransmitted at increasing intervals and arrives some time after the link is
	// restored.
	CutPackets = "packets"
)

// PacketsCapability is the base name of the capability that CutPackets needs.
const PacketsCapability = "packets"

// oneWayModes lists the modes that can cut a single direction of a link.
var oneWayModes = []string{CutHold, CutDrop, CutPackets}

func cutsOneWay(mode string) bool { return slices.Contains(oneWayModes, cmp.Or(mode, CutHold)) }

// LinkCut describes how a link is cut, in any mode but CutPackets. The zero value means that it is
// not.
type LinkCut struct{ Mode, Way string }

// Begin returns the state of the link after cutting it. The default mode is CutHold.
func (c LinkCut) Begin(mode, way string) (LinkCut, error) {
	mode = cmp.Or(mode, CutHold)
	switch {
	case c != LinkCut{}:
		return c, errors.New("it is already cut")
	case mode == CutPackets || !slices.Contains(cutKind.Modes, mode):
		return c, fmt.Errorf("unknown mode %q", mode)
	case way != "" && !cutsOneWay(mode):
		return c, fmt.Errorf("mode %q can't cut a single direction", mode)
	}
	return LinkCut{mode, way}, nil
}

// Blocks reports whether the cut blocks messages in a direction, Request or Reply.
func (c LinkCut) Blocks(direction string) bool {
	return (c.Mode == CutHold || c.Mode == CutDrop) && (c.Way == "" || c.Way == direction)
}

// Cutter cuts and mends links in all modes but CutPackets. way is Request, Reply, or "" for both
// directions; see cutsOneWay.
type Cutter interface {
	Cut(link, mode, way string) (readBack string, err error)
	Mend(link string) (readBack string, err error)
}

// PacketCutter drops a link's packets. It reads back that PING gets no answer.
type PacketCutter interface {
	CutPackets(link, way string) (readBack string, err error)
	// MendPackets ends the cut and reads back how many packets it dropped in total.
	MendPackets(link string) (readBack string, err error)
}

var cutKind = Kind{
	Name:          "cut",
	Model:         "networks",
	Doc:           "cuts links; a client as target stands for its links to all nodes, a node for its links to all clients",
	AllowedFaults: "any: the network may lose messages",
	TargetTypes:   []Target{Link},
	Proof:         linkUseProof,
	Modes:         []string{CutHold, CutDrop, CutReset, CutRefuse, CutPackets},
	ModeActions: map[string]mode{CutPackets: {Capability(PacketsCapability, Link), newAction("lose packets",
		func(c PacketCutter, f Fault, link string) (string, error) { return c.CutPackets(link, f.Way) },
		func(c PacketCutter, _ Fault, link string) (string, error) { return c.MendPackets(link) })}},
	ExcludedModes: []string{CutPackets},
	Fields:        []string{"way"}, MayOverlap: true, HitsReplication: true,
	CheckFault: func(f Fault) *Problem {
		return problemIf(f.Way != "" && !cutsOneWay(f.Mode), "way", "a cut in mode \""+f.Mode+"\" can't be limited to one direction", "leave it out, or use mode hold, drop or packets")
	},
	CheckTarget: func(f Fault, target string, _ Target) *Problem {
		_, end, _ := SplitLink(target)
		return problemIf(end == Replica && f.Mode == CutPackets, "", "a cut in mode \""+f.Mode+"\" can't hit a replication link", "use another mode")
	},
	Wording: Wording{Name: "cut of links", Subject: "{client}", BeginText: "{client} is cut off from {targets}", EndText: "{client} reaches {targets} again",
		PastPredicate: "was cut off from {targets}"},
	Action: newAction("cut",
		func(c Cutter, f Fault, link string) (string, error) { return c.Cut(link, f.Mode, f.Way) },
		func(c Cutter, _ Fault, link string) (string, error) { return c.Mend(link) }),
}
