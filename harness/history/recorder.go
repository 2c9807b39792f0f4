package history

import (
	"fmt"
	"io"
	"sync"
)

// Recorder numbers events, passes each one to its watchers, and writes it at once as a JSON line if
// it has a writer. It is safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	w        io.Writer // may be nil
	n        int64
	err      error
	line     []byte // buffer for the current line
	watch    []func(Event)
	names    map[string]string // of locks, by key, where the two differ
	dropping bool              // the run has not begun
}

// NewRecorder returns a recorder that makes one call of w.Write for each event. If w is nil, only
// watchers get the events.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// Watch calls f with every later event, in order and exactly as a reader will see it. f runs under
// the recorder's lock, so it must neither block nor record.
func (r *Recorder) Watch(f func(Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = append(r.watch, f)
}

// DropUntilBegin drops all events until the run begins. A node that dies during setup may report
// facts that are no part of the run.
func (r *Recorder) DropUntilBegin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropping = true
}

// NameLocks makes the recorder replace the prefixed keys that nodes and links report by the names
// of the locks.
func (r *Recorder) NameLocks(prefix string, locks []string) {
	if prefix == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = map[string]string{}
	for _, name := range locks {
		r.names[prefix+name] = name
	}
}

// Record numbers e and writes it. Err returns a write error later, so that those who record facts
// need not handle it.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropping = r.dropping && (e.Type != Begin || e.Op != OpRun); r.dropping {
		return
	}
	r.n++
	e.N = r.n
	if name, ok := r.names[e.Key]; ok {
		e.Key = name
	}
	e = e.asRead()
	if r.w != nil {
		r.write(&e)
	}
	for _, f := range r.watch {
		f(e)
	}
}

func (r *Recorder) write(e *Event) {
	line, err := appendLine(r.line[:0], e)
	if err == nil {
		r.line = line
		_, err = r.w.Write(line)
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("write history event %d: %w", e.N, err)
	}
}

// Err returns the first write error.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
