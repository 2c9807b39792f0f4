// Package history is the record of a run: one flat Event for each fact and one JSON line for each
// event. It records facts and does not judge them.
//
// Its main types are Event (what happened, when, to whom), Params (what a reader needs to know
// besides the facts; part of the first event) and History (what a reader gets). A Recorder numbers
// events and writes each line at once, so that a run that is cut short keeps everything recorded
// until then. Read does not interpret events. It reports where a file is cut, and rejects files
// that no recorder wrote.
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

	// Cut describes where and how the record ends before the run did, or why the run was stopped
	// early. It is "" if the record is complete.
	Cut string
}

// Type relates an event to the operation or fault that it belongs to.
type Type string

const (
	Invoke Type = "invoke" // a process is about to start an operation
	OK     Type = "ok"     // the operation ended, and it took effect
	Fail   Type = "fail"   // the operation ended, and it definitely took no effect
	Info   Type = "info"   // the outcome is unknown, or the event is a remark
	Begin  Type = "begin"  // a fault was seen to be in force; a client or the run started
	End    Type = "end"    // the fault is healed; the client or the run ended
)

// Operations of a client (process c1, c2, …).
const (
	OpClient  = "client"  // begin and end of the client itself
	OpAcquire = "acquire" // ok carries session, token, fence, validUntil
	OpExtend  = "extend"  // Value: what the client did instead: reacquired the lock that it holds, released one of several acquisitions, or checked the lock after the deadline and found it still held
	OpRead    = "read"    // first step of a critical section; ok carries version
	OpCheck   = "check"   // the client compares its clock with its deadline before it writes
	OpWrite   = "write"   // ok: applied; fail: refused; info: no answer
	OpRelease = "release" // ok: a quorum agreed; fail: definitely not held; info: anything else
	OpLost    = "lost"    // info: the lock notified the client that it has lost the session's hold
)

// Operations on a link (the process is the link, "c1-n3"; node is its node). There is one event for
// each command, recorded when its last stamp is known. Release and extend have the same names as
// for a client.
const (
	OpSet   = "set"   // set if absent, with an expiry
	OpFence = "fence" // write a fencing counter back
)

// Operations of the harness.
const (
	OpRun  = "run"  // the first event, with Params; and the last one
	OpLog  = "log"  // one entry of the resource's own log, read back after the run
	OpStop = "stop" // the run is stopped here, for the reason in Cause; later events belong to its teardown
	// OpClock records a change of the clock of a client or a lock node (node). From T on it shows
	// Local and runs faster by Drift. T is the instant of the change, or for a client the reading
	// that gives its holder the shorter belief: the one before a step forward, or after a step
	// back.
	OpClock = "clock"
	// OpUnsupported is a Redis command (Value) that a client sent to a node and the simulation does
	// not implement.
	OpUnsupported = "lack"
	OpLife        = "life" // Life of a key on a node, which is the Process; type info
)

// OpStall is the only kind of fault that no plan has: the harness's host (Machine) and every
// process on it did nothing from begin to end.
const (
	OpStall = "stall"
	Machine = "machine"
)

// UnplannedStep is the Step of a fault that somebody outside the plan caused to a process of the
// run: it was killed or stopped, or was continued during a planned pause (OpContinue). It begins
// when that was noticed. The later continuation of a stopped process is not recorded.
const (
	UnplannedStep = -1
	OpContinue    = "go-on"
)

// Processes other than clients.
const (
	Harness = "harness"
	Nemesis = "nemesis"
)

// Event is one fact. Every instant is true time in nanoseconds since the run began, unless its name
// says otherwise. 0 in a stamp other than T means unknown.
type Event struct {
	N       int64  `json:"n"`       // number, from 1, in order of arrival
	T       int64  `json:"t"`       // when it happened; for a command on a link, its last known stamp
	Process string `json:"process"` // client, link, resource, nemesis or harness
	Type    Type   `json:"type"`
	Op      string `json:"op"` // one of the constants above; for the nemesis the kind of fault

	Key        string `json:"key,omitempty"`        // the lock's name
	Session    string `json:"session,omitempty"`    // one acquire call and everything done with its handle: "c1/3"
	Token      string `json:"token,omitempty"`      // the lock's random value
	Fence      int64  `json:"fence,omitempty"`      // fencing token; 0: none
	ValidUntil int64  `json:"validUntil,omitempty"` // true time at which the client stops believing, assuming its clock keeps running correctly; see WithActualDeadlines
	Local      int64  `json:"local,omitempty"`      // the process's own clock at T, in nanoseconds since 1970
	Wall       bool   `json:"wall,omitempty"`       // Local and the deadline are from the wall clock, not the monotonic clock
	Drift      int64  `json:"drift,omitempty"`      // of a clock: how much faster than true time it runs, in parts per 10⁹
	Node       string `json:"node,omitempty"`       // the node of a command on a link; the target of a fault
	Value      string `json:"value,omitempty"`      // unique value of a write; see also OpExtend
	Version    int64  `json:"version,omitempty"`    // version read, or the version that a write is based on
	TTL        int64  `json:"ttl,omitempty"`        // expiry requested by a set or extend on a link, in nanoseconds of the node's clock
	Sent       int64  `json:"sent,omitempty"`       // link: when the request entered it
	Applied    int64  `json:"applied,omitempty"`    // link: when the node had replied; log: when the resource had applied or refused it
	Answered   int64  `json:"answered,omitempty"`   // link: when the reply left it for the client; 0: the client never received it
	Step       int    `json:"step,omitempty"`       // the planned step that a fault belongs to, from 1; UnplannedStep; 0: unknown
	Cause      string `json:"cause,omitempty"`      // why it failed; what was read back; what the node replied

	Life   *Life   `json:"life,omitempty"`   // for OpLife only
	Params *Params `json:"params,omitempty"` // in the first event only
}

// Seconds converts nanoseconds to seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Life is one change of a key on a node: a fact reported by the node itself, not inferred from
// replies to clients. In its event (OpLife) Process is the node, Key the key, T the instant of the
// change, Local the reading then of the node clock that determines expiry, and Sent when the
// command that caused the change entered its link.
type Life struct {
	What Change `json:"what"`
	// Seq is the number of the fact among those of its node, from 1. It gives the node's own order,
	// which is certain even where stamps are not.
	Seq int64 `json:"seq,omitempty"`
	// Run is the beginning of the run_id of the server process in which this happened or was found.
	Run string `json:"run,omitempty"`
	// Value is what the key holds now and Old what it held before. For a hash or a list, it is all
	// elements separated by spaces, as HGETALL or LRANGE lists them.
	Value string `json:"value,omitempty"`
	Old   string `json:"old,omitempty"`
	// Expires is when the key expires now, and Before when it would have expired before the change,
	// in nanoseconds since 1970 of the node's clock. 0 means never.
	Expires int64 `json:"expires,omitempty"`
	Before  int64 `json:"before,omitempty"`
	// Lo and Hi bound T if the node's report does not determine it exactly. Both are 0 if T is
	// exact.
	Lo int64 `json:"lo,omitempty"`
	Hi int64 `json:"hi,omitempty"`
	// By is the issuer of the change: a link ("c1-n3"), Harness for lockpick itself past all links,
	// the address of an unknown client, or "" if no command caused it.
	By string `json:"by,omitempty"`
	// Command is the command that caused the change, in lower case. Script means that a script ran
	// it.
	Command string `json:"command,omitempty"`
	Script  bool   `json:"script,omitempty"`
	// Why is how the server process ended whose key was lost, reverted or kept: Restart or
	// Failover.
	Why string `json:"why,omitempty"`
}

// Change is the kind of a change of a key.
type Change string

// Kinds of change. After a restart of a server, or after a replica has replaced it, each key that
// the old server had is lost, reverted or kept, and any other key has appeared.
const (
	KeySet      Change = "set"      // there was no such key
	KeyChanged  Change = "changed"  // it holds another value, and perhaps has another expiry
	KeyExpiry   Change = "expiry"   // same value, new expiry
	KeyDeleted  Change = "deleted"  // by a command
	KeyExpired  Change = "expired"  // by the node's clock; recorded when a command touched the key
	KeyEvicted  Change = "evicted"  // because of memory pressure
	KeyFlushed  Change = "flushed"  // together with all other keys
	KeyLost     Change = "lost"     // the new server does not have the key, although it had not expired
	KeyKept     Change = "kept"     // unchanged
	KeyReverted Change = "reverted" // it has an earlier value again
	KeyAppeared Change = "appeared" // the new server has it, the old one did not
	KeyGap      Change = "gap"      // facts of this node may be missing between Lo and Hi
)

// How a server process is replaced.
const (
	Restart  = "restart"
	Failover = "failover"
)

// MaxTree finds the next large value in a list. It is a binary tree of maxima in one slice: the
// children of node i are 2i and 2i+1.
type MaxTree struct {
	tree []int64
	len  int
}

// NewMaxTree builds the tree of a list, in O(n).
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
