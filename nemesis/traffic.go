package nemesis

import (
	"fmt"
	"time"
)

// Traffic is what a link does to the messages that pass, besides what it always
// does. The zero value is nothing.
type Traffic struct {
	Way       string        // Request, Reply or "", both
	DelayMin  time.Duration // each message of the share is late by a time drawn from here
	DelayMax  time.Duration //
	Heavy     bool          // the time is drawn so that most are short and some long; otherwise evenly
	Share     float64       // of the messages; 0: all
	Lose      bool          // those of the share are lost, and what comes after them on their connection
	Bandwidth int           // bytes a second; 0: no bound
}

// Shaper changes the traffic of a link: what its connections carry, not how they
// are made. Several may be in force on one link, each in its own way. It reads
// back what a PING met, or what was set where one PING can't show it.
//
// A connection that lost a message is as one through a cut that drops: it is
// silent from there on, and is reset once Unshape ends the loss.
type Shaper interface {
	Shape(link string, t Traffic) (readBack string, err error)
	// Unshape ends what Shape began, and reads back how many messages with lock
	// commands it hit. If none, the error is ErrIdle.
	Unshape(link string, t Traffic) (readBack string, err error)
}

// Impact is what a change of a link's traffic has met.
type Impact struct {
	Met, Hit int  // messages with lock commands
	Felt     bool // one of them was lost, or late by enough to notice
}

// Count takes in a message: whether there is a lock command in it, and what the change did to it.
func (i *Impact) Count(locks, hit, felt bool) {
	if locks {
		i.Met++
	}
	if locks && hit {
		i.Hit++
		i.Felt = i.Felt || felt
	}
}

// ReadBack says what was hit, and what a PING met once the change had ended. If nobody can have
// noticed the change, the error is ErrIdle.
func (i Impact) ReadBack(ping string) (string, error) {
	back := fmt.Sprintf("it hit %d of %d messages; %s", i.Hit, i.Met, ping)
	switch {
	case i.Felt:
		return back, nil
	case i.Hit > 0:
		back = fmt.Sprintf("none was late by as much as %v; %s", Felt, back)
	}
	return back, ErrIdle
}

// On says whether messages of a direction are concerned.
func (t Traffic) On(of string) bool { return t.Way == "" || t.Way == of }

// All says whether every message is concerned, so that one PING shows it.
func (t Traffic) All() bool { return t.Share == 0 || t.Share >= 1 }

// Hits says whether a message is of the share, by a random word of its own.
func (t Traffic) Hits(word uint64) bool { return t.All() || unit(word) < t.Share }

// Late is how late a message of the share is, by a random word of its own.
func (t Traffic) Late(word uint64) time.Duration {
	if t.Heavy && t.DelayMin > 0 {
		return Span{t.DelayMin, t.DelayMax}.Heavy(word)
	}
	return t.DelayMin + time.Duration(unit(word)*float64(t.DelayMax-t.DelayMin))
}

// Takes is how long bytes need to pass.
func (t Traffic) Takes(bytes int) time.Duration {
	if t.Bandwidth == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(t.Bandwidth) * float64(time.Second))
}

// String says in words what is done, as in "5 % of the replies are lost".
func (t Traffic) String() string {
	whom := map[string]string{Request: "requests", Reply: "replies", "": "messages"}[t.Way]
	if t.All() {
		whom = "all " + whom
	} else {
		whom = fmt.Sprintf("%g %% of the %s", 100*t.Share, whom)
	}
	switch {
	case t.Lose:
		return whom + " are lost"
	case t.Bandwidth > 0:
		return fmt.Sprintf("%s pass at %d bytes/s", whom, t.Bandwidth)
	case t.Heavy:
		return fmt.Sprintf("%s are late by %v to %v, few by much", whom, t.DelayMin, t.DelayMax)
	}
	return fmt.Sprintf("%s are late by %v to %v", whom, t.DelayMin, t.DelayMax)
}

// Ways of drawing a delay.
const (
	delayEven  = "even"
	delayHeavy = "heavy-tailed"
)

// late is how links that are slow are told of.
func late(name string) Told {
	const hear = "{client} and {targets} hear each other "
	return Told{Name: name, Whom: "{client}", Began: hear + "late", Ended: hear + "in time again", Was: "and {targets} heard each other late"}
}

var delay = traffic("delay", late("late messages"), "lets the messages of links arrive late, by a time drawn from `delay`; a share of them, or all",
	[]string{delayEven, delayHeavy}, []string{"way", "delay", "share"}, []string{"delay"},
	func(f Fault) Traffic {
		return Traffic{DelayMin: f.Delay.Min, DelayMax: f.Delay.Max, Heavy: f.Mode == delayHeavy, Share: f.Share}
	})

var throttle = traffic("throttle", late("throttled link"), "lets links pass so many bytes a second and no more",
	nil, []string{"way", "bandwidth"}, []string{"bandwidth"},
	func(f Fault) Traffic { return Traffic{Bandwidth: f.Bandwidth} })

var lose = traffic("lose", Told{Name: "lost messages", Whom: "{client}", Began: "{client} and {targets} lose messages",
	Ended: "{client} and {targets} lose no more messages", Was: "and {targets} lost messages"},
	"loses a share of the messages on links; what comes after one on its connection is lost too, until it is reset at the end",
	nil, []string{"way", "share"}, []string{"share"},
	func(f Fault) Traffic { return Traffic{Lose: true, Share: f.Share} })

func traffic(name string, told Told, doc string, modes, takes, needs []string, of func(Fault) Traffic) Kind {
	shaped := func(f Fault) Traffic {
		t := of(f)
		t.Way = f.Way
		return t
	}
	return Kind{Name: name, Doc: doc, Model: "networks", Within: "any: the network need not deliver, nor in time", On: []Target{Link}, Power: powerShape, Modes: modes, Takes: takes, Needs: needs, Told: told,
		Act: by(name,
			func(c Shaper, f Fault, link string) (string, error) { return c.Shape(link, shaped(f)) },
			func(c Shaper, f Fault, link string) (string, error) { return c.Unshape(link, shaped(f)) })}
}
