package nemesis

import (
	"fmt"
	"slices"
)

// HeldMessage is a message held by a tap. Exactly one of its functions must be called, once.
type HeldMessage struct {
	Pass func() // delivers the message, even if the client has closed the connection in the meantime
	Lose func() // drops the message and resets its connection
}

// Tapper watches a link for one message. It must be called before the clients start. When the
// message arrives, it is held, and hit is called. Later messages on the same connection wait behind
// it, but other connections are not affected.
type Tapper interface {
	Tap(m OnMessage, hit func(HeldMessage)) error
}

// Check returns an error if a tap can't wait for the message.
func (m OnMessage) Check() error {
	switch {
	case m.Of != Request && m.Of != Reply:
		return fmt.Errorf("%q is neither %s nor %s", m.Of, Request, Reply)
	case !slices.Contains(MessageKinds, m.Message):
		return fmt.Errorf("unknown message %q: want one of %v", m.Message, MessageKinds)
	case m.Nth < 1:
		return fmt.Errorf("messages are counted from 1, not %d", m.Nth)
	}
	return nil
}

// Names of the faults that affect a single message.
const (
	Hold = "hold"
	Drop = "drop"
)

// tapAction does nothing but read back that the message was matched. The trigger's tap already
// holds the message, and ending the fault releases it.
var tapAction = newAction("watch messages", func(_ Tapper, _ Fault, link string) (string, error) { return "the message was matched on " + link, nil }, nil)

var holdKind = Kind{
	Name:          Hold,
	Model:         "networks",
	Doc:           "holds the message that triggered it; later connections are not affected; needs a message trigger",
	AllowedFaults: "any: the network may delay messages",
	TargetTypes:   []Target{Message}, HoldsMessage: true,
	Wording: Wording{Name: "held message", Subject: "{message}", BeginText: "the network holds {message}", EndText: "the network delivers {message}",
		PastPredicate: "was held by the network"},
	Action: tapAction,
}

var dropKind = Kind{
	Name:          Drop,
	Model:         "networks",
	Doc:           "loses the message that triggered it and resets its connection; needs a message trigger",
	AllowedFaults: "any: the network may lose messages",
	TargetTypes:   []Target{Message}, LosesMessage: true, IsInstant: true,
	Wording: Wording{Name: "lost message", Subject: "{message}", BeginText: "the network loses {message}", PastPredicate: "was lost by the network"},
	Action:  tapAction,
}
