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
	Model:  "crashes",
	Doc:    "kills a client for good, or a node, which starts again after `for` with what its disk kept",
	Within: "any of a client; a node that does not sync each write comes back after all that it granted has lapsed",
	On:     []Target{Client, Node},
	Proof:  usedNode, // a client that is gone is missed, whatever it did
	Takes:  []string{"timer"},
	Fatal:  Client,
	Hit: func(f Fault, _ string, on Target) *Objection {
		return objection(on == Client && f.ends(), "", "a killed client does not come back", "leave for and until out; to stop it for a time use pause")
	},
	Forgets: func(w World) bool { return !w.Durable },
	Told:    Told{Name: "kill", Began: "{targets} is killed", Ended: "{targets} starts again", Was: "was killed", State: Down},
	Act:     by("kill", func(c Killer, _ Fault, target string) (string, error) { return c.Kill(target) }, nil).but(restarts),
}

// restarts lets what an act ends start again at the fault's end, where one is planned.
func restarts(e *Effect, cluster any, f Fault, target string) {
	if r, ok := cluster.(Restarter); ok && f.ends() {
		e.Heal = func() (string, error) { return r.Restart(target) }
	}
}
