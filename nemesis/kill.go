package nemesis

// Killer ends a process without warning, as SIGKILL does.
type Killer interface {
	Kill(target string) (readBack string, err error)
}

// Restarter restarts a node that is down, with the data on its disk, and reads back which process
// answers now and how many keys it has.
type Restarter interface {
	Restart(node string) (readBack string, err error)
}

var kill = Kind{
	Name:   "kill",
	Model:  "crashes",
	Doc:    "kills a client for good, or a node, which is restarted after `for` with the data on its disk",
	Within: "any kill of a client; a node that does not sync each write comes back only after all locks that it granted have expired",
	On:     []Target{Client, Node},
	Proof:  usedNode, // killing a client always matters, whatever it did
	Takes:  []string{"timer"},
	Fatal:  Client,
	Hit: func(f Fault, _ string, on Target) *Objection {
		return objection(on == Client && f.ends(), "", "a killed client does not come back", "remove for and until; to stop it temporarily, use pause")
	},
	Forgets: func(w World) bool { return !w.Durable },
	Told:    Told{Name: "kill", Began: "{targets} is killed", Ended: "{targets} starts again", Was: "was killed", State: Down},
	Act:     by("kill", func(c Killer, _ Fault, target string) (string, error) { return c.Kill(target) }, nil).but(restarts),
}

// healByRestart makes Heal restart the target, if the plan ends the fault.
func restarts(e *Effect, cluster any, f Fault, target string) {
	if r, ok := cluster.(Restarter); ok && f.ends() {
		e.Heal = func() (string, error) { return r.Restart(target) }
	}
}
