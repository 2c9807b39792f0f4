package disk

import "lockpick/nemesis"

// What a plan needs of a node's disk.
var (
	LosesPower = nemesis.Capability("power-loss", nemesis.Node)
	HitsDisks  = nemesis.Capability(nemesis.PowerDisk, nemesis.Node)
)
