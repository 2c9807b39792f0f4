package nemesis

// Killer ends a process without warning, as SIGKILL does.
type Killer interface {
	Kill(target string) (readBack string, err error)
}

// Restarter restarts a node that is down, with the data on its disk. It reads back which process
// now answers and how many keys that process has.
type Restarter interface {
	Restart(node string) (readBack string, err error)
}

var killKind = Kind{
	Name:          "kill",
	Model:         "crashes",
	Doc:           "kills a client for good, or a node, which is restarted after `for` with the data on its disk",
	AllowedFaults: "any kill of a client; a node that does not sync each write comes back only after all locks that it granted have expired",
	TargetTypes:   []Target{Client, Node},
	Proof:         nodeUseProof, // killing a client always matters, whatever the client did
	Fields:        []string{"timer"},
	FatalTarget:   Client,
	CheckTarget: func(f Fault, _ string, on Target) *Problem {
		return problemIf(on == Client && f.hasEnd(), "", "a killed client does not come back", "remove for and until; to stop it temporarily, use pause")
	},
	MayForget: func(w Environment) bool { return !w.SyncsWrites },
	Wording:   Wording{Name: "kill", BeginText: "{targets} is killed", EndText: "{targets} starts again", PastPredicate: "was killed", State: StateDown},
	Action:    newAction("kill", func(c Killer, _ Fault, target string) (string, error) { return c.Kill(target) }, nil).adjust(healByRestart),
}

// healByRestart makes Heal restart the target if the plan ends the fault.
func healByRestart(e *Effect, cluster any, f Fault, target string) {
	if r, ok := cluster.(Restarter); ok && f.hasEnd() {
		e.Heal = func() (string, error) { return r.Restart(target) }
	}
}
