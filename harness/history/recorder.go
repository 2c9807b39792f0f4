package history

import (
	"fmt"
	"io"
	"sync"
)

// Recorder numbers events, shows each to those who watch, and writes it as one JSON line
// at once, where it writes. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	w     io.Writer // nil: it writes nothing
	n     int64
	err   error
	line  []byte // the last one, to be written over
	watch []func(Event)
	names map[string]string // of locks, by their keys, where these differ
	early bool              // the run has not begun
}

// NewRecorder returns a recorder that writes to w, one Write for each event; nil: what is
// recorded is there for those who watch only.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// Watch calls f with every later event, in order, as a reader will have it, and
// under the recorder's lock: f must neither block nor record.
func (r *Recorder) Watch(f func(Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = append(r.watch, f)
}

// AwaitBegin drops all events until the run's first: a node that dies while the run is set up
// may have facts to tell, and they are no part of it.
func (r *Recorder) AwaitBegin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.early = true
}

// Rename has each lock called by its name where its nodes and links tell of its key, which has
// a prefix.
func (r *Recorder) Rename(prefix string, locks []string) {
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

// Record numbers e and writes it. A write error is kept for Err, so that those
// who observe facts need not handle it.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.early = r.early && (e.Type != Begin || e.Op != OpRun); r.early {
		return
	}
	r.n++
	e.N = r.n
	if name, ok := r.names[e.Key]; ok {
		e.Key = name
	}
	e = e.readable()
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

// Err returns the first error that writing met.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
