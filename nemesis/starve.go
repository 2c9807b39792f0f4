package nemesis

// Starver leaves a node little of its machine: a share of one processor, bytes of
// memory, or both; zero means unlimited.
type Starver interface {
	Starve(node string, cpu float64, memory int) (readBack string, err error)
	// Feed ends that, and tells what it met. If it never wanted more of a processor
	// than it got, the error is ErrIdle.
	Feed(node string) (readBack string, err error)
}

var starve = Kind{
	Name:    "starve",
	Model:   "loads",
	Doc:     "leaves a node a share of one processor (`cpu`), so many bytes of memory (`memory`), or both",
	Within:  "any of a minority, for a node that needs more memory than it gets ends; of its processor any, for it only fails to answer",
	On:      []Target{Node},
	Undrawn: []string{""},
	Takes:   []string{"cpu", "memory"},
	Fits: func(f Fault) *Objection {
		return objection(f.CPU == 0 && f.Memory == 0, "", "the fault starve needs cpu or memory", "add cpu: 0.02, memory: 8MB, or both")
	},
	Told: Told{Name: "starved node", Began: "{targets} is starved{saw}", Ended: "{targets} is fed again", Was: "was starved{saw}"},
	Act: by("starve",
		func(c Starver, f Fault, node string) (string, error) { return c.Starve(node, f.CPU, f.Memory) },
		func(c Starver, _ Fault, node string) (string, error) { return c.Feed(node) }),
}
