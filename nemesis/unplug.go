package nemesis

// Unplugger unplugs a node's network cable, so that the node loses its address, too, and plugs it
// back in. The node keeps running in the meantime. Its connections survive, and data sent over them
// arrives late.
type Unplugger interface {
	Unplug(node string) (readBack string, err error)
	Plug(node string) (readBack string, err error)
}

var unplugKind = Kind{
	Name:          "unplug",
	Model:         "networks",
	Doc:           "unplugs a node's network cable, and plugs it back in after `for`",
	AllowedFaults: "any: the network may lose messages, and the node keeps its keys",
	TargetTypes:   []Target{Node},
	Proof:         nodeUseProof,
	ExcludedModes: []string{""},
	Wording: Wording{Name: "unplugged network cable", BeginText: "{targets} loses its network connection", EndText: "{targets} is on the network again",
		PastPredicate: "was off the network"},
	Action: newAction("unplug",
		func(c Unplugger, _ Fault, node string) (string, error) { return c.Unplug(node) },
		func(c Unplugger, _ Fault, node string) (string, error) { return c.Plug(node) }),
}
