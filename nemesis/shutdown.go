package nemesis

// Shutdowner shuts a node down cleanly, as SHUTDOWN does: everything its persistence covers is on
// disk. A Restarter brings it back.
type Shutter interface {
	Shutdown(node string) (readBack string, err error)
}

var shutdown = Kind{
	Name:    "shutdown",
	Model:   "crashes",
	Doc:     "shuts a node down cleanly; it is restarted after `for`",
	Within:  "any, if nodes have persistence; otherwise like a kill",
	On:      []Target{Node},
	Proof:   usedNode,
	Takes:   []string{"timer"},
	Forgets: func(w World) bool { return !w.Persists },
	Told:    Told{Name: "shutdown", Began: "{targets} is shut down", Ended: "{targets} starts again", Was: "was shut down", State: Down},
	Act:     by("shutdown", func(c Shutter, _ Fault, node string) (string, error) { return c.Shutdown(node) }, nil).but(restarts),
}
