package outcome

// Confirmation is what came of running a violation's seed again with the facts that are
// its cause undone: a node keeps the key that it had lost. A cause never depends on it.
type Confirmation struct {
	State Certainty `json:"state"`
	Why   string    `json:"why"` // in words
	// Alone are the nodes of which a single one, had it kept its key, would have prevented the overlap.
	Alone []string `json:"alone,omitempty"`
	Runs  int      `json:"runs"`
}

// Certainty is how far the facts were shown to be the cause.
type Certainty string

// Certainties.
const (
	Confirmed     Certainty = "confirmed"         // each node refuses the second's same vote because of the first's key, and the two never overlap
	PutOff        Certainty = "put-off"           // likewise, but they overlap later, through another loss
	Jointly       Certainty = "jointly-necessary" // confirmed or put off, but no single node's loss would have prevented it
	Refuted       Certainty = "refuted"           // the two overlap all the same, or a node grants it all the same
	NotApplicable Certainty = "not-applicable"    // no key ended before its time
	FactsSuffice  Certainty = "facts-suffice"     // this backend can't run it again; what the nodes told stands
)
