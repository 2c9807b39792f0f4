package sequence

import "lockpick/harness/history"

// apply is what became of one write at the resource.
type apply struct {
	entry  *event
	before int64    // the version that it met
	lost   []string // clients whose updates it did away with
	fence  int64    // the largest fencing token that the resource had seen
}

// mostVersions is more than any run makes.
const mostVersions = 1 << 50

// readLog replays the resource's log. A write raises the version by one; one that
// is based on an older version than it meets does away with what came between.
func (f *facts) readLog() {
	type state struct {
		version, fence int64
		writers        map[int64]string // version: who made it
	}
	states := map[string]*state{}
	for _, e := range f.log {
		st := states[e.Key]
		if st == nil {
			st = &state{writers: map[int64]string{}}
			states[e.Key] = st
		}
		if e.Version < 0 || e.Version > mostVersions {
			continue
		}
		if e.Cause != history.OpWrite {
			st.version = max(st.version, e.Version)
			st.fence = max(st.fence, e.Fence)
			continue
		}
		a := &apply{entry: e, before: st.version, fence: st.fence}
		if _, ok := f.applies[e.Value]; !ok {
			f.applies[e.Value] = a
		}
		if e.Type != history.OK {
			continue
		}
		// Far more than a few lost versions is no history of ours.
		for v := max(e.Version, st.version-100) + 1; v <= st.version; v++ {
			if w := st.writers[v]; w != "" {
				a.lost = append(a.lost, w)
			}
		}
		a.lost = unique(a.lost)
		st.fence = max(st.fence, e.Fence)
		st.version = max(st.version, e.Version) + 1
		st.writers[st.version] = f.writer(e)
	}
}

func (f *facts) writer(e *event) string {
	if s := f.named[e.Session]; s != nil {
		return s.client
	}
	return e.Session
}

// appliedAt is when the resource had applied or refused a write, 0 if nobody knows.
func (f *facts) appliedAt(value string) int64 {
	if a := f.applies[value]; a != nil && a.entry.Applied != 0 {
		return a.entry.Applied
	}
	if w := f.wireWrite(value); w != nil {
		return w.Applied
	}
	return 0
}

// wireWrite is the write as its link saw it.
func (f *facts) wireWrite(value string) *event {
	for _, w := range f.wires {
		if w.Op == history.OpWrite && w.Value == value && value != "" {
			return w
		}
	}
	return nil
}
