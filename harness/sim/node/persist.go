package node

import (
	"maps"
	"slices"

	"lockpick/harness/history"
)

// appender writes a node's changes to its append-only file and sends them to its replica.
type appender struct {
	disk      *Disk        // nil means no file
	clock     *Clock       // the machine's clock
	replicate func(Record) // called for each change; may be nil

	changes        Record   // changes made by the running command
	buffer         []Record // records not written yet
	syncTarget     int      // number of records on disk when the last sync was requested
	lastSync       int64    // time of that request, in whole seconds by the node's clock
	syncing        bool     // the last sync has not completed
	writePostponed bool     // a write is waiting for the sync
	postponedSince int64    // start of that wait, in whole seconds by the node's clock
	writeFailed    bool     // the last write failed
}

// flushResult says what the caller of Flush must do next.
type flushResult int

// Results of Flush.
const (
	Continue    flushResult = iota
	StartSync               // start a sync; call SyncDone when it completes
	WaitForSync             // start a sync as for StartSync, and send no reply before it completes
	Exit                    // end the process: it can't write
)

// misconf is the reply to writes and PING while the node can't write its file.
const misconf = failure("MISCONF Errors writing to the AOF file: No space left on device")

// addChange collects a change made by the running command for the file and the replica.
func (f *appender) addChange(c change) {
	if f.disk != nil || f.replicate != nil {
		f.changes = append(f.changes, c)
	}
}

// commit turns the changes made by a completed command into a record.
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
// (flushAppendOnlyFile in aof.c). Under everysec, a sync is due when the wall clock shows a later
// second than at the last sync, so setting the clock back delays the next sync. While a sync is
// under way, writes wait for it, but at most two seconds by that clock.
func (f *appender) Flush() flushResult {
	d := f.disk
	if d == nil {
		return Continue
	}
	now, everySec := f.seconds(), d.policy == EverySec
	if len(f.buffer) == 0 {
		if everySec && f.syncTarget != len(d.records) && now > f.lastSync && !f.syncing {
			return f.requestSync(d, now)
		}
		return Continue
	}
	if everySec && f.syncing {
		if !f.writePostponed {
			f.writePostponed, f.postponedSince = true, now
			return Continue
		}
		if now-f.postponedSince < 2 {
			return Continue
		}
	}
	f.writePostponed = false
	if f.writeFailed = d.Full; d.Full {
		d.AffectedCount++
		if d.policy == Always {
			return Exit
		}
		return Continue
	}
	d.records = append(d.records, f.buffer...)
	f.buffer = nil
	switch {
	case d.policy == Always:
		f.requestSync(d, now)
		return WaitForSync
	case everySec && now > f.lastSync:
		if !f.syncing {
			return f.requestSync(d, now)
		}
		f.lastSync = now
	}
	return Continue
}

func (f *appender) requestSync(d *Disk, now int64) flushResult {
	f.syncTarget, f.lastSync, f.syncing = len(d.records), now, true
	return StartSync
}

// SyncDone records that the sync requested by Flush has completed.
func (f *appender) SyncDone() {
	f.syncing = false
}

// NeedsFlush reports whether Flush has something to do now or will have later.
func (f *appender) NeedsFlush() bool {
	d := f.disk
	return d != nil && (len(f.buffer) > 0 || d.policy == EverySec && f.syncTarget != len(d.records))
}

// Shutdown writes and syncs everything. If the disk is full, it syncs only the records already
// written.
func (f *appender) Shutdown() {
	d := f.disk
	if d == nil {
		return
	}
	if !d.Full {
		d.records = append(d.records, f.buffer...)
		f.buffer = nil
	}
	d.syncedCount = len(d.records)
}

// Fsync is the policy for syncing the file, like Redis's appendfsync setting.
type Fsync string

// Sync policies. A node without persistence has no disk.
const (
	EverySec Fsync = "everysec"
	Always   Fsync = "always"
	No       Fsync = "no"
)

// Disk is a machine's disk, reduced to the append-only file of one node. It outlives the node.
//
//	node                      machine                 disk
//	buffer ─── write ──► written, page cache ── fsync ──► synced
//	  lost with the process      lost with the power       safe
type Disk struct {
	// Stalled reports whether syncs hang. The caller of Sync must check it.
	Stalled bool
	// Full reports whether all writes fail.
	Full bool
	// AffectedCount counts the syncs that stalled and the writes that failed. Callers may reset it.
	AffectedCount int

	policy        Fsync
	records       []Record
	syncedCount   int  // number of records that survive a power loss
	hasTornRecord bool // half of the first lost record is still on the disk
	powerLosses   int
}

// NewDisk returns an empty disk for a node with the given policy.
func NewDisk(policy Fsync) *Disk { return &Disk{policy: policy} }

// Replacement returns the disk of a replica that takes the node's place. It holds only the given
// record, which is synced. AffectedCount carries over, since it counts per node, not per machine.
func (d *Disk) Replacement(data Record) *Disk {
	return &Disk{policy: d.policy, records: []Record{data}, syncedCount: 1, AffectedCount: d.AffectedCount}
}

// Sync starts a sync; done completes it.
func (d *Disk) Sync() (done func()) {
	count, losses := len(d.records), d.powerLosses
	return func() {
		if losses == d.powerLosses {
			d.syncedCount = max(d.syncedCount, count)
		}
	}
}

// LosePower drops the unsynced records and returns their number.
func (d *Disk) LosePower(torn bool) (lostCount int) {
	lostCount = len(d.records) - d.syncedCount
	d.records = slices.Clip(d.records[:d.syncedCount])
	d.hasTornRecord = torn && lostCount > 0
	d.powerLosses++
	return lostCount
}

// Torn reports whether the file ends with half a record. A node that loads the file truncates it
// there, as Redis does with aof-load-truncated.
func (d *Disk) Torn() bool { return d.hasTornRecord }

// Unsynced returns the number of records that a power loss would drop now.
func (d *Disk) Unsynced() int { return len(d.records) - d.syncedCount }

// Probe describes what would happen to a write and a sync now.
func (d *Disk) Probe() string {
	writeResult, syncResult := "ok", "ok"
	if d.Full {
		writeResult = "No space left on device"
	}
	if d.Stalled {
		syncResult = "does not come back"
	}
	return "write: " + writeResult + ", fsync: " + syncResult
}

// Record holds the changes made by one client command. All changes made by a script form one
// record. Expiries are absolute, as in Redis's file.
type Record []change

// change is a key's new value, or the removal of one or all keys.
type change struct {
	key     string
	value   *value // nil means the key is removed
	isFlush bool   // all keys are removed
}

// WriteHash passes a record's contents to a hash function.
func (r Record) WriteHash(write func(string)) {
	for _, c := range r {
		write(c.key)
		switch {
		case c.value == nil:
		case c.value.kind == text:
			write(c.value.words[0])
		default:
			write("")
		}
	}
}

// KeyEvent is a change to a key, reported by the node as it happens. The node doesn't know the
// sequence number, process or issuer, and leaves these fields of Life empty.
type KeyEvent struct {
	Key string
	Now int64 // reading of ExpiryClock
	history.Life
}

// Observer is notified of changes to keys.
type Observer interface {
	// Observe is called for each change to a key.
	Observe(KeyEvent)
	// Preserve reports whether to suppress a change. If it returns true, a client that deletes the
	// key still gets the reply that the key was deleted, and a SET is refused. Preserve isn't
	// called for values that are changed in place, such as hashes.
	Preserve(KeyEvent) bool
}

// setEvent returns the event for setting a key to a value. changed is false if there is no observer
// or the key already has this value and expiry.
func (k *keyspace) setEvent(key string, v *value) (event KeyEvent, changed bool) {
	if k.observer == nil {
		return event, false
	}
	event = k.keyEvent(key, history.KeySet)
	event.Value, event.Expiry = v.String(), v.expiresNanos()
	if k.keys[key] == nil {
		return event, true
	}
	if event.Kind = history.KeyExpiry; event.OldValue != event.Value {
		event.Kind = history.KeyChanged
	}
	return event, event.OldValue != event.Value || event.OldExpiry != event.Expiry
}

// keyEvent returns an event for a key that has not changed yet.
func (k *keyspace) keyEvent(key string, what history.Change) KeyEvent {
	old := k.keys[key]
	event := KeyEvent{Key: key, Now: k.ExpiryClock(), Life: history.Life{Kind: what, OldValue: old.String(), OldExpiry: old.expiresNanos()}}
	if what != history.KeyExpired { // the command that notices an expiry did not cause it
		event.Command, event.Script = k.runningCommand, k.inScript
	}
	return event
}

// AllKeys returns all stored keys, including expired keys that have not been removed yet.
func (k *keyspace) AllKeys() map[string]KeyEvent {
	events := map[string]KeyEvent{}
	for key, v := range k.keys {
		events[key] = KeyEvent{Key: key, Life: history.Life{Value: v.String(), Expiry: v.expiresNanos()}}
	}
	return events
}

// LiveKeys returns all keys that have not expired.
func (k *keyspace) LiveKeys() map[string]KeyEvent {
	events, now := k.AllKeys(), k.ExpiryClock()/1e6
	maps.DeleteFunc(events, func(_ string, f KeyEvent) bool { return f.Expiry != 0 && now > f.Expiry/1e6 })
	return events
}

// Restore sets a key to its value in an earlier process, which must be a string.
func (k *keyspace) Restore(event KeyEvent) {
	k.keys[event.Key] = &value{text, []string{event.OldValue}, event.OldExpiry / 1e6}
}
