package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// ClockChanger changes the clock of a client or node. The clock jumps by an offset and then runs at
// the given rate, where 1 is correct. The read-back compares the clock with true time. The error is
// ErrEnded if the target has ended. If the target reads only one clock, both its wall clock and its
// monotonic clock change, and the read-back says so.
type ClockChanger interface {
	TurnClock(target string, by time.Duration, rate float64) (readBack string, err error)
}

// clockAction returns an action that changes a clock's offset and rate as the fault specifies, and
// undoes both changes at the end. It ignores targets that have ended by then.
func clockAction(kind string, offsetAndRate func(Fault) (offset time.Duration, rate float64)) action {
	return newAction(kind, func(c ClockChanger, f Fault, target string) (string, error) {
		offset, rate := offsetAndRate(f)
		return c.TurnClock(target, offset, rate)
	}, func(c ClockChanger, f Fault, target string) (string, error) {
		offset, _ := offsetAndRate(f)
		back, err := c.TurnClock(target, -offset, 1)
		if errors.Is(err, ErrEnded) {
			return target + " has ended", nil
		}
		return back, err
	})
}

func jumpParams(f Fault) (time.Duration, float64) { return f.By, 1 }

// newClockKind fills in the fields that all clock faults share.
func newClockKind(name string, k Kind) Kind {
	k.TargetTypes, k.Proof, k.CapabilityName, k.Fields = []Target{Node, Client}, clockUseProof, ClockCapability, k.RequiredFields
	k.Wording = Wording{Name: name, Subject: "the clock of {targets}", BeginText: "the clock of {targets} goes wrong{saw}",
		EndText: "the clock of {targets} is corrected", PastPredicate: "was wrong{saw}"}
	return k
}

var clockJumpKind = newClockKind("clock jump", Kind{
	Name:           "clock-jump",
	Model:          "clocks",
	Doc:            "sets a clock forward, or back if `by` is negative; corrects it after `for`",
	AllowedFaults:  "a node's clock by up to a fifth of the margin, or by any amount before the first acquire; a client's clock by any amount, since its leases are measured by its monotonic clock",
	RequiredFields: []string{"by"},
	SetsClock:      true, IsInstant: true,
	Action: clockAction("clock-jump", jumpParams).adjust(endOnlyIfPlanned),
})

var clockRateKind = newClockKind("wrong clock rate", Kind{
	Name:           "clock-rate",
	Model:          "clocks",
	Doc:            "makes a clock run fast or slow, at `rate`, where 1 is correct; the offset gained by the end remains",
	AllowedFaults:  "up to a fifth of the drift that the lock allows for",
	RequiredFields: []string{"rate"},
	Action:         clockAction("clock-rate", func(f Fault) (time.Duration, float64) { return 0, f.Rate }),
})

// slewRate is how far the rate of a slewed clock is from 1: 500 ppm, the maximum of Linux's
// adjtime(3) and of NTP (RFC 5905, section 12).
const slewRate = 500e-6

var clockSlewKind = newClockKind("slewed clock", Kind{
	Name:           "clock-slew",
	Model:          "clocks",
	Doc:            "slews a clock as NTP does: it runs 500 ppm fast, or slow if `by` is negative, until it has moved by `by`",
	AllowedFaults:  "any, if 500 ppm is at most a fifth of the drift that the lock allows for",
	RequiredFields: []string{"by"},
	ClockRate:      func(f Fault) float64 { return slewedRate(f.By) },
	Action: clockAction("clock-slew", func(f Fault) (time.Duration, float64) { return 0, slewedRate(f.By) }).adjust(func(e *Effect, _ any, f Fault, _ string) {
		e.EndsAfter = time.Duration(float64(f.By.Abs()) / slewRate)
	}),
})

var clockStrobeKind = newClockKind("clock that jumps back and forth", Kind{
	Name:           "clock-strobe",
	Model:          "clocks",
	Doc:            "sets a clock forward and back again, repeatedly",
	AllowedFaults:  "a node's clock by up to a fifth of the margin; a client's clock by any amount",
	RequiredFields: []string{"by", "every"},
	SetsClock:      true, IsRepeated: true,
	Action: clockAction("clock-strobe", jumpParams),
})

// slewedRate returns a clock's rate while the clock is slewed by an offset. Only the sign of the
// offset matters.
func slewedRate(offset time.Duration) float64 {
	if offset < 0 {
		return 1 - slewRate
	}
	return 1 + slewRate
}

// DescribeClock formats a clock's offset and new rate for a read-back, as in "2s ahead, rate 1.1".
func DescribeClock(offset time.Duration, rate float64) string {
	text := "which is right"
	switch {
	case offset == 0 && rate != 1:
		text = "right until now"
	case offset > 0:
		text = fmt.Sprintf("%v ahead", offset)
	case offset < 0:
		text = fmt.Sprintf("%v behind", -offset)
	}
	return fmt.Sprintf("%s, rate %.6g", text, rate)
}
