package nemesis

// Shutdowner shuts a node down cleanly, as SHUTDOWN does. If the node has persistence, all of its
// data is then on disk. A Restarter brings the node back.
type Shutdowner interface {
	Shutdown(node string) (readBack string, err error)
}

var shutdownKind = Kind{
	Name:          "shutdown",
	Model:         "crashes",
	Doc:           "shuts a node down cleanly; it is restarted after `for`",
	AllowedFaults: "any, if nodes have persistence; otherwise like a kill",
	TargetTypes:   []Target{Node},
	Proof:         nodeUseProof,
	Fields:        []string{"timer"},
	MayForget:     func(w Environment) bool { return !w.HasPersistence },
	Wording:       Wording{Name: "shutdown", BeginText: "{targets} is shut down", EndText: "{targets} starts again", PastPredicate: "was shut down", State: StateDown},
	Action:        newAction("shutdown", func(c Shutdowner, _ Fault, node string) (string, error) { return c.Shutdown(node) }, nil).adjust(healByRestart),
}
