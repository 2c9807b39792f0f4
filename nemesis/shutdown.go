package nemesis

// Shutter ends a node in good order, as SHUTDOWN does: what its persistence keeps is
// on disk. A Restarter brings it back.
type Shutter interface {
	Shutdown(node string) (readBack string, err error)
}

var shutdown = Kind{
	Name:    "shutdown",
	Model:   "crashes",
	Doc:     "ends a node in good order; it starts again after `for`",
	Within:  "any where nodes persist; otherwise as a kill",
	On:      []Target{Node},
	Proof:   usedNode,
	Takes:   []string{"timer"},
	Forgets: func(w World) bool { return !w.Persists },
	Told:    Told{Name: "shutdown", Began: "{targets} is shut down", Ended: "{targets} starts again", Was: "was shut down", State: Down},
	Act:     by("shutdown", func(c Shutter, _ Fault, node string) (string, error) { return c.Shutdown(node) }, nil).but(restarts),
}
