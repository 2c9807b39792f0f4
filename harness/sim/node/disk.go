package node

import "slices"

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

// Policy is the node's.
func (d *Disk) Policy() Fsync { return d.policy }

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
