// Package history defines the record of a run: a sequence of flat Events, each stored as one line
// of JSON. It records facts and does not judge them.
//
// Its main types are Event (what happened, when, to which process), Params (what a reader must know
// about the run in general; part of the first event) and History (a recorded run, as read). A
// Recorder numbers events and writes each line at once, so that nothing is lost if a run is cut
// short. Read does not interpret events. It reports where a file is truncated, and rejects files
// that can't have been written by a recorder.
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

	// Cut describes where and how the history was truncated, or why the run was stopped early. It
	// is "" if the history is complete.
	Cut string
}

// Type says which part of an operation or fault an event is.
type Type string

const (
	Invoke Type = "invoke" // a process is about to start an operation
	OK     Type = "ok"     // the operation ended and took effect
	Fail   Type = "fail"   // the operation ended and definitely had no effect
	Info   Type = "info"   // the outcome is unknown, or the event is a remark
	Begin  Type = "begin"  // a fault was seen to be active; or a client or the run started
	End    Type = "end"    // the fault is being healed; or the client or the run ended
)

// Operations of a client (process c1, c2, …).
const (
	OpClient  = "client"  // the client itself begins or ends
	OpAcquire = "acquire" // ok carries session, token, fence, validUntil
	OpExtend  = "extend"  // Value: "", or the operation by which the client learned that the lock is still held: acquire (it reacquired the lock), release (of one of several acquisitions) or check (after the deadline)
	OpRead    = "read"    // first step of a critical section; ok carries version
	OpCheck   = "check"   // the client compares its clock with its deadline before writing
	OpWrite   = "write"   // ok: applied; fail: refused; info: no reply
	OpRelease = "release" // ok: a quorum agreed; fail: definitely not held; info: anything else
	OpLost    = "lost"    // info: the lock notified the client that the session no longer holds it
)

// Operations on a link. The event's Process is the link ("c1-n3"), and its Node is the link's node.
// There is one event for each command, recorded when its last stamp is known. Releases and
// extensions have the same names as for a client.
const (
	OpSet   = "set"   // set if absent, with an expiry
	OpFence = "fence" // store an incremented fencing counter
)

// Operations of the harness.
const (
	OpRun  = "run"  // the first event, with Params; and the last one
	OpLog  = "log"  // one entry of the resource's log, which is read back after the run
	OpStop = "stop" // the run is stopped for the reason in Cause; later events belong to its teardown
	// OpClock records a change to the clock of a client or a lock node (Node). At T the clock shows
	// Local, and from then on it runs faster than true time by Drift. T is the instant of the
	// change. For a client's clock that instant is not known exactly, so T is the one that makes
	// deadlines earlier: just before a step forward, or just after a step back.
	OpClock = "clock"
	// OpUnsupported records that a client sent a Redis command (Value) to a node that the
	// simulation does not implement.
	OpUnsupported = "lack"
	OpLife        = "life" // a change to a key (Life), reported by the node (Process); type info
)

// OpStall is the only kind of fault that is never planned: the machine that runs the harness
// (Machine), with every process on it, did nothing from begin to end.
const (
	OpStall = "stall"
	Machine = "machine"
)

// UnplannedStep is the Step of a fault that was not planned: something outside the harness killed
// or stopped one of the run's processes, or continued it during a planned pause (OpContinue). Its
// Begin is recorded when it is noticed. If a stopped process is later continued, that is not
// recorded.
const (
	UnplannedStep = -1
	OpContinue    = "go-on"
)

// Processes other than clients.
const (
	Harness = "harness"
	Nemesis = "nemesis"
)

// Event is one recorded fact. Instants are true times in nanoseconds since the run began, unless
// the field's description says otherwise. A 0 in a stamp other than T means that it is unknown.
type Event struct {
	N       int64  `json:"n"`       // number of the event, from 1, in order of recording
	T       int64  `json:"t"`       // when it happened; for a command on a link, its last known stamp
	Process string `json:"process"` // client, link, resource, nemesis or harness
	Type    Type   `json:"type"`
	Op      string `json:"op"` // one of the constants above; for the nemesis, the kind of fault

	Key        string `json:"key,omitempty"`        // the lock's name
	Session    string `json:"session,omitempty"`    // one acquire call and everything done with its handle: "c1/3"
	Token      string `json:"token,omitempty"`      // the lock's random value
	Fence      int64  `json:"fence,omitempty"`      // fencing token; 0: none
	ValidUntil int64  `json:"validUntil,omitempty"` // true time at which the client stops considering itself the holder, assuming that its clock runs correctly; see WithActualDeadlines
	Local      int64  `json:"local,omitempty"`      // the process's own clock at T, as Unix time in nanoseconds
	Wall       bool   `json:"wall,omitempty"`       // Local and the deadline are readings of the wall clock, not the monotonic clock
	Drift      int64  `json:"drift,omitempty"`      // how much faster than true time a clock runs, in parts per 10⁹
	Node       string `json:"node,omitempty"`       // the node of a command on a link; the target of a fault
	Value      string `json:"value,omitempty"`      // unique value of a write; see also OpExtend
	Version    int64  `json:"version,omitempty"`    // the version that was read, or on which a write is based
	TTL        int64  `json:"ttl,omitempty"`        // expiry requested by a set or extend on a link, in nanoseconds of the node's clock
	Sent       int64  `json:"sent,omitempty"`       // for a command: when the request entered the link
	Applied    int64  `json:"applied,omitempty"`    // for a command: when the node had replied; for a log entry: when the resource had applied or refused it
	Answered   int64  `json:"answered,omitempty"`   // for a command: when the reply left the link for the client; 0: the client never received it
	Step       int    `json:"step,omitempty"`       // planned step that a fault belongs to, from 1, or UnplannedStep; 0: unknown
	Cause      string `json:"cause,omitempty"`      // why the operation failed, what was read back, or what the node replied

	Life   *Life   `json:"life,omitempty"`   // for OpLife only
	Params *Params `json:"params,omitempty"` // in the first event only
}

// Seconds converts nanoseconds to seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Life is one change to a key on a node. It is reported by the node itself, not inferred from
// replies to clients. In its event (OpLife), Process is the node, Key is the key, and T is the
// instant of the change. Local is the reading at T of the node clock that determines expiry. Sent
// is when the command that caused the change entered its link.
type Life struct {
	What Change `json:"what"`
	// Seq numbers the changes on one node, from 1. It gives the order in which the node made them,
	// which is certain even if their stamps are not.
	Seq int64 `json:"seq,omitempty"`
	// Run is the beginning of the run_id of the server process that made or reported the change.
	Run string `json:"run,omitempty"`
	// Value is what the key holds after the change, and Old what it held before. For a hash or a
	// list, they contain all elements separated by spaces, as HGETALL or LRANGE lists them.
	Value string `json:"value,omitempty"`
	Old   string `json:"old,omitempty"`
	// Expires is when the key expires after the change, and Before when it would have expired
	// without it. Both are Unix times in nanoseconds by the node's clock. 0 means never.
	Expires int64 `json:"expires,omitempty"`
	Before  int64 `json:"before,omitempty"`
	// Lo and Hi are bounds on T if the node's report does not determine it exactly. Both are 0 if T
	// is exact.
	Lo int64 `json:"lo,omitempty"`
	Hi int64 `json:"hi,omitempty"`
	// By says who sent the command that caused the change: a link ("c1-n3"), Harness for lockpick
	// itself (which bypasses the links), or the address of an unknown client. It is "" if no
	// command caused the change.
	By string `json:"by,omitempty"`
	// Command is the command that caused the change, in lower case. Script means that a script ran
	// that command.
	Command string `json:"command,omitempty"`
	Script  bool   `json:"script,omitempty"`
	// Why is how the server process was replaced (Restart or Failover) if a key was lost, reverted,
	// kept or has appeared because of that.
	Why string `json:"why,omitempty"`
}

// Change is a kind of change to a key.
type Change string

// Kinds of change. After a server has restarted or a replica has replaced it, each key of the old
// server is reported as lost, reverted or kept, and any other key as appeared.
const (
	KeySet      Change = "set"      // the key is new
	KeyChanged  Change = "changed"  // new value, and perhaps a new expiry
	KeyExpiry   Change = "expiry"   // same value, new expiry
	KeyDeleted  Change = "deleted"  // by a command
	KeyExpired  Change = "expired"  // by the node's clock; reported when a command next accesses the key
	KeyEvicted  Change = "evicted"  // because of memory pressure
	KeyFlushed  Change = "flushed"  // together with all other keys
	KeyLost     Change = "lost"     // the new server does not have the key, although it had not expired
	KeyKept     Change = "kept"     // unchanged
	KeyReverted Change = "reverted" // the key has an earlier value again
	KeyAppeared Change = "appeared" // the new server has the key, the old one did not
	KeyGap      Change = "gap"      // reports from this node may be missing between Lo and Hi
)

// How a server process is replaced.
const (
	Restart  = "restart"
	Failover = "failover"
)

// MaxTree finds the next large value in a list. It is a binary tree of maxima, stored in one slice:
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

// Next returns the first index, starting at from, whose value is at least atLeast, or the list's
// length if there is none. It takes O(log n).
func (p MaxTree) Next(from int, atLeast int64) int {
	if from >= p.len {
		return p.len
	}
	size := len(p.tree) / 2
	i := size + from
	for p.tree[i] < atLeast {
		for i%2 == 1 { // everything below the parent of a right child has been searched
			i /= 2
		}
		if i == 0 {
			return p.len
		}
		i++
	}
	for i < size {
		i *= 2
		if p.tree[i] < atLeast {
			i++
		}
	}
	return min(i-size, p.len)
}
