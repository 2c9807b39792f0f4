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

	Lanes  []lane   `json:"lanes"` // from left to right
	Arrows []arrow  `json:"arrows"`
	Bars   []bar    `json:"bars"`
	Notes  []note   `json:"notes"`
	Bands  []band   `json:"bands"`
	Stop   *stopped `json:"stop,omitempty"`
}

// role says what sort of process a lane stands for.
type role string

const (
	client  role = "client"
	locks   role = "locks"
	storage role = "storage"
)

// lane is one process, or several lock nodes that behaved alike.
type lane struct {
	Name    string   `json:"name"` // short: "c1", "n1–n5", "r1"
	Role    role     `json:"role"`
	Members []string `json:"members"` // the processes it stands for
}

// title is a lane's name with its role, where the name doesn't say that.
func (l lane) title() string {
	if l.Role == locks && l.Name == "locks" {
		return l.Name
	}
	return string(l.Role) + " " + l.Name
}

// arrow is a message. Arrows with one Fact belong together: one request to many
// nodes, or their answers to it.
type arrow struct {
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
	dot   Mark = "●" // something took effect
	cross Mark = "✗" // something was refused, or somebody died
	ring  Mark = "○" // somebody began again
	stop  Mark = "┻" // a lease ended
	down  Mark = "▼" // a fault began
	up    Mark = "▲" // a fault ended
)

// state is what a bar says of its lane.
type state string

const (
	believes state = "believes" // the client believes that it holds the lock
	Paused   state = "paused"
	dead     state = "dead"
)

// bar is a state that lasts from From to before To.
type bar struct {
	Lane   int     `json:"lane"`
	State  state   `json:"state"`
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Events []int64 `json:"events"`
}

// note is a fact about one lane. Lane -1 is none in particular.
type note struct {
	Lane   int     `json:"lane"`
	At     int64   `json:"at"`
	Mark   Mark    `json:"mark"`
	Label  string  `json:"label"`
	Bad    bool    `json:"bad,omitempty"`
	Events []int64 `json:"events"`
}

// stopped says why the run was stopped early.
type stopped struct {
	Why    string  `json:"why"`
	Events []int64 `json:"events"`
}

// band is a span of time in which something was wrong.
type band struct {
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Label  string  `json:"label"`
	Events []int64 `json:"events"`
}
