package nemesis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

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
