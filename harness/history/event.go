package history

// Type says how an event stands to the operation or fault that it belongs to.
type Type string

const (
	Invoke Type = "invoke" // a process is about to start an operation
	OK     Type = "ok"     // the operation ended, and it took effect
	Fail   Type = "fail"   // the operation ended, and it definitely took no effect
	Info   Type = "info"   // the outcome is unknown, or a remark
	Begin  Type = "begin"  // a fault is in force, and was seen to be; a client or the run started
	End    Type = "end"    // the fault is healed; the client or the run ended
)

// Operations of a client (process c1, c2, …).
const (
	OpClient  = "client"  // begin and end of the client itself
	OpAcquire = "acquire" // ok carries session, token, fence, validUntil
	OpExtend  = "extend"  // Value: what the client did instead: an acquire of what it holds, one of several releases, or a check after the deadline, to which the lock said that it is held
	OpRead    = "read"    // first step of a critical section; ok carries version
	OpCheck   = "check"   // the client's own look at its deadline before it writes
	OpWrite   = "write"   // ok: applied; fail: refused; info: no answer
	OpRelease = "release" // ok: a quorum said yes; fail: definitely not held; info: anything else
	OpLost    = "lost"    // info: the lock told the client, unasked, that it has lost the session's hold
)

// Operations on the wire (process is the link, "c1-n3"; node is its node), one
// event for each command, recorded when its last stamp is known. Release and
// extend are the same words as for a client.
const (
	OpSet   = "set"   // set if free, with an expiry
	OpFence = "fence" // write a fencing counter back
)

// Operations of the harness.
const (
	OpRun  = "run"  // the first event, with Params; and the last one
	OpLog  = "log"  // one entry of the resource's own log, read back after the run
	OpStop = "stop" // the run is stopped here, for its Cause; what follows is its taking down
	// OpClock says that the clock of a client or a lock node (node) was turned: from T on it shows
	// Local and runs Drift fast. T is the instant of the turn, or of a client's what a holder
	// believes less by: before a turn forward, after one back.
	OpClock = "clock"
	// OpLack is a command (Value) of Redis's that a client asked a node for, which the
	// simulation doesn't know.
	OpLack = "lack"
	OpLife = "life" // Life of a key on a node, which is the Process; type info
)

// OpStall is the one kind of fault that no plan has: the Machine that the harness is on did
// nothing from begin to end, nor did any process there.
const (
	OpStall = "stall"
	Machine = "machine"
)

// Unplanned is the Step of a fault that hit one process of the run from outside and that no
// plan has: it was killed or stopped, or went on in the midst of a planned pause (OpGoOn).
// Its begin is of when that was seen. When a stopped process goes on again is not recorded.
const (
	Unplanned = -1
	OpGoOn    = "go-on"
)

// Processes that are no clients.
const (
	Harness = "harness"
	Nemesis = "nemesis"
)

// Event is one fact. Every instant is true time in nanoseconds since the run
// began, unless its name says otherwise; 0 in a stamp other than T is unknown.
type Event struct {
	N       int64  `json:"n"`       // number, from 1, in the order of arrival
	T       int64  `json:"t"`       // when it happened; for a wire command, its last known stamp
	Process string `json:"process"` // client, link, resource, nemesis or harness
	Type    Type   `json:"type"`
	Op      string `json:"op"` // one of the constants above; for the nemesis the kind of fault

	Key        string `json:"key,omitempty"`        // the lock's name
	Session    string `json:"session,omitempty"`    // one acquire call and all that is done with its handle: "c1/3"
	Token      string `json:"token,omitempty"`      // the lock's random value
	Fence      int64  `json:"fence,omitempty"`      // fencing token; 0 is none
	ValidUntil int64  `json:"validUntil,omitempty"` // the instant at which the client stops believing, as true time, if its clock runs on as it should; see CameTrue
	Local      int64  `json:"local,omitempty"`      // the process's own clock at T, nanoseconds since 1970
	Wall       bool   `json:"wall,omitempty"`       // which is its wall clock, and so is its deadline's; else its monotonic clock
	Drift      int64  `json:"drift,omitempty"`      // of a clock: how much faster than true time it runs, parts in 10⁹
	Node       string `json:"node,omitempty"`       // the node of a wire command; the target of a fault
	Value      string `json:"value,omitempty"`      // unique value of a write; see also OpExtend
	Version    int64  `json:"version,omitempty"`    // version read, or the version that a write is based on
	TTL        int64  `json:"ttl,omitempty"`        // expiry that a wire set or extend asked for, nanoseconds of the node's clock
	Sent       int64  `json:"sent,omitempty"`       // wire: the request entered the link
	Applied    int64  `json:"applied,omitempty"`    // wire: the node had answered; log: the resource had applied or refused it
	Answered   int64  `json:"answered,omitempty"`   // wire: the answer left the link for the client; 0: the client never saw it
	Step       int    `json:"step,omitempty"`       // the planned step a fault belongs to, from 1; Unplanned; 0: unknown
	Cause      string `json:"cause,omitempty"`      // why it failed; what was read back; what the node answered

	Life   *Life   `json:"life,omitempty"`   // of OpLife, and of it only
	Params *Params `json:"params,omitempty"` // in the first event only
}

// Seconds returns an instant or a span in seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }
