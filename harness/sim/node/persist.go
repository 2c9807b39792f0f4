package node

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

// Keep makes a disk hold this and nothing else, safe.
func (d *Disk) Keep(r Record) {
	d.written, d.synced = []Record{r}, 1
	d.losses++
}
