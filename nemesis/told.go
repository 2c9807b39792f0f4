package nemesis

// Told is how people are told of a kind. In its sentences {targets} stands for what is
// hit, {client} for the client of links, {message} for the message that was hit, and {saw}
// for what was read back, in brackets.
type Told struct {
	Name  string // "late messages", as in a list of what was planned
	Whom  string // whom it befell: "the disk of {targets}"; "": {targets}
	Began string // "{targets} is paused"
	Ended string // "{targets} resumes"
	Was   string // after Whom: "was paused"
	Back  string // of what is replaced, and whose first comes back: how that is told
	State State  // what becomes of a client or a node for as long as it lasts
}

// State is what a fault makes of what it hits, as pictures show it.
type State string

const (
	Stopped State = "paused" // it does nothing, and goes on
	Down    State = "down"   // it has ended, and starts again if it is a node
)
