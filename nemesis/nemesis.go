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
//	random.go, drawing.go  random plans
//	kinds.go               the table, and what a kind says of itself
//	pause.go, cut.go …     one fault each, with the power that it takes
//	nemesis.go             plans, and what triggers a step
//
// Deliberately missing: time, goroutines and the history. The engine in package
// harness waits for triggers and records what happened.
package nemesis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
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

// World is what a plan is drawn for.
type World struct {
	Clients  []string      // that run through the safety phase
	Begin    time.Duration // when they have been started
	Nodes    []string
	Resource string
	Linked   func(client, node string) bool // whether they have a link
	Limit    time.Duration
	TTL      time.Duration
	Margin   time.Duration // what the lock allows clocks to differ by in a TTL
	Persists bool          // nodes keep what they are told on disk
	Durable  bool          // and sync each write before they answer
	Dice
}

// Dice give a number for a name, the same for the same seed.
type Dice func(names ...string) uint64

func (d Dice) chance(names ...string) float64 { return unit(d(names...)) }

func (d Dice) upto(n int, names ...string) int { return int(d.chance(names...) * float64(n)) }

func (d Dice) even(s Span, names ...string) time.Duration {
	return s.Min + time.Duration(d.chance(names...)*float64(s.Max-s.Min))
}

func (d Dice) logarithmic(s Span, names ...string) time.Duration { return s.Heavy(d(names...)) }

// middle is a span's geometric mean: as many orders of magnitude lie on either side.
func middle(s Span) time.Duration {
	return time.Duration(math.Sqrt(float64(s.Min)) * math.Sqrt(float64(s.Max)))
}

func (d Dice) magnitude(least, most float64, names ...string) float64 {
	return magnitude(least, most, d.chance(names...))
}

// shuffled is the same things in another order.
func (d Dice) shuffled(things []string, names ...string) []string {
	order := map[string]uint64{}
	for _, t := range things {
		order[t] = d(slices.Concat(names, []string{t})...)
	}
	return slices.SortedFunc(slices.Values(things), func(a, b string) int { return cmp.Compare(order[a], order[b]) })
}

// some are one of the things at least, and perhaps all.
func (d Dice) some(things []string, names ...string) []string {
	if len(things) == 0 {
		return nil
	}
	return d.shuffled(things, names...)[:1+d.upto(len(things), slices.Concat(names, []string{"many"})...)]
}

// Trigger sets a step off. Exactly one of the first four fields is set.
type Trigger struct {
	At      *time.Duration `json:"at,omitempty"`      // true time since the run began
	Event   *Event         `json:"event,omitempty"`   // seen in the history: soon after it, never exactly
	Point   *OnPoint       `json:"point,omitempty"`   // a client is at a point and waits: exact
	Message *OnMessage     `json:"message,omitempty"` // a message is on the wire and waits: exact
	// Before: what comes later sets nothing off, and the step need not have come. 0: it has to come.
	Before time.Duration `json:"before,omitempty"`
}

// Event is the nth time that something is seen of a client, and After a while later.
type Event struct {
	Client string        `json:"client"`
	Event  string        `json:"event"` // a key of Events
	Nth    int           `json:"nth,omitempty"`
	Every  bool          `json:"every,omitempty"`
	After  time.Duration `json:"after,omitempty"`
}

// OnPoint is the nth time that a client comes to a named point.
type OnPoint struct {
	Client string `json:"client"`
	Point  string `json:"point"`
	Nth    int    `json:"nth"`
}

// OnMessage is the nth request or reply of a kind on one link.
type OnMessage struct {
	Link    string `json:"link"`
	Message string `json:"message"` // set, extend, release or write
	Of      string `json:"of"`      // request or reply
	Nth     int    `json:"nth"`
}

// Directions of a message.
const (
	Request = "request"
	Reply   = "reply"
)

// MessageKinds are the commands that a message trigger can wait for.
var MessageKinds = []string{history.OpSet, history.OpExtend, history.OpRelease, history.OpWrite}

// events maps the name of what can be waited for to the fact it stands for.
var events = map[string]struct {
	op string
	t  history.Type
}{
	"acquiring":      {history.OpAcquire, history.Invoke},
	"acquired":       {history.OpAcquire, history.OK},
	"acquire-failed": {history.OpAcquire, history.Fail},
	"read":           {history.OpRead, history.OK},
	"writing":        {history.OpWrite, history.Invoke},
	"wrote":          {history.OpWrite, history.OK},
	"write-refused":  {history.OpWrite, history.Fail},
	"extended":       {history.OpExtend, history.OK},
	"releasing":      {history.OpRelease, history.Invoke},
	"released":       {history.OpRelease, history.OK},
	"paused":         {"pause", history.Begin},
	"resumed":        {"pause", history.End},
	"killed":         {"kill", history.Begin},
}

// EventNames lists what an Event can wait for.
func EventNames() []string { return slices.Sorted(maps.Keys(events)) }

// Matches says whether a fact is an occurrence of the event, whatever its number.
func (e Event) Matches(f history.Event) bool {
	want, ok := events[e.Event]
	if !ok || f.Op != want.op || f.Type != want.t {
		return false
	}
	if f.Process == history.Nemesis {
		return f.Node == e.Client
	}
	return f.Process == e.Client
}

func (e Event) String() string {
	s := fmt.Sprintf("%s %s", e.Client, e.Event)
	switch {
	case e.Every:
		s = "every time " + s
	case e.Nth > 1:
		s += fmt.Sprintf(" (time %d)", e.Nth)
	}
	if e.After > 0 {
		s = fmt.Sprintf("%v after %s", e.After, s)
	}
	return s
}

// String is the trigger in words.
func (t Trigger) String() string {
	if t.Before > 0 {
		return fmt.Sprintf("%s, if before %v", t.what(), t.Before)
	}
	return t.what()
}

func (t Trigger) what() string {
	switch {
	case t.At != nil:
		return "at " + t.At.String()
	case t.Event != nil:
		return t.Event.String()
	case t.Point != nil:
		return fmt.Sprintf("%s at point %s (time %d)", t.Point.Client, t.Point.Point, t.Point.Nth)
	case t.Message != nil:
		return fmt.Sprintf("%s %s %d on %s", strings.TrimSpace(t.Message.Message), t.Message.Of, t.Message.Nth, t.Message.Link)
	}
	return "never"
}
