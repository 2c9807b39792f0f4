package nemesis

import "lockpick/harness/history"

// Forgetter makes a node forget all its keys.
type Forgetter interface {
	Forget(node string) (readBack string, err error)
}

var forgetKind = Kind{
	Name:        "forget",
	Doc:         "empties a node, like FLUSHALL by an operator",
	TargetTypes: []Target{Node},
	IsInstant:   true,
	Impact:      history.ImpactNone,
	Wording:     Wording{Name: "emptied node", BeginText: "{targets} forgets everything", PastPredicate: "forgot everything{saw}"},
	Action:      newAction("forget", func(c Forgetter, _ Fault, node string) (string, error) { return c.Forget(node) }, nil),
}
