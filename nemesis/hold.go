package nemesis

// Tapper watches a link for one message, before the clients start. When the
// message comes by it is kept, and hit is called with what lets it pass; what
// follows on the same connection waits behind it, other connections don't. The
// message is delivered even if the client has closed the connection meanwhile.
type Tapper interface {
	Tap(m OnMessage, hit func(pass func())) error
}

var hold = Kind{
	Name: "hold",
	Doc:  "keeps the message that triggered it, while newer connections pass; needs a message trigger",
	On:   []Target{Message},
	// The tap that the trigger set holds the message already; ending the fault lets it pass.
	Inject: func(_ any, _ Fault, target string) (Effect, error) {
		return Effect{ReadBack: "the message was matched on " + target}, nil
	},
}
