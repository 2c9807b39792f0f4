package nemesis

import "time"

// Traffic is what a link does to the messages that pass, besides what it always
// does. The zero value is nothing.
type Traffic struct {
	Way       string        // Request, Reply or "", both
	DelayMin  time.Duration // each message of the share is late by a time drawn from here
	DelayMax  time.Duration //
	Heavy     bool          // the time is drawn so that most are short and some long; otherwise evenly
	Share     float64       // of the messages; 0: all
	Lose      bool          // those of the share are lost, and their connection with them
	Bandwidth int           // bytes a second; 0: no bound
}

// Shaper changes the traffic of a link. It reads back what a PING met.
type Shaper interface {
	Shape(link string, t Traffic) (readBack string, err error)
	Unshape(link string) (readBack string, err error)
}

// Ways of drawing a delay.
const (
	DelayEven  = "even"
	DelayHeavy = "heavy-tailed"
)

var delay = traffic("delay", "lets the messages of links arrive late, by a time drawn from `delay`; a share of them, or all",
	[]string{DelayEven, DelayHeavy}, []string{"way", "delay", "share"}, []string{"delay"},
	func(f Fault) Traffic {
		return Traffic{DelayMin: f.Delay.Min, DelayMax: f.Delay.Max, Heavy: f.Mode == DelayHeavy, Share: f.Share}
	})

var throttle = traffic("throttle", "lets links pass so many bytes a second and no more",
	nil, []string{"way", "bandwidth"}, []string{"bandwidth"},
	func(f Fault) Traffic { return Traffic{Bandwidth: f.Bandwidth} })

var lose = traffic("lose", "loses a share of the messages on links, and resets their connections",
	nil, []string{"way", "share"}, []string{"share"},
	func(f Fault) Traffic { return Traffic{Lose: true, Share: f.Share} })

func traffic(name, doc string, modes, takes, needs []string, of func(Fault) Traffic) Kind {
	k := Kind{Name: name, Doc: doc, On: []Target{Link}, Power: PowerShape, Modes: modes, Takes: takes, Needs: needs}
	k.Inject = func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(Shaper)
		if !ok {
			return Effect{}, missing(name, cluster)
		}
		t := of(f)
		t.Way = f.Way
		back, err := c.Shape(target, t)
		return Effect{ReadBack: back, Heal: func() (string, error) { return c.Unshape(target) }}, err
	}
	return k
}
