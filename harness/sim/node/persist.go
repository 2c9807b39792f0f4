package node

import (
	"maps"
	"slices"

	"lockpick/harness/history"
)

// appender writes a node's append-only file, and tells its replica what it would write.
type appender struct {
	disk      *Disk        // nil: there is no file
	clock     *Clock       // of the node's machine
	replicate func(Record) // told of each change; nil: nobody is

	changes   Record   // of the command that runs
	buffer    []Record // not written yet
	asked     int      // so many records were written when the last sync was asked for
	lastSync  int64    // when it was, in whole seconds of the node's clock
	syncing   bool     // it has not come back
	postponed bool     // a write waits for that
	since     int64    // from when on, likewise
	failed    bool     // the last write did
}

// after says what the node wants after a Flush.
type after int

// What comes after a Flush.
const (
	GoOn       after = iota
	Background       // a sync is to begin; Synced says that it came back
	Wait             // likewise, and nothing must be answered before
	Die              // the node ends: it can't write, and has promised to
)

// misconf is what a node answers to writes, and to PING, while it can't write its file.
const misconf = failure("MISCONF Errors writing to the AOF file: No space left on device")

// note keeps a change for the file and the replica.
func (f *appender) note(c change) {
	if f.disk != nil || f.replicate != nil {
		f.changes = append(f.changes, c)
	}
}

// commit ends a client's command.
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

// Flush writes what is to be written; a Redis does it before it answers, and
// several times a second (flushAppendOnlyFile of aof.c). Under everysec a sync is
// due when the wall clock shows another, later second than at the last one, so a
// clock that was set back delays it; and while one is under way, writes wait for
// it, but not for more than two seconds of that clock.
func (f *appender) Flush() after {
	d := f.disk
	if d == nil {
		return GoOn
	}
	now, each := f.seconds(), d.policy == EverySec
	if len(f.buffer) == 0 {
		if each && f.asked != len(d.written) && now > f.lastSync && !f.syncing {
			return f.ask(d, now)
		}
		return GoOn
	}
	if each && f.syncing {
		if !f.postponed {
			f.postponed, f.since = true, now
			return GoOn
		}
		if now-f.since < 2 {
			return GoOn
		}
	}
	f.postponed = false
	if f.failed = d.Full; d.Full {
		d.Met++
		if d.policy == Always {
			return Die
		}
		return GoOn
	}
	d.written = append(d.written, f.buffer...)
	f.buffer = nil
	switch {
	case d.policy == Always:
		f.ask(d, now)
		return Wait
	case each && now > f.lastSync:
		if !f.syncing {
			return f.ask(d, now)
		}
		f.lastSync = now
	}
	return GoOn
}

func (f *appender) ask(d *Disk, now int64) after {
	f.asked, f.lastSync, f.syncing = len(d.written), now, true
	return Background
}

// Synced says that the sync which Flush wanted came back.
func (f *appender) Synced() {
	f.syncing = false
}

// Restless reports whether Flush has something to do sooner or later.
func (f *appender) Restless() bool {
	d := f.disk
	return d != nil && (len(f.buffer) > 0 || d.policy == EverySec && f.asked != len(d.written))
}

// Shutdown writes and syncs everything; a disk that is full keeps what it has.
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

// Fsync is when a node asks its disk to sync what it wrote, as appendfsync of Redis.
type Fsync string

// Policies. Without persistence a node has no disk.
const (
	EverySec Fsync = "everysec"
	Always   Fsync = "always"
	No       Fsync = "no"
)

// Disk is a machine's disk as far as it concerns one node: its append-only file. It
// outlives the node.
//
//	node                      machine                 disk
//	buffer ─── write ──► written, page cache ── fsync ──► synced
//	  lost with the process      lost with the power       kept
type Disk struct {
	// Stalled: no sync comes back. Who waits for one sees to that.
	Stalled bool
	// Full: no write succeeds.
	Full bool
	// Met is how many syncs did not come back, and writes did not succeed, since somebody set it to 0.
	Met int

	policy  Fsync
	written []Record
	synced  int  // so many of them are safe
	torn    bool // the first record that a power loss took is there in part
	losses  int
}

// NewDisk returns an empty disk for a node with this policy.
func NewDisk(policy Fsync) *Disk { return &Disk{policy: policy} }

// Another is the disk of the machine that takes the node's place. It has this record, safe, and
// nothing else; what was met is told of the node, whoever is it.
func (d *Disk) Another(kept Record) *Disk {
	return &Disk{policy: d.policy, written: []Record{kept}, synced: 1, Met: d.Met}
}

// Sync begins a sync; done ends it.
func (d *Disk) Sync() (done func()) {
	upTo, losses := len(d.written), d.losses
	return func() {
		if losses == d.losses {
			d.synced = max(d.synced, upTo)
		}
	}
}

// LosePower drops what was not synced, and returns how many records that were.
func (d *Disk) LosePower(torn bool) (lost int) {
	lost = len(d.written) - d.synced
	d.written = slices.Clip(d.written[:d.synced])
	d.torn = torn && lost > 0
	d.losses++
	return lost
}

// Torn reports whether the file ends with half a record. A node that reads it
// truncates it there, as aof-load-truncated has it.
func (d *Disk) Torn() bool { return d.torn }

// Unsynced is the number of records that a power loss would take now.
func (d *Disk) Unsynced() int { return len(d.written) - d.synced }

// Probe is what comes of a write and a sync now.
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

// Record is what one command of a client changed, a script's changes all
// together. Expiries are absolute, as in the file that Redis writes.
type Record []change

// change is a key's new value, or that it is gone, or that all are.
type change struct {
	key   string
	value *value // nil: it is gone
	all   bool   // and so is everything else
}

// Sum adds what a record says to a hash.
func (r Record) Sum(add func(string)) {
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

// Fact is one change of what a key is, as the node tells it at once. Of its Life the node
// gives neither place nor life nor doer, which it doesn't know.
type Fact struct {
	Key string
	Now int64 // the clock by which keys expire, nanoseconds since 1970
	history.Life
}

// Teller is told of each key's life.
type Teller interface {
	// Tell is told what became of a key.
	Tell(Fact)
	// Spare is asked whether that is not to be: then all stays as it was. A deleted key's
	// client is answered as if it were gone, and what would have been set is refused. It isn't
	// asked of values that are changed in place, as a hash is.
	Spare(Fact) bool
}

// becomes is what a key's life is told as if it gets a value, and whether somebody is told
// and that is a change.
func (k *keyspace) becomes(key string, v *value) (f Fact, changed bool) {
	if k.teller == nil {
		return f, false
	}
	f = k.fact(key, history.KeySet)
	f.Value, f.Expires = v.String(), v.until()
	if k.keys[key] == nil {
		return f, true
	}
	if f.What = history.KeyExpiry; f.Old != f.Value {
		f.What = history.KeyChanged
	}
	return f, f.Old != f.Value || f.Before != f.Expires
}

// fact is one of a key that has not changed yet.
func (k *keyspace) fact(key string, what history.Change) Fact {
	old := k.keys[key]
	f := Fact{Key: key, Now: k.ExpiryClock(), Life: history.Life{What: what, Old: old.String(), Before: old.until()}}
	if what != history.KeyExpired { // that is nobody's doing, whoever noticed
		f.Command, f.Script = k.doing, k.scripted
	}
	return f
}

// Held is what the node holds, by key, also if its time is over and nobody has looked.
func (k *keyspace) Held() map[string]Fact {
	all := map[string]Fact{}
	for key, v := range k.keys {
		all[key] = Fact{Key: key, Life: history.Life{Value: v.String(), Expires: v.until()}}
	}
	return all
}

// Living is what of that is still there for whoever looks.
func (k *keyspace) Living() map[string]Fact {
	all, now := k.Held(), k.ExpiryClock()/1e6
	maps.DeleteFunc(all, func(_ string, f Fact) bool { return f.Expires != 0 && now > f.Expires/1e6 })
	return all
}

// Plant puts a key as it lived in an earlier life, text only.
func (k *keyspace) Plant(f Fact) {
	k.keys[f.Key] = &value{text, []string{f.Old}, f.Before / 1e6}
}
