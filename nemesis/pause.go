package nemesis

import "errors"

// ErrEnded is the error of a fault whose target has done its work and ended.
var ErrEnded = errors.New("it has ended")

// Pauser stops a client or a node and lets it go on. While it is stopped it sends
// nothing, sees nothing and records nothing; its clock runs on, as in a
// stop-the-world collection or a SIGSTOP. What came for a node meanwhile it
// does when it goes on, whether anybody still waits for it or not.
//
// An error that is ErrEnded says that the target was too quick.
type Pauser interface {
	Pause(target string) (readBack string, err error)
	Resume(target string) (readBack string, err error)
}

var pause = Kind{
	Name:   "pause",
	Model:  "pauses",
	Doc:    "stops a client or a node for a time, as a garbage collection or a suspended machine does",
	Within: "any: a node that stops only fails to answer, and a client looks at its lease when it goes on",
	On:     []Target{Client, Node}, Nests: true,
	Proof: usedBoth,
	Told:  Told{Name: "pause", Began: "{targets} is paused", Ended: "{targets} resumes", Was: "was paused", State: Stopped},
	Act: by("pause",
		func(c Pauser, _ Fault, target string) (string, error) { return c.Pause(target) },
		func(c Pauser, _ Fault, target string) (string, error) { return c.Resume(target) }),
}
