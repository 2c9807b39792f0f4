// Package nemesis describes faults as data: what is done to whom, when, and for
// how long.
//
// A Plan is a list of Steps; a Step is a Trigger and a Fault. Kinds is the one
// table of faults: for each it says what it can hit and under what conditions, the
// capability that a cluster must have for it, how it is injected, read back and healed,
// and how people are told of it. One fault is one file. A cluster has a fault's power if
// it implements the small interface that the file declares, so that nothing here knows a
// backend, and whoever runs, checks or draws faults knows none of them by its name.
//
// The files, each of which uses only those below it:
//
//	random_draw.go, random_step.go, random_bounds.go, shapes.go, drawing.go, random.go
//	                    a plan that dice draw
//	kinds.go            the table
//	pause.go, cut.go …  a fault each, with the power that it takes
//	kind.go, power.go, world.go
//	                    what a kind says of itself, and of what it depends on
//	trigger.go          what sets a step off
//
// Deliberately missing: time, goroutines and the history. The engine in package
// harness waits for triggers and records what happened.
package nemesis

import (
	"fmt"
	"math"
	"reflect"
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

// given lists the fields that a fault has, by their names in a scenario file, besides
// those that any kind takes.
func (f Fault) given() (names []string) {
	all := reflect.ValueOf(f)
	for i := range all.NumField() {
		name, _, _ := strings.Cut(all.Type().Field(i).Tag.Get("json"), ",")
		if !all.Field(i).IsZero() && !slices.Contains([]string{"kind", "targets", "mode", "for", "until"}, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ends says whether something is planned to end it.
func (f Fault) ends() bool { return f.For != nil || f.Until != nil }

// Target is a sort of thing that a fault can hit.
type Target string

const (
	Client  Target = "client"
	Node    Target = "node"
	Link    Target = "link"
	Message Target = "message"
)

// LinkName is the name of the link between a client and a node or resource.
func LinkName(client, node string) string { return client + "-" + node }

// SplitLink is the reverse of LinkName.
func SplitLink(link string) (client, node string, ok bool) { return strings.Cut(link, "-") }

// String is a span as a scenario file has it.
func (s Span) String() string {
	if s.Min == s.Max {
		return s.Min.String()
	}
	return fmt.Sprintf("%v..%v", s.Min, s.Max)
}

// Bytes is a number of bytes as a scenario file has it: "8MB".
func Bytes(n int) string {
	for _, u := range []struct {
		name string
		size int
	}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// Timer is the clock by which a killed node's way back is counted, and which may be wrong.
type Timer struct {
	Rate float64       `json:"rate,omitempty"` // how fast it runs; 0 and 1: right
	Step time.Duration `json:"step,omitempty"` // it is set forward by this meanwhile
}

// True is how long it takes until the timer has counted d.
func (t *Timer) True(d time.Duration) time.Duration {
	if t == nil {
		return d
	}
	if t.Rate > 0 {
		d = time.Duration(float64(d) / t.Rate)
	}
	return max(0, d-t.Step)
}

func (t *Timer) String() string {
	if t.Step == 0 {
		return fmt.Sprintf("at rate %g", t.Rate)
	}
	return fmt.Sprintf("set forward by %v", t.Step)
}

// Heavy draws from a span by a random word so that each order of magnitude comes equally
// often: most are short, and some are long.
func (s Span) Heavy(word uint64) time.Duration {
	return time.Duration(magnitude(float64(s.Min), float64(s.Max), unit(word)))
}

func magnitude(least, most, unit float64) float64 { return least * math.Pow(most/least, unit) }

// unit maps a word to [0, 1).
func unit(word uint64) float64 { return float64(word>>11) / (1 << 53) }
