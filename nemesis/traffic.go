package nemesis

import (
	"fmt"
	"time"
)

// Traffic describes how a fault changes a link's traffic. The zero value changes nothing.
type Traffic struct {
	Way         string        // Request, Reply, or "" for both directions
	DelayMin    time.Duration // each affected message is delayed by a random time in this range
	DelayMax    time.Duration
	HeavyTailed bool    // most delays are short, some long; otherwise they are uniformly distributed
	Share       float64 // share of the messages that are affected; 0 means all
	Lose        bool    // drops the affected messages, and all later ones on the same connection
	Bandwidth   int     // bytes per second; 0 means unlimited
}

// Shaper changes the traffic of a link: the data on its connections, but not how connections are
// established. Several changes may be active on one link at the same time, in different directions.
// It reads back the result of a PING, or a description of the change if a single PING can't show
// it.
//
// A connection that lost a message behaves as under CutDrop: it delivers nothing from then on, and
// is reset when Unshape ends the loss.
type Shaper interface {
	Shape(link string, t Traffic) (readBack string, err error)
	// Unshape ends a change and reads back how many messages with lock commands were hit. If none
	// was, the error is ErrIdle.
	Unshape(link string, t Traffic) (readBack string, err error)
}

// Impact counts the messages affected by a change to a link's traffic.
type Impact struct {
	Seen, Hit  int  // number of messages with lock commands: in total, and hit
	Noticeable bool // one of these messages was lost, or delayed by a noticeable time
}

// Count counts a message. The arguments say whether it contains a lock command and how the change
// affected it.
func (i *Impact) Count(hasLockCommand, hit, noticeable bool) {
	if hasLockCommand {
		i.Seen++
	}
	if hasLockCommand && hit {
		i.Hit++
		i.Noticeable = i.Noticeable || noticeable
	}
}

// ReadBack describes what was hit, and the result of a PING after the change ended. If the change
// was not noticeable, the error is ErrIdle.
func (i Impact) ReadBack(ping string) (string, error) {
	back := fmt.Sprintf("it hit %d of %d messages; %s", i.Hit, i.Seen, ping)
	switch {
	case i.Noticeable:
		return back, nil
	case i.Hit > 0:
		back = fmt.Sprintf("none was late by as much as %v; %s", MinNoticeable, back)
	}
	return back, ErrIdle
}

// AppliesTo reports whether the change applies to a direction.
func (t Traffic) AppliesTo(direction string) bool { return t.Way == "" || t.Way == direction }

// HitsAll reports whether the change hits every message, so that a single PING shows it.
func (t Traffic) HitsAll() bool { return t.Share == 0 || t.Share >= 1 }

// Hits reports whether the change hits a message, given a random word for the message.
func (t Traffic) Hits(word uint64) bool { return t.HitsAll() || unitInterval(word) < t.Share }

// Delay returns how long a message that is hit is delayed, given a random word for the message.
func (t Traffic) Delay(word uint64) time.Duration {
	if t.HeavyTailed && t.DelayMin > 0 {
		return Span{t.DelayMin, t.DelayMax}.DrawHeavyTailed(word)
	}
	return t.DelayMin + time.Duration(unitInterval(word)*float64(t.DelayMax-t.DelayMin))
}

func (t Traffic) TransmitTime(bytes int) time.Duration {
	if t.Bandwidth == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(t.Bandwidth) * float64(time.Second))
}

// String describes the change, as in "5 % of the replies are lost".
func (t Traffic) String() string {
	subject := map[string]string{Request: "requests", Reply: "replies", "": "messages"}[t.Way]
	if t.HitsAll() {
		subject = "all " + subject
	} else {
		subject = fmt.Sprintf("%g %% of the %s", 100*t.Share, subject)
	}
	switch {
	case t.Lose:
		return subject + " are lost"
	case t.Bandwidth > 0:
		return fmt.Sprintf("%s pass at %d bytes/s", subject, t.Bandwidth)
	case t.HeavyTailed:
		return fmt.Sprintf("%s are late by %v to %v, few by much", subject, t.DelayMin, t.DelayMax)
	}
	return fmt.Sprintf("%s are late by %v to %v", subject, t.DelayMin, t.DelayMax)
}

// Distributions of delays.
const (
	evenDelay        = "even"
	heavyTailedDelay = "heavy-tailed"
)

// delayWording returns the wording for faults that make links slow.
func delayWording(name string) Wording {
	const messages = "messages between {client} and {targets}"
	return Wording{Name: name, Subject: messages, BeginText: messages + " are delayed", EndText: messages + " are no longer delayed", PastPredicate: "were delayed"}
}

var delayKind = newTrafficKind("delay", delayWording("delayed messages"), "delays the messages of links, a share of them or all, by a time drawn from `delay`",
	[]string{evenDelay, heavyTailedDelay}, []string{"way", "delay", "share"}, []string{"delay"},
	func(f Fault) Traffic {
		return Traffic{DelayMin: f.Delay.Min, DelayMax: f.Delay.Max, HeavyTailed: f.Mode == heavyTailedDelay, Share: f.Share}
	})

var throttleKind = newTrafficKind("throttle", delayWording("throttled link"), "limits the bandwidth of links, in bytes per second",
	nil, []string{"way", "bandwidth"}, []string{"bandwidth"},
	func(f Fault) Traffic { return Traffic{Bandwidth: f.Bandwidth} })

var loseKind = newTrafficKind("lose", Wording{Name: "lost messages", Subject: "messages between {client} and {targets}", BeginText: "messages between {client} and {targets} get lost",
	EndText: "messages between {client} and {targets} are no longer lost", PastPredicate: "got lost"},
	"loses a share of the messages on links; later messages on the same connection are lost too, until it is reset at the end",
	nil, []string{"way", "share"}, []string{"share"},
	func(f Fault) Traffic { return Traffic{Lose: true, Share: f.Share} })

func newTrafficKind(name string, wording Wording, doc string, modes, fields, required []string, change func(Fault) Traffic) Kind {
	traffic := func(f Fault) Traffic {
		t := change(f)
		t.Way = f.Way
		return t
	}
	return Kind{Name: name, Doc: doc, Model: "networks", AllowedFaults: "any: the network may lose or delay messages", TargetTypes: []Target{Link}, CapabilityName: shapeCapability, Modes: modes, Fields: fields, RequiredFields: required, Wording: wording,
		Action: newAction(name,
			func(c Shaper, f Fault, link string) (string, error) { return c.Shape(link, traffic(f)) },
			func(c Shaper, f Fault, link string) (string, error) { return c.Unshape(link, traffic(f)) })}
}
