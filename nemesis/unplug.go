package nemesis

// Unplugger takes a node's network cable out, with its address, and puts it back. The
// node goes on and hears nobody; its connections are there still, and what was sent
// over them comes late.
type Unplugger interface {
	Unplug(node string) (readBack string, err error)
	Plug(node string) (readBack string, err error)
}

var unplug = Kind{
	Name:    "unplug",
	Model:   "networks",
	Doc:     "takes a node's network cable out, and puts it back after `for`",
	Within:  "any: the network need not deliver, and the node keeps its keys",
	On:      []Target{Node},
	Proof:   usedNode,
	Undrawn: []string{""},
	Told: Told{Name: "network cable out", Began: "{targets} loses its network", Ended: "{targets} is on the network again",
		Was: "was off the network"},
	Act: by("unplug",
		func(c Unplugger, _ Fault, node string) (string, error) { return c.Unplug(node) },
		func(c Unplugger, _ Fault, node string) (string, error) { return c.Plug(node) }),
}
