package history

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

func (l *Life) texts() [7]*string {
	return [7]*string{(*string)(&l.What), &l.Run, &l.Value, &l.Old, &l.By, &l.Command, &l.Why}
}

// append appends the very bytes that encoding/json writes.
func (l *Life) append(b []byte) []byte {
	b = appendString(append(b, `{"what":`...), string(l.What))
	b = appendNumber(b, `,"seq":`, l.Seq)
	b = appendText(b, `,"run":`, l.Run)
	b = appendText(b, `,"value":`, l.Value)
	b = appendText(b, `,"old":`, l.Old)
	b = appendNumber(b, `,"expires":`, l.Expires)
	b = appendNumber(b, `,"before":`, l.Before)
	b = appendNumber(b, `,"lo":`, l.Lo)
	b = appendNumber(b, `,"hi":`, l.Hi)
	b = appendText(b, `,"by":`, l.By)
	b = appendText(b, `,"command":`, l.Command)
	if l.Script {
		b = append(b, `,"script":true`...)
	}
	b = appendText(b, `,"why":`, l.Why)
	return append(b, '}')
}

// life reads a fact as append writes it, if it is the next field.
func (d *decoder) life(e *Event) {
	if !d.next(`,"life":{`) {
		return
	}
	l := &Life{}
	d.text(`"what":"`, (*string)(&l.What))
	d.number(`,"seq":`, &l.Seq)
	d.text(`,"run":"`, &l.Run)
	d.text(`,"value":"`, &l.Value)
	d.text(`,"old":"`, &l.Old)
	d.number(`,"expires":`, &l.Expires)
	d.number(`,"before":`, &l.Before)
	d.number(`,"lo":`, &l.Lo)
	d.number(`,"hi":`, &l.Hi)
	d.text(`,"by":"`, &l.By)
	d.text(`,"command":"`, &l.Command)
	l.Script = d.next(`,"script":true`)
	d.text(`,"why":"`, &l.Why)
	if !d.next(`}`) {
		d.rest = nil
	}
	e.Life = l
}
