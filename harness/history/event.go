// Package history defines the record of a run: a flat sequence of Events, each stored as one line
// of JSON. It records facts and does not judge them.
//
// Its main types are Event (what happened, when, to which process), Params (general information
// about the run, stored in the first event) and History (a recorded run). A Recorder numbers events
// and writes each line immediately, so that nothing is lost if a run is interrupted. Read does not
// interpret events. It reports where a file is truncated, and rejects files that no recorder could
// have written.
//
// Deliberately missing: any notion of a lock, a backend or a verdict.
package history

import (
	"math"
)

// History is a recorded run.
type History struct {
	Params Params
	Events []Event // sorted by (T, N); the first is the run event

	// Truncation describes where the history is truncated or why the run was stopped early. It is
	// "" if the history is complete.
	Truncation string
}

// Type is the type of an event.
type Type string

const (
	Invoke Type = "invoke" // a process is about to start an operation
	OK     Type = "ok"     // the operation succeeded
	Fail   Type = "fail"   // the operation failed and definitely had no effect
	Info   Type = "info"   // the outcome is unknown, or the event is informational
	Begin  Type = "begin"  // a fault was seen to be active, or a client or the run started
	End    Type = "end"    // the fault is being healed, or the client or the run ended
)

// Operations of clients (processes c1, c2, …).
const (
	OpClient  = "client"  // the client itself starts or ends
	OpAcquire = "acquire" // ok carries session, token, fence, validUntil
	OpExtend  = "extend"  // Value: "", or how the client learned that it still holds the lock: acquire (by reacquiring it), release (of one of several acquisitions) or check (after the deadline)
	OpRead    = "read"    // first step of a critical section; ok carries version
	OpCheck   = "check"   // the client compares its clock with its deadline before writing
	OpWrite   = "write"   // ok: applied; fail: refused; info: no reply
	OpRelease = "release" // ok: a quorum agreed; fail: definitely not held; info: anything else
	OpLost    = "lost"    // info: the lock notified the client that the session no longer holds the lock
)

// Operations on a link. The event's Process is the link ("c1-n3"), and its Node is the link's node.
// There is one event per command, recorded when its last stamp is known. Releases and extensions
// have the same names as for a client.
const (
	OpSet   = "set"   // set if absent, with an expiry time
	OpFence = "fence" // increment and store the fencing counter
)

// Operations of the harness.
const (
	OpRun  = "run"  // the first event (with Params) and the last event
	OpLog  = "log"  // an entry of the resource's log, which is read after the run
	OpStop = "stop" // the run is stopped for the reason given in Cause; later events belong to its teardown
	// OpClock records a change to the clock of a client or a lock node (Node). At T the clock is
	// set to Local, and from then on it runs faster than true time by Drift. The time at which a
	// client's clock changes is not known exactly, so T is chosen to make deadlines earlier: just
	// before the clock is set forward, or just after it is set back.
	OpClock = "clock"
	// OpUnsupported records that a client sent a node a Redis command (Value) that the simulation
	// does not implement.
	OpUnsupported = "lack"
	OpLife        = "life" // a change to a key (Life), reported by the node (Process); type info
)

// OpStall is a kind of fault that is never planned: the machine that runs the harness (Machine)
// stalled from begin to end, with all its processes.
const (
	OpStall = "stall"
	Machine = "machine"
)

// UnplannedStep is the Step of an unplanned fault: something outside the harness killed or stopped
// one of the run's processes, or resumed it during a planned pause (OpContinue). Begin is recorded
// when the fault is detected. The resumption of a process stopped from outside is not recorded.
const (
	UnplannedStep = -1
	OpContinue    = "go-on"
)

// Processes other than clients.
const (
	Harness = "harness"
	Nemesis = "nemesis"
)

// Event is one recorded fact. Times are true times in nanoseconds since the run began, unless the
// field's description says otherwise. Stamps other than T are 0 if they are unknown.
type Event struct {
	N       int64  `json:"n"`       // event number, from 1, in recording order
	T       int64  `json:"t"`       // when it happened; for a command on a link, its last known stamp
	Process string `json:"process"` // client, link, resource, nemesis or harness
	Type    Type   `json:"type"`
	Op      string `json:"op"` // one of the constants above; for the nemesis, the kind of fault

	Key        string `json:"key,omitempty"`        // the lock's name
	Session    string `json:"session,omitempty"`    // an acquire call and everything done with its handle: "c1/3"
	Token      string `json:"token,omitempty"`      // the lock's random value
	Fence      int64  `json:"fence,omitempty"`      // fencing token; 0: none
	ValidUntil int64  `json:"validUntil,omitempty"` // when the client stops considering itself the holder, assuming that its clock is correct; see WithActualDeadlines
	Local      int64  `json:"local,omitempty"`      // the process's own clock at T, as Unix time in nanoseconds
	WallClock  bool   `json:"wall,omitempty"`       // Local and the deadline are based on the wall clock, not the monotonic clock
	Drift      int64  `json:"drift,omitempty"`      // how much faster than true time a clock runs, in parts per 10⁹
	Node       string `json:"node,omitempty"`       // the node of a command on a link; the target of a fault
	Value      string `json:"value,omitempty"`      // unique value of a write; see also OpExtend
	Version    int64  `json:"version,omitempty"`    // the version that was read or that a write is based on
	TTL        int64  `json:"ttl,omitempty"`        // TTL requested by a set or extend on a link, in nanoseconds of the node's clock
	SentAt     int64  `json:"sent,omitempty"`       // for a command: when the request entered the link
	AppliedAt  int64  `json:"applied,omitempty"`    // for a command: when the node had replied; for a log entry: when the resource had applied or refused the write
	AnsweredAt int64  `json:"answered,omitempty"`   // for a command: when the reply left the link; 0: the client never received it
	Step       int    `json:"step,omitempty"`       // a fault's planned step, from 1, or UnplannedStep; 0: unknown
	Cause      string `json:"cause,omitempty"`      // why the operation failed, what was read back, or what the node replied

	Life   *Life   `json:"life,omitempty"`   // for OpLife only
	Params *Params `json:"params,omitempty"` // in the first event only
}

// Seconds converts nanoseconds to seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Life is a change to a key on a node, reported by the node itself rather than inferred from its
// replies to clients. In its event (OpLife), Process is the node, Key is the key, T is the time of
// the change, Local is the reading at T of the node clock that determines expiry, and SentAt is
// when the command that caused the change entered its link.
type Life struct {
	Kind Change `json:"what"`
	// Seq numbers a node's changes in the order in which the node made them, from 1. The order is
	// certain even if the stamps are not.
	Seq int64 `json:"seq,omitempty"`
	// RunID is a prefix of the run_id of the server process that made or reported the change.
	RunID string `json:"run,omitempty"`
	// Value is the key's value after the change, and OldValue is its value before. The value of a
	// hash or a list consists of all elements, separated by spaces, as listed by HGETALL or LRANGE.
	Value    string `json:"value,omitempty"`
	OldValue string `json:"old,omitempty"`
	// Expiry is when the key expires after the change, and OldExpiry is when it would have expired
	// without the change. Both are Unix times in nanoseconds on the node's clock. 0 means never.
	Expiry    int64 `json:"expires,omitempty"`
	OldExpiry int64 `json:"before,omitempty"`
	// MinT and MaxT are bounds on T. Both are 0 if T is exact.
	MinT int64 `json:"lo,omitempty"`
	MaxT int64 `json:"hi,omitempty"`
	// Sender is the sender of the command that caused the change: a link ("c1-n3"), Harness for
	// lockpick itself (which bypasses the links), or the address of an unknown client. It is "" if
	// no command caused the change.
	Sender string `json:"by,omitempty"`
	// Command is the command that caused the change, in lower case. Script means that it was run by
	// a script.
	Command string `json:"command,omitempty"`
	Script  bool   `json:"script,omitempty"`
	// Replacement says how the server process was replaced (Restart or Failover) if the key was
	// lost, reverted or kept, or appeared, because of that.
	Replacement string `json:"why,omitempty"`
}

// Change is a kind of change to a key.
type Change string

// Kinds of change. After a server has been restarted or replaced by its replica, each key of the old
// server is reported as lost, reverted or kept, and every other key as appeared.
const (
	KeySet      Change = "set"      // the key is new
	KeyChanged  Change = "changed"  // new value, and perhaps a new expiry
	KeyExpiry   Change = "expiry"   // same value, new expiry
	KeyDeleted  Change = "deleted"  // by a command
	KeyExpired  Change = "expired"  // by the node's clock; reported when a command next accesses the key
	KeyEvicted  Change = "evicted"  // because of memory pressure
	KeyFlushed  Change = "flushed"  // together with all other keys
	KeyLost     Change = "lost"     // the new server does not have the key, which had not expired
	KeyKept     Change = "kept"     // the new server has the key, unchanged
	KeyReverted Change = "reverted" // the new server has an earlier value of the key
	KeyAppeared Change = "appeared" // the new server has the key, but the old one did not
	KeyGap      Change = "gap"      // the node may have failed to report changes between MinT and MaxT
)

// Ways in which a server process is replaced.
const (
	Restart  = "restart"
	Failover = "failover"
)

// MaxTree finds the next large value in a list. It is a binary tree of maxima, stored in a slice:
// the children of node i are nodes 2i and 2i+1.
type MaxTree struct {
	tree []int64
	len  int
}

// NewMaxTree builds the tree for a list, in O(n).
func NewMaxTree(values []int64) MaxTree {
	size := 1
	for size < len(values) {
		size *= 2
	}
	p := MaxTree{tree: make([]int64, 2*size), len: len(values)}
	for i := range size {
		p.tree[size+i] = math.MinInt64
	}
	copy(p.tree[size:], values)
	for i := size - 1; i > 0; i-- {
		p.tree[i] = max(p.tree[2*i], p.tree[2*i+1])
	}
	return p
}

// Next returns the first index, starting at from, whose value is at least threshold, or the list's
// length if there is none. It takes O(log n).
func (p MaxTree) Next(from int, threshold int64) int {
	if from >= p.len {
		return p.len
	}
	size := len(p.tree) / 2
	i := size + from
	for p.tree[i] < threshold {
		for i%2 == 1 { // the parent's other child has already been searched
			i /= 2
		}
		if i == 0 {
			return p.len
		}
		i++
	}
	for i < size {
		i *= 2
		if p.tree[i] < threshold {
			i++
		}
	}
	return min(i-size, p.len)
}
