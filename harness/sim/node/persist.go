package node

import (
	"maps"
	"slices"

	"lockpick/harness/history"
)

// appender writes a node's changes to its append-only file and replicates them.
type appender struct {
	disk      *Disk        // nil means no file
	clock     *Clock       // clock of the node's machine
	replicate func(Record) // called for each change; may be nil

	changes        Record   // of the running command
	buffer         []Record // not written yet
	requested      int      // number of records written when the last sync was requested
	lastSync       int64    // time of that request, in whole seconds of the node's clock
	syncing        bool     // the sync has not completed
	postponed      bool     // a write is waiting for it
	postponedSince int64    // start of that wait, in seconds
	failed         bool     // the last write failed
}

// flushResult is the action that Flush requires from its caller.
type flushResult int

// Actions required after a Flush.
const (
	Continue    flushResult = iota
	StartSync               // start a sync; call SyncDone when it completes
	WaitForSync             // the same, and send no reply before it completes
	Exit                    // the node exits because it can't write
)

// misconf is the reply to writes and PING while the node can't write its file.
const misconf = failure("MISCONF Errors writing to the AOF file: No space left on device")

// note collects a change of the running command for the file and the replica.
func (f *appender) note(c change) {
	if f.disk != nil || f.replicate != nil {
		f.changes = append(f.changes, c)
	}
}

// commit turns the changes of a completed command into a record.
func (f *appender) commit() {
	r := f.changes
	if len(r) == 0 {
		return
	}
	f.changes = nil
	if f.disk != nil {
		f.buffer = append(f.buffer, r)
	}
	if f.replicate != nil {
		f.replicate(r)
	}
}

func (f *appender) seconds() int64 { return f.clock.Now() / 1e9 }

// Flush writes pending records. Redis does so before it replies, and several times a second
// (flushAppendOnlyFile of aof.c). Under everysec, a sync is due when the wall clock shows a later
// second than at the last sync, so setting the clock back delays the next sync. While a sync is
// under way, writes wait for it, but for at most two seconds by that clock.
func (f *appender) Flush() flushResult {
	d := f.disk
	if d == nil {
		return Continue
	}
	now, each := f.seconds(), d.policy == EverySec
	if len(f.buffer) == 0 {
		if each && f.requested != len(d.written) && now > f.lastSync && !f.syncing {
			return f.requestSync(d, now)
		}
		return Continue
	}
	if each && f.syncing {
		if !f.postponed {
			f.postponed, f.postponedSince = true, now
			return Continue
		}
		if now-f.postponedSince < 2 {
			return Continue
		}
	}
	f.postponed = false
	if f.failed = d.Full; d.Full {
		d.Affected++
		if d.policy == Always {
			return Exit
		}
		return Continue
	}
	d.written = append(d.written, f.buffer...)
	f.buffer = nil
	switch {
	case d.policy == Always:
		f.requestSync(d, now)
		return WaitForSync
	case each && now > f.lastSync:
		if !f.syncing {
			return f.requestSync(d, now)
		}
		f.lastSync = now
	}
	return Continue
}

func (f *appender) requestSync(d *Disk, now int64) flushResult {
	f.requested, f.lastSync, f.syncing = len(d.written), now, true
	return StartSync
}

// SyncDone records that the sync requested by Flush has completed.
func (f *appender) SyncDone() {
	f.syncing = false
}

// NeedsFlush reports whether Flush has something to do now or will have later.
func (f *appender) NeedsFlush() bool {
	d := f.disk
	return d != nil && (len(f.buffer) > 0 || d.policy == EverySec && f.requested != len(d.written))
}

// Shutdown writes and syncs everything. If the disk is full, it only syncs records that were
// already written.
func (f *appender) Shutdown() {
	d := f.disk
	if d == nil {
		return
	}
	if !d.Full {
		d.written = append(d.written, f.buffer...)
		f.buffer = nil
	}
	d.synced = len(d.written)
}

// Fsync is the policy for syncing the file, like Redis's appendfsync setting.
type Fsync string

// Policies. A node without persistence has no disk.
const (
	EverySec Fsync = "everysec"
	Always   Fsync = "always"
	No       Fsync = "no"
)

// Disk is a machine's disk, reduced to the append-only file of one node. It outlives the node.
//
//	node                      machine                 disk
//	buffer ─── write ──► written, page cache ── fsync ──► synced
//	  lost with the process      lost with the power       kept
type Disk struct {
	// Stalled reports whether syncs hang. The caller of Sync must enforce it.
	Stalled bool
	// Full reports whether all writes fail.
	Full bool
	// Affected counts the syncs that stalled and the writes that failed. Callers may reset it.
	Affected int

	policy      Fsync
	written     []Record
	synced      int  // number of records that are safe
	torn        bool // half of the first lost record remains
	powerLosses int
}

// NewDisk returns an empty disk for a node with this policy.
func NewDisk(policy Fsync) *Disk { return &Disk{policy: policy} }

// Replacement returns the disk of the machine that takes the node's place. It holds only the given
// record, which is synced. Affected is copied, since it belongs to the node and not to a machine.
func (d *Disk) Replacement(kept Record) *Disk {
	return &Disk{policy: d.policy, written: []Record{kept}, synced: 1, Affected: d.Affected}
}

// Sync starts a sync; done completes it.
func (d *Disk) Sync() (done func()) {
	upTo, losses := len(d.written), d.powerLosses
	return func() {
		if losses == d.powerLosses {
			d.synced = max(d.synced, upTo)
		}
	}
}

// LosePower drops the unsynced records and returns their number.
func (d *Disk) LosePower(torn bool) (lost int) {
	lost = len(d.written) - d.synced
	d.written = slices.Clip(d.written[:d.synced])
	d.torn = torn && lost > 0
	d.powerLosses++
	return lost
}

// Torn reports whether the file ends with half a record. A node that loads the file truncates it
// there, as with aof-load-truncated.
func (d *Disk) Torn() bool { return d.torn }

// Unsynced returns the number of records that a power loss would drop now.
func (d *Disk) Unsynced() int { return len(d.written) - d.synced }

// Probe describes what would happen to a write and a sync now.
func (d *Disk) Probe() string {
	write, sync := "ok", "ok"
	if d.Full {
		write = "No space left on device"
	}
	if d.Stalled {
		sync = "does not come back"
	}
	return "write: " + write + ", fsync: " + sync
}

// Record holds the changes of one client command. All changes of a script are one record. Expiries
// are absolute, as in Redis's file.
type Record []change

// change is a new value of a key, or the removal of the key or of all keys.
type change struct {
	key   string
	value *value // nil means removed
	all   bool   // all keys are removed
}

// WriteHash passes the contents of a record to a hash function.
func (r Record) WriteHash(add func(string)) {
	for _, c := range r {
		add(c.key)
		switch {
		case c.value == nil:
		case c.value.kind == text:
			add(c.value.words[0])
		default:
			add("")
		}
	}
}

// Fact is a change of a key, reported by the node as it happens. The node doesn't know the sequence
// number, the process and the issuer, and leaves these fields of Life empty.
type Fact struct {
	Key string
	Now int64 // the clock by which keys expire, nanoseconds since 1970
	history.Life
}

// Observer is notified of changes of keys.
type Observer interface {
	// Observe is called for each change of a key.
	Observe(Fact)
	// Preserve reports whether to suppress a change. A client that deletes a key still gets the
	// reply that the key was deleted, and a SET is refused. Preserve isn't called for values that
	// are changed in place, such as hashes.
	Preserve(Fact) bool
}

// setFact returns the event for setting a key to a value. changed is false if there is no
// observer or the key already has this value.
func (k *keyspace) setFact(key string, v *value) (f Fact, changed bool) {
	if k.observer == nil {
		return f, false
	}
	f = k.fact(key, history.KeySet)
	f.Value, f.Expires = v.String(), v.expiresNanos()
	if k.keys[key] == nil {
		return f, true
	}
	if f.What = history.KeyExpiry; f.Old != f.Value {
		f.What = history.KeyChanged
	}
	return f, f.Old != f.Value || f.Before != f.Expires
}

// fact returns an event for a key that has not changed yet.
func (k *keyspace) fact(key string, what history.Change) Fact {
	old := k.keys[key]
	f := Fact{Key: key, Now: k.ExpiryClock(), Life: history.Life{What: what, Old: old.String(), Before: old.expiresNanos()}}
	if what != history.KeyExpired { // nobody caused the expiry, whoever noticed it
		f.Command, f.Script = k.runningCommand, k.inScript
	}
	return f
}

// AllKeys returns all stored keys, including expired ones that have not been removed yet.
func (k *keyspace) AllKeys() map[string]Fact {
	all := map[string]Fact{}
	for key, v := range k.keys {
		all[key] = Fact{Key: key, Life: history.Life{Value: v.String(), Expires: v.expiresNanos()}}
	}
	return all
}

// LiveKeys returns all keys that have not expired.
func (k *keyspace) LiveKeys() map[string]Fact {
	all, now := k.AllKeys(), k.ExpiryClock()/1e6
	maps.DeleteFunc(all, func(_ string, f Fact) bool { return f.Expires != 0 && now > f.Expires/1e6 })
	return all
}

// Restore sets a key to its value in an earlier process. It must be a string.
func (k *keyspace) Restore(f Fact) {
	k.keys[f.Key] = &value{text, []string{f.Old}, f.Before / 1e6}
}
