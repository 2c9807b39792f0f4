package nemesis

import (
	"fmt"
	"slices"
)

// Held is a message that a tap keeps. One of the two is called, once.
type Held struct {
	Pass func() // delivers it, even if the client has closed the connection meanwhile
	Lose func() // drops it, and its connection is reset
}

// Tapper watches a link for one message, before the clients start. When the
// message comes by it is kept, and hit is called; what follows on the same
// connection waits behind it, other connections don't.
type Tapper interface {
	Tap(m OnMessage, hit func(Held)) error
}

// Check says what is wrong with a message that a tap is to keep; nil: nothing.
func (m OnMessage) Check() error {
	switch {
	case m.Of != Request && m.Of != Reply:
		return fmt.Errorf("%q is neither %s nor %s", m.Of, Request, Reply)
	case !slices.Contains(MessageKinds, m.Message):
		return fmt.Errorf("unknown message %q; known are %v", m.Message, MessageKinds)
	case m.Nth < 1:
		return fmt.Errorf("messages are counted from 1, not %d", m.Nth)
	}
	return nil
}

// What is done to a single message.
const (
	Hold = "hold"
	Drop = "drop"
)

// matched is all that is to be seen of what is done to a message: the tap that the trigger
// set holds it already, and ending the fault lets it pass.
var matched = by("watch messages", func(_ Tapper, _ Fault, link string) (string, error) { return "the message was matched on " + link, nil }, nil)

var hold = Kind{
	Name:   Hold,
	Model:  "networks",
	Doc:    "keeps the message that triggered it, while newer connections pass; needs a message trigger",
	Within: "any: the network need not deliver in time",
	On:     []Target{Message}, Keeps: true,
	Told: Told{Name: "held message", Whom: "{message}", Began: "the network holds {message}", Ended: "the network delivers {message}",
		Was: "was held by the network"},
	Act: matched,
}

var drop = Kind{
	Name:   Drop,
	Model:  "networks",
	Doc:    "loses the message that triggered it, and resets its connection; needs a message trigger",
	Within: "any: the network need not deliver",
	On:     []Target{Message}, Loses: true, Momentary: true,
	Told: Told{Name: "lost message", Whom: "{message}", Began: "the network loses {message}", Was: "was lost by the network"},
	Act:  matched,
}
