package nemesis

import "errors"

// ErrEnded is returned if a fault's target has finished and exited.
var ErrEnded = errors.New("it has ended")

// Pauser stops and resumes a client or node. While stopped, the target sends nothing, sees nothing
// and records nothing, but its clock runs on, as in a stop-the-world collection or after SIGSTOP.
// When a node resumes, it handles the requests that arrived in the meantime, even if their clients
// are no longer waiting.
//
// The error is ErrEnded if the target finished before the fault.
type Pauser interface {
	Pause(target string) (readBack string, err error)
	Resume(target string) (readBack string, err error)
}

var pauseKind = Kind{
	Name:          "pause",
	Model:         "pauses",
	Doc:           "stops a client or a node temporarily, like a garbage collection or a suspended machine",
	AllowedFaults: "any: a stopped node just doesn't answer, and a client checks its lease when it resumes",
	TargetTypes:   []Target{Client, Node}, MayOverlap: true,
	Proof:   clientAndNodeUseProof,
	Wording: Wording{Name: "pause", BeginText: "{targets} is paused", EndText: "{targets} resumes", PastPredicate: "was paused", State: StateStopped},
	Action: newAction("pause",
		func(c Pauser, _ Fault, target string) (string, error) { return c.Pause(target) },
		func(c Pauser, _ Fault, target string) (string, error) { return c.Resume(target) }),
}
