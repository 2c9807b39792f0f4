package nemesis

import "lockpick/harness/history"

// Forgetter makes a node forget all its keys.
type Forgetter interface {
	Forget(node string) (readBack string, err error)
}

var forget = Kind{
	Name:      "forget",
	Doc:       "empties a node, like FLUSHALL by an operator",
	On:        []Target{Node},
	Momentary: true,
	Costs:     history.CostsNothing,
	Told:      Told{Name: "emptied node", Began: "{targets} forgets everything", Was: "forgot everything{saw}"},
	Act:       by("forget", func(c Forgetter, _ Fault, node string) (string, error) { return c.Forget(node) }, nil),
}
