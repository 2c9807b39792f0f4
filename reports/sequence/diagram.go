package sequence

// Diagram is what a sequence diagram shows, before anybody draws it. It is plain
// data: renderers decide about columns, pixels and colours, and escape texts,
// which may hold whatever a history holds. Instants are true time in
// nanoseconds since the run began. Every part names the events that it stands
// for.
type Diagram struct {
	Title   string   `json:"title"`   // one line: what was run, and what came of it
	Summary string   `json:"summary"` // the violation in one sentence, cause and harm, without its full stop; "": none is shown
	Caption []string `json:"caption"` // the story in sentences, in order
	Omitted string   `json:"omitted,omitempty"`

	Lanes  []Lane   `json:"lanes"` // from left to right
	Arrows []Arrow  `json:"arrows"`
	Bars   []Bar    `json:"bars"`
	Notes  []Note   `json:"notes"`
	Bands  []Band   `json:"bands"`
	Stop   *Stopped `json:"stop,omitempty"`
}

// Role says what sort of process a lane stands for.
type Role string

const (
	Client  Role = "client"
	Locks   Role = "locks"
	Storage Role = "storage"
)

// Lane is one process, or several lock nodes that behaved alike.
type Lane struct {
	Name    string   `json:"name"` // short: "c1", "n1–n5", "r1"
	Role    Role     `json:"role"`
	Members []string `json:"members"` // the processes it stands for
}

// title is a lane's name with its role, where the name doesn't say that.
func (l Lane) title() string {
	if l.Role == Locks && l.Name == "locks" {
		return l.Name
	}
	return string(l.Role) + " " + l.Name
}

// Arrow is a message. Arrows with one Fact belong together: one request to many
// nodes, or their answers to it.
type Arrow struct {
	Fact    int     `json:"fact"` // from 1
	From    int     `json:"from"` // lane
	To      int     `json:"to"`   // lane
	Sent    int64   `json:"sent"`
	Arrived int64   `json:"arrived"`          // = Sent where Lost
	Answer  bool    `json:"answer,omitempty"` // it goes back: what counts is when it arrived
	Slow    bool    `json:"slow,omitempty"`   // it took so long that its ends are facts of their own
	Lost    bool    `json:"lost,omitempty"`   // it is not known to have arrived
	Mark    Mark    `json:"mark,omitempty"`   // what it led to where it arrived
	Label   string  `json:"label"`            // one or two words
	Detail  string  `json:"detail,omitempty"` // the same in full
	Bad     bool    `json:"bad,omitempty"`
	Events  []int64 `json:"events"`
}

// Mark is how a point on a lane looks.
type Mark string

const (
	Dot   Mark = "●" // something took effect
	Cross Mark = "✗" // something was refused, or somebody died
	Ring  Mark = "○" // somebody began again
	Stop  Mark = "┻" // a lease ended
	Down  Mark = "▼" // a fault began
	Up    Mark = "▲" // a fault ended
)

// State is what a bar says of its lane.
type State string

const (
	Believes State = "believes" // the client believes that it holds the lock
	Paused   State = "paused"
	Dead     State = "dead"
)

// Bar is a state that lasts from From to before To.
type Bar struct {
	Lane   int     `json:"lane"`
	State  State   `json:"state"`
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Events []int64 `json:"events"`
}

// Note is a fact about one lane. Lane -1 is none in particular.
type Note struct {
	Lane   int     `json:"lane"`
	At     int64   `json:"at"`
	Mark   Mark    `json:"mark"`
	Label  string  `json:"label"`
	Bad    bool    `json:"bad,omitempty"`
	Events []int64 `json:"events"`
}

// Stopped says why the run was stopped early.
type Stopped struct {
	Why    string  `json:"why"`
	Events []int64 `json:"events"`
}

// Band is a span of time in which something was wrong.
type Band struct {
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Label  string  `json:"label"`
	Events []int64 `json:"events"`
}
