// Package history is the record of a run: one flat Event for each fact, one
// JSON line for each event, facts before judgement.
//
// Its nouns are Event (what happened, when, to whom), Params (what a reader
// must know besides the facts; it stands in the first event) and History (what
// a reader gets). A Recorder numbers events and writes each line at once, so
// that a run which is cut short leaves all that it saw; Read judges nothing,
// says where a file is cut, and refuses what no recorder wrote.
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

	// Cut says where and how the record ends before the run did, or why the run was
	// stopped early; "" if it is whole.
	Cut string
}

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

// Life is one change of what a key is on a node: a fact, told by the node itself and not
// reckoned from what clients were answered. Its event (OpLife) has the node as Process, the
// key as Key, the instant of the change as T, what the clock by which the node's keys expire
// showed then as Local, and when the command that did it entered its link as Sent.
type Life struct {
	What Change `json:"what"`
	// Seq is the place of the fact among those of its node, from 1: the node's own order,
	// which is certain where stamps are not.
	Seq int64 `json:"seq,omitempty"`
	// Run begins the run_id of the server's life in which this happened, or was found.
	Run string `json:"run,omitempty"`
	// Value is what the key holds now and Old what it held before; of a hash or a list all
	// its words, as HGETALL or LRANGE tells them, with spaces between.
	Value string `json:"value,omitempty"`
	Old   string `json:"old,omitempty"`
	// Expires is when the key is to expire now, and Before when it was to, in nanoseconds
	// since 1970 of the node's clock; 0: never.
	Expires int64 `json:"expires,omitempty"`
	Before  int64 `json:"before,omitempty"`
	// Lo and Hi bound T where the node's own word doesn't tell it exactly; both 0: it is exact.
	Lo int64 `json:"lo,omitempty"`
	Hi int64 `json:"hi,omitempty"`
	// By is who did it: a link ("c1-n3"), Harness for lockpick itself past all links, the
	// address of a stranger, or "": nobody's command did.
	By string `json:"by,omitempty"`
	// Command is the command that did it, in small letters, and Script that it was one of a
	// script's.
	Command string `json:"command,omitempty"`
	Script  bool   `json:"script,omitempty"`
	// Why is by which end of a life a key was lost, reverted or kept: Restart or Failover.
	Why string `json:"why,omitempty"`
}

// Change is what a fact of a key's life says.
type Change string

// Changes. After a key's server has ended and another life of it began, or a replica took
// its place, each key that the last life had is lost, reverted or kept, and what it had not
// has appeared.
const (
	KeySet      Change = "set"      // there was no such key
	KeyChanged  Change = "changed"  // it holds another value, and perhaps another expiry
	KeyExpiry   Change = "expiry"   // it holds what it held, and expires at another instant
	KeyDeleted  Change = "deleted"  // by a command
	KeyExpired  Change = "expired"  // by the node's clock; seen when somebody looked
	KeyEvicted  Change = "evicted"  // for want of memory
	KeyFlushed  Change = "flushed"  // with all others
	KeyLost     Change = "lost"     // the new life has no such key, though its time was not over
	KeyKept     Change = "kept"     // it is what it was
	KeyReverted Change = "reverted" // it is what it once was
	KeyAppeared Change = "appeared" // the new life has it, the last had not
	KeyGap      Change = "gap"      // facts of this node may be missing between Lo and Hi
)

// Ends of a server's life.
const (
	Restart  = "restart"
	Failover = "failover"
)

// Peaks is a list of heights. The tree is in one piece: below i are 2i and 2i+1.
type Peaks struct {
	tree []int64
	len  int
}

// PeaksOf puts a list in order. O(n).
func PeaksOf(heights []int64) Peaks {
	room := 1
	for room < len(heights) {
		room *= 2
	}
	p := Peaks{tree: make([]int64, 2*room), len: len(heights)}
	for i := range room {
		p.tree[room+i] = math.MinInt64
	}
	copy(p.tree[room:], heights)
	for i := room - 1; i > 0; i-- {
		p.tree[i] = max(p.tree[2*i], p.tree[2*i+1])
	}
	return p
}

// From is the first place, from one on, whose height is at least so much, or the list's
// length. O(log n).
func (p Peaks) From(place int, least int64) int {
	if place >= p.len {
		return p.len
	}
	room := len(p.tree) / 2
	i := room + place
	for p.tree[i] < least {
		for i%2 == 1 { // all below what this is the right half of was looked at
			i /= 2
		}
		if i == 0 {
			return p.len
		}
		i++
	}
	for i < room {
		i *= 2
		if p.tree[i] < least {
			i++
		}
	}
	return min(i-room, p.len)
}
