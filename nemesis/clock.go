package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// Clocker turns the clock of a client or node: it jumps by `by`, and from then on
// runs at rate, where 1 is right. It reads back what the clock shows against true
// time. That the target has ended is ErrEnded. A target's clock is wall clock and monotonic clock alike only where the
// target reads no other; what it turns, a backend says in what it reads back.
type Clocker interface {
	TurnClock(target string, by time.Duration, rate float64) (readBack string, err error)
}

// turns is an act that turns a clock by and to a rate, as a fault says, and turns it
// back at the end. The clock of one that has ended meanwhile is nobody's.
func turns(kind string, how func(Fault) (by time.Duration, rate float64)) act {
	return by(kind, func(c Clocker, f Fault, target string) (string, error) {
		by, rate := how(f)
		return c.TurnClock(target, by, rate)
	}, func(c Clocker, f Fault, target string) (string, error) {
		by, _ := how(f)
		back, err := c.TurnClock(target, -by, 1)
		if errors.Is(err, ErrEnded) {
			return target + " has ended", nil
		}
		return back, err
	})
}

func jumped(f Fault) (time.Duration, float64) { return f.By, 1 }

// turning completes a kind that turns a clock.
func turning(told string, k Kind) Kind {
	k.On, k.Proof, k.Power, k.Takes = []Target{Node, Client}, usedWrong, PowerClock, k.Needs
	k.Told = Told{Name: told, Whom: "the clock of {targets}", Began: "the clock of {targets} goes wrong{saw}",
		Ended: "the clock of {targets} is put right", Was: "was wrong{saw}"}
	return k
}

var clockJump = turning("clock jump", Kind{
	Name:   "clock-jump",
	Model:  "clocks",
	Doc:    "sets a clock forward, or back where `by` is negative; after `for` it is set right again",
	Within: "of a node by a fifth of the margin, or by any time before the first lock is asked for; any of a client, whose lease is by its monotonic clock",
	Needs:  []string{"by"},
	Sets:   true, Momentary: true,
	Act: turns("clock-jump", jumped).but(lasting),
})

var clockRate = turning("clock that runs wrong", Kind{
	Name:   "clock-rate",
	Model:  "clocks",
	Doc:    "lets a clock run fast or slow: by `rate`, where 1 is right; what it has gained or lost by the end it keeps",
	Within: "a fifth of the drift that the lock allows for",
	Needs:  []string{"rate"},
	Act:    turns("clock-rate", func(f Fault) (time.Duration, float64) { return 0, f.Rate }),
})

// slewRate is how much faster or slower a clock runs while it is slewed: 500 ppm,
// the most that adjtime(3) of Linux and NTP allow themselves (RFC 5905, section 12).
const slewRate = 500e-6

var clockSlew = turning("slewed clock", Kind{
	Name:   "clock-slew",
	Model:  "clocks",
	Doc:    "corrects a clock as NTP does: it runs 500 ppm fast, or slow where `by` is negative, until it has made up `by`",
	Within: "any where 500 ppm are at most a fifth of the drift that the lock allows for",
	Needs:  []string{"by"},
	Rate:   func(f Fault) float64 { return slewed(f.By) },
	Act: turns("clock-slew", func(f Fault) (time.Duration, float64) { return 0, slewed(f.By) }).but(func(e *Effect, _ any, f Fault, _ string) {
		e.Over = time.Duration(float64(f.By.Abs()) / slewRate)
	}),
})

var clockStrobe = turning("clock that jumps to and fro", Kind{
	Name:   "clock-strobe",
	Model:  "clocks",
	Doc:    "sets a clock forward and back again, over and over, every so often",
	Within: "of a node by a fifth of the margin; any of a client",
	Needs:  []string{"by", "every"},
	Sets:   true, Again: true,
	Act: turns("clock-strobe", jumped),
})

// slewed is how fast a clock runs until it has made up by.
func slewed(by time.Duration) float64 {
	if by < 0 {
		return 1 - slewRate
	}
	return 1 + slewRate
}

// ClockWords tells by how much a clock is wrong that begins to run at a rate, as a
// read-back does: "2s ahead, rate 1.1".
func ClockWords(off time.Duration, rate float64) string {
	words := "which is right"
	switch {
	case off == 0 && rate != 1:
		words = "right until now"
	case off > 0:
		words = fmt.Sprintf("%v ahead", off)
	case off < 0:
		words = fmt.Sprintf("%v behind", -off)
	}
	return fmt.Sprintf("%s, rate %.6g", words, rate)
}
