package nemesis

// Killer ends a process without warning: SIGKILL, or what is like it.
type Killer interface {
	Kill(target string) (readBack string, err error)
}

// Restarter starts a killed node again, with what its disk kept, and reads back
// which process answers now and how many keys it has.
type Restarter interface {
	Restart(node string) (readBack string, err error)
}

var kill = Kind{
	Name: "kill",
	Doc:  "kills a client for good, or a node, which starts again after `for` with what its disk kept",
	On:   []Target{Client, Node},
	Inject: func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(Killer)
		if !ok {
			return Effect{}, missing("kill", cluster)
		}
		back, err := c.Kill(target)
		e := Effect{ReadBack: back}
		if r, ok := cluster.(Restarter); ok && (f.For != nil || f.Until != nil) {
			e.Heal = func() (string, error) { return r.Restart(target) }
		}
		return e, err
	},
}
