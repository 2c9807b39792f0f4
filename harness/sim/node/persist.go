package node

import (
	"maps"
	"slices"
)

// appender writes a node's append-only file.
type appender struct {
	changes   Record   // of the command that runs
	buffer    []Record // not written yet
	asked     int      // so many records were written when the last sync was asked for
	lastSync  int64    // when it was, in whole seconds of the node's clock
	syncing   bool     // it has not come back
	postponed bool     // a write waits for that
	since     int64    // from when on, likewise
	failed    bool     // the last write did
}

// After says what the node wants after a Flush.
type After int

// What comes after a Flush.
const (
	GoOn       After = iota
	Background       // a sync is to begin; Synced says that it came back
	Wait             // likewise, and nothing must be answered before
	Die              // the node ends: it can't write, and has promised to
)

// misconf is what a node answers to writes, and to PING, while it can't write its file.
const misconf = failure("MISCONF Errors writing to the AOF file: No space left on device")

// note keeps a change for the file and the replica.
func (n *Node) note(c change) {
	if n.config.Disk == nil && n.config.Replicate == nil {
		return
	}
	if c.value != nil {
		v := c.value.clone()
		c.value = &v
	}
	n.file.changes = append(n.file.changes, c)
}

// commit ends a client's command.
func (n *Node) commit() {
	r := n.file.changes
	if len(r) == 0 {
		return
	}
	n.file.changes = nil
	if n.config.Disk != nil {
		n.file.buffer = append(n.file.buffer, r)
	}
	if n.config.Replicate != nil {
		n.config.Replicate(r)
	}
}

// readFile reads the file, and opens it for more.
func (n *Node) readFile() {
	d := n.config.Disk
	if d == nil {
		return
	}
	d.torn = false
	for _, r := range d.written {
		n.apply(r)
	}
	n.file.asked, n.file.lastSync = len(d.written), n.seconds()
}

func (n *Node) seconds() int64 { return n.config.Clock.Now() / 1e9 }

// Flush writes what is to be written; a Redis does it before it answers, and
// several times a second (flushAppendOnlyFile of aof.c). Under everysec a sync is
// due when the wall clock shows another, later second than at the last one, so a
// clock that was set back delays it; and while one is under way, writes wait for
// it, but not for more than two seconds of that clock.
func (n *Node) Flush() After {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, f := n.config.Disk, &n.file
	if d == nil {
		return GoOn
	}
	now, each := n.seconds(), d.policy == EverySec
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

func (f *appender) ask(d *Disk, now int64) After {
	f.asked, f.lastSync, f.syncing = len(d.written), now, true
	return Background
}

// Synced says that the sync which Flush wanted came back.
func (n *Node) Synced() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.file.syncing = false
}

// Restless reports whether Flush has something to do sooner or later.
func (n *Node) Restless() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.config.Disk
	return d != nil && (len(n.file.buffer) > 0 || d.policy == EverySec && n.file.asked != len(d.written))
}

// Shutdown writes and syncs everything; a disk that is full keeps what it has.
func (n *Node) Shutdown() {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.config.Disk
	if d == nil {
		return
	}
	if !d.Full {
		d.written = append(d.written, n.file.buffer...)
		n.file.buffer = nil
	}
	d.synced = len(d.written)
}

// Sweep drops the keys that have expired. Redis does it ten times a second, so that
// a clock which is set back can't bring them back; who sets it back calls it before.
func (n *Node) Sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		n.look(key)
	}
	n.commit()
}

// Apply takes a record of the node that this one is a replica of.
func (n *Node) Apply(r Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apply(r)
}

// Dump is everything that the node has, as one record.
func (n *Node) Dump() Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := Record{{all: true}}
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		v := n.keys[key].clone()
		all = append(all, change{key: key, value: &v})
	}
	return all
}

// Keep makes a disk hold this and nothing else, safe.
func (d *Disk) Keep(r Record) {
	d.written, d.synced = []Record{r}, 1
	d.losses++
}
