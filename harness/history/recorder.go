package history

import (
	"fmt"
	"io"
	"sync"
)

// Recorder numbers events, passes them to its watchers and, if it has a writer, writes each of them
// immediately as a line of JSON. It is safe for concurrent use.
type Recorder struct {
	mu        sync.Mutex
	w         io.Writer // may be nil
	lastN     int64
	err       error
	line      []byte // reused buffer
	watchers  []func(Event)
	lockNames map[string]string // by prefixed key
	dropping  bool              // the run has not begun
}

// NewRecorder returns a recorder that calls w.Write once per event. If w is nil, events are passed
// to watchers only.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// Watch makes the recorder call f with every later event, in order and exactly as a reader will see
// it. f runs while the recorder is locked, so it must neither block nor record events.
func (r *Recorder) Watch(f func(Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, f)
}

// DropUntilBegin makes the recorder drop all events until the run begins, such as those from nodes
// that died during setup.
func (r *Recorder) DropUntilBegin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropping = true
}

// NameLocks makes the recorder replace the prefixed keys reported by nodes and links with lock
// names.
func (r *Recorder) NameLocks(prefix string, locks []string) {
	if prefix == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lockNames = map[string]string{}
	for _, name := range locks {
		r.lockNames[prefix+name] = name
	}
}

// Record numbers e and writes it. A write error is kept for Err.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropping = r.dropping && (e.Type != Begin || e.Op != OpRun); r.dropping {
		return
	}
	r.lastN++
	e.N = r.lastN
	if name, ok := r.lockNames[e.Key]; ok {
		e.Key = name
	}
	e = e.normalize()
	if r.w != nil {
		r.write(&e)
	}
	for _, f := range r.watchers {
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
