package nemesis

// Killer ends a process without warning: SIGKILL, or what is like it.
type Killer interface {
	Kill(target string) (readBack string, err error)
}

// Restarter starts a node again that is down, with what its disk kept, and reads
// back which process answers now and how many keys it has.
type Restarter interface {
	Restart(node string) (readBack string, err error)
}

var kill = Kind{
	Name:   "kill",
	Doc:    "kills a client for good, or a node, which starts again after `for` with what its disk kept",
	Within: "any of a client; a node that does not sync each write comes back after all that it granted has lapsed",
	On:     []Target{Client, Node},
	Proof:  usedNode, // a client that is gone is missed, whatever it did
	Takes:  []string{"timer"},
	Inject: func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(Killer)
		if !ok {
			return Effect{}, missing("kill", cluster)
		}
		back, err := c.Kill(target)
		return Effect{ReadBack: back, Heal: restart(cluster, f, target)}, err
	},
}

// restart is the way back of what is down, or nil where none is planned.
func restart(cluster any, f Fault, node string) func() (string, error) {
	r, ok := cluster.(Restarter)
	if !ok || f.For == nil && f.Until == nil {
		return nil
	}
	return func() (string, error) { return r.Restart(node) }
}
