package nemesis

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

// What is done to a single message.
const (
	Hold = "hold"
	Drop = "drop"
)

// matched is all that is to be seen of what is done to a message: the tap that the trigger
// set holds it already, and ending the fault lets it pass.
func matched(_ any, _ Fault, target string) (Effect, error) {
	return Effect{ReadBack: "the message was matched on " + target}, nil
}

var hold = Kind{
	Name:   Hold,
	Doc:    "keeps the message that triggered it, while newer connections pass; needs a message trigger",
	Within: "any: the network need not deliver in time",
	On:     []Target{Message},
	Inject: matched,
}

var drop = Kind{
	Name:   Drop,
	Doc:    "loses the message that triggered it, and resets its connection; needs a message trigger",
	Within: "any: the network need not deliver",
	On:     []Target{Message},
	Inject: matched,
}
