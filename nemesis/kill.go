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
	Inject: restarts(by("kill", func(c Killer, _ Fault, target string) (string, error) { return c.Kill(target) }, nil)),
}

// restarts lets what an Inject ends start again at the fault's end, where one is planned.
func restarts(inject func(any, Fault, string) (Effect, error)) func(any, Fault, string) (Effect, error) {
	return func(cluster any, f Fault, target string) (Effect, error) {
		e, err := inject(cluster, f, target)
		if r, ok := cluster.(Restarter); ok && (f.For != nil || f.Until != nil) {
			e.Heal = func() (string, error) { return r.Restart(target) }
		}
		return e, err
	}
}
