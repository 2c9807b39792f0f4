package nemesis

// Starver limits a node's resources: a share of one processor, bytes of memory, or both. Zero means
// unlimited.
type Starver interface {
	Starve(node string, cpu float64, memory int) (readBack string, err error)
	// ClearLimits removes the limits and reads back what effect they had. If the node never needed
	// more CPU than it got, the error is ErrIdle.
	ClearLimits(node string) (readBack string, err error)
}

var starveKind = Kind{
	Name:          "starve",
	Model:         "loads",
	Doc:           "limits a node to a share of one processor (`cpu`), an amount of memory (`memory`), or both",
	AllowedFaults: "memory limits for a minority, since a node that exceeds its limit is killed; any CPU limit, since the node just doesn't answer",
	TargetTypes:   []Target{Node},
	ExcludedModes: []string{""},
	Fields:        []string{"cpu", "memory"},
	CheckFault: func(f Fault) *Problem {
		return problemIf(f.CPU == 0 && f.Memory == 0, "", "the starve fault needs cpu or memory", "add cpu: 0.02, memory: 8MB, or both")
	},
	Wording: Wording{Name: "starved node", BeginText: "{targets} is starved of resources{saw}", EndText: "{targets} is no longer starved", PastPredicate: "was starved of resources{saw}"},
	Action: newAction("starve",
		func(c Starver, f Fault, node string) (string, error) { return c.Starve(node, f.CPU, f.Memory) },
		func(c Starver, _ Fault, node string) (string, error) { return c.ClearLimits(node) }),
}
