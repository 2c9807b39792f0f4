package nemesis

// Shutdowner shuts a node down cleanly, as SHUTDOWN does. If the node has persistence, all of its
// data is then on disk. A Restarter brings the node back.
type Shutdowner interface {
	Shutdown(node string) (readBack string, err error)
}

var shutdown = Kind{
	Name:      "shutdown",
	Model:     "crashes",
	Doc:       "shuts a node down cleanly; it is restarted after `for`",
	Allowed:   "any, if nodes have persistence; otherwise like a kill",
	On:        []Target{Node},
	Proof:     usedNode,
	Fields:    []string{"timer"},
	MayForget: func(w Environment) bool { return !w.Persists },
	Wording:   Wording{Name: "shutdown", Began: "{targets} is shut down", Ended: "{targets} starts again", Past: "was shut down", State: Down},
	Action:    newAction("shutdown", func(c Shutdowner, _ Fault, node string) (string, error) { return c.Shutdown(node) }, nil).adjust(healByRestart),
}
