// Package nemesis describes faults as data: what is done to which target, when, and for how long.
//
// A Plan is a list of Steps. A Step is a Trigger and a Fault. Kinds is the only table of faults.
// For each kind it states what the fault can hit and under what conditions, the capability that a
// cluster needs, how the fault is injected, read back and healed, and how reports describe it. Each
// kind has its own file. A cluster supports a kind if it implements the small interface declared in
// that file. So this package does not depend on any backend, and code that runs, checks or draws
// faults does not depend on a particular kind.
//
// The files, each of which uses only those listed below it:
//
//	random.go, drawing.go  random plans
//	kinds.go               the table of kinds, and the definition of a kind
//	pause.go, cut.go …     one kind each, with the interface that it needs
//	nemesis.go             plans, and what triggers a step
//
// Deliberately missing: time, goroutines and the history. The engine in package harness waits for
// triggers and records events.
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

// Plan lists the faults of one run.
type Plan []Step

type Step struct {
	When  Trigger `json:"when"`
	Fault Fault   `json:"fault"`
	// Drawn is set if the step is part of a random plan. Such a step need not be triggered, and its
	// fault need not affect anything. But if it is triggered, the fault must take effect.
	Drawn bool `json:"drawn,omitempty"`
}

// Fault describes a fault and its targets. The entries of Kinds list the fields that apply to each
// kind.
type Fault struct {
	Kind    string         `json:"kind"`
	Targets []string       `json:"targets,omitempty"` // clients, nodes or links ("c1-n3")
	Mode    string         `json:"mode,omitempty"`    // variant of the fault
	For     *time.Duration `json:"for,omitempty"`     // how long the fault lasts, or how long a node stays down
	Until   *Event         `json:"until,omitempty"`   // event that ends the fault; if For and Until are nil, the fault lasts until the run ends

	Way       string        `json:"way,omitempty"`       // direction on a link: Request, Reply, or "" for both
	By        time.Duration `json:"by,omitempty"`        // clock offset; if negative, the clock is set back
	Rate      float64       `json:"rate,omitempty"`      // clock rate; 1 is correct
	Delay     Span          `json:"delay,omitzero"`      // latency added to messages
	Share     float64       `json:"share,omitempty"`     // share of the messages; 0 means all
	Bandwidth int           `json:"bandwidth,omitempty"` // bytes per second
	Every     Span          `json:"every,omitzero"`      // interval between repetitions
	Lasts     Span          `json:"lasts,omitzero"`      // duration of each repetition; most are short, some long
	CPU       float64       `json:"cpu,omitempty"`       // share of one processor that a node may use
	Memory    int           `json:"memory,omitempty"`    // bytes that a node may use
	Timer     *Timer        `json:"timer,omitempty"`     // clock that measures For
}

// Span is a range of durations to draw from.
type Span struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// fieldNames returns the names of the non-zero fields as in a scenario file, except fields that
// apply to every kind.
func (f Fault) fieldNames() (names []string) {
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

// hasEnd reports whether the plan ends the fault.
func (f Fault) hasEnd() bool { return f.For != nil || f.Until != nil }

// Target is what a fault hits: one of these types.
type Target string

const (
	Client  Target = "client"
	Node    Target = "node"
	Link    Target = "link"
	Message Target = "message"
)

// LinkName returns the name of the link between a client and a node or resource.
func LinkName(client, node string) string { return client + "-" + node }

// SplitLink splits a link's name into the names that were passed to LinkName.
func SplitLink(link string) (client, node string, ok bool) { return strings.Cut(link, "-") }

// String returns the span in the format of scenario files.
func (s Span) String() string {
	if s.Min == s.Max {
		return s.Min.String()
	}
	return fmt.Sprintf("%v..%v", s.Min, s.Max)
}

// Bytes formats a number of bytes as in scenario files: "8MB".
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

// Timer is the clock that measures the restart delay of a killed node. It may be wrong.
type Timer struct {
	Rate float64       `json:"rate,omitempty"` // clock rate; 0 and 1 mean a correct clock
	Step time.Duration `json:"step,omitempty"` // jump forward during the delay
}

// TrueDuration returns how much true time passes until the timer has measured d.
func (t *Timer) TrueDuration(d time.Duration) time.Duration {
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

// DrawHeavyTailed draws a duration from the span. Each order of magnitude is equally likely, so
// most durations are short and some are long.
func (s Span) DrawHeavyTailed(word uint64) time.Duration {
	return time.Duration(logScale(float64(s.Min), float64(s.Max), unitInterval(word)))
}

func logScale(low, high, fraction float64) float64 { return low * math.Pow(high/low, fraction) }

// unitInterval maps a random word to [0, 1).
func unitInterval(word uint64) float64 { return float64(word>>11) / (1 << 53) }

// Environment describes the run for which a plan is drawn.
type Environment struct {
	Clients        []string      // clients that run throughout the safety phase
	Start          time.Duration // when the clients have started
	Nodes          []string
	Resource       string
	HasLink        func(client, node string) bool // reports whether there is a link between a client and a node
	TimeLimit      time.Duration
	TTL            time.Duration
	DriftMargin    time.Duration // clock drift per TTL that the lock tolerates
	HasPersistence bool          // nodes have persistence
	SyncsWrites    bool          // nodes sync each write before they reply
	RandomSource
}

// RandomSource returns a random number for a name: always the same number for the same seed and
// name.
type RandomSource func(names ...string) uint64

func (d RandomSource) chance(names ...string) float64 { return unitInterval(d(names...)) }

func (d RandomSource) intn(n int, names ...string) int { return int(d.chance(names...) * float64(n)) }

func (d RandomSource) uniform(s Span, names ...string) time.Duration {
	return s.Min + time.Duration(d.chance(names...)*float64(s.Max-s.Min))
}

func (d RandomSource) logUniform(s Span, names ...string) time.Duration {
	return s.DrawHeavyTailed(d(names...))
}

func geometricMean(s Span) time.Duration {
	return time.Duration(math.Sqrt(float64(s.Min)) * math.Sqrt(float64(s.Max)))
}

func (d RandomSource) logUniformFloat(low, high float64, names ...string) float64 {
	return logScale(low, high, d.chance(names...))
}

func (d RandomSource) shuffle(items []string, names ...string) []string {
	order := map[string]uint64{}
	for _, t := range items {
		order[t] = d(slices.Concat(names, []string{t})...)
	}
	return slices.SortedFunc(slices.Values(items), func(a, b string) int { return cmp.Compare(order[a], order[b]) })
}

// sample returns at least one of the items, perhaps all, in random order.
func (d RandomSource) sample(items []string, names ...string) []string {
	if len(items) == 0 {
		return nil
	}
	return d.shuffle(items, names...)[:1+d.intn(len(items), slices.Concat(names, []string{"many"})...)]
}

// Trigger specifies when a step happens. Exactly one of the first four fields is set.
type Trigger struct {
	At      *time.Duration `json:"at,omitempty"`      // true time since the run began
	Event   *Event         `json:"event,omitempty"`   // an event in the history; the step happens shortly afterwards
	Point   *OnPoint       `json:"point,omitempty"`   // a point in a client's program; the client waits there for the step
	Message *OnMessage     `json:"message,omitempty"` // a message on a link; the message is held until the step has happened
	// Before is a deadline. A later event triggers nothing, and the step is optional. 0 means that
	// the step must be triggered.
	Before time.Duration `json:"before,omitempty"`
}

// Event is a client's event. The step happens after its nth occurrence and a delay of After.
type Event struct {
	Client string        `json:"client"`
	Event  string        `json:"event"` // one of EventNames
	Nth    int           `json:"nth,omitempty"`
	Every  bool          `json:"every,omitempty"`
	After  time.Duration `json:"after,omitempty"`
}

// OnPoint is the nth time that a client reaches a named point.
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

// MessageKinds lists the commands that a message trigger can wait for.
var MessageKinds = []string{history.OpSet, history.OpExtend, history.OpRelease, history.OpWrite}

// events maps the names of events to operations in the history.
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

// EventNames returns the valid names of events.
func EventNames() []string { return slices.Sorted(maps.Keys(events)) }

// Matches reports whether f, an event in the history, is an occurrence of e. It ignores Nth.
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

func (t Trigger) String() string {
	if t.Before > 0 {
		return fmt.Sprintf("%s, if before %v", t.describe(), t.Before)
	}
	return t.describe()
}

func (t Trigger) describe() string {
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
