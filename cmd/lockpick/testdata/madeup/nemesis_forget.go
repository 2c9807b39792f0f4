package nemesis

import "lockpick/harness/history"

// Forgetter makes a node forget all its keys.
type Forgetter interface {
	Forget(node string) (readBack string, err error)
}

var forget = Kind{
	Name:    "forget",
	Doc:     "empties a node, like FLUSHALL by an operator",
	On:      []Target{Node},
	Instant: true,
	Costs:   history.ImpactNone,
	Wording: Wording{Name: "emptied node", Began: "{targets} forgets everything", Past: "forgot everything{saw}"},
	Action:  newAction("forget", func(c Forgetter, _ Fault, node string) (string, error) { return c.Forget(node) }, nil),
}
