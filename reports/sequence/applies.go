package sequence

import (
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// apply is what became of one write at the resource.
type apply struct {
	facts.Write
	lost []string // clients whose updates it did away with
}

// readLog says of each write whose updates it did away with: one that is based on an
// older version than it meets does so with what came between.
func (f *course) readLog() {
	type version struct {
		key  string
		made int64
	}
	writers := map[version]string{}
	for _, w := range f.Writes() {
		a := &apply{Write: w}
		if _, ok := f.applies[w.Value]; !ok {
			f.applies[w.Value] = a
		}
		if w.Type != history.OK {
			continue
		}
		// Far more than a few lost versions is no history of ours.
		for v := w.Met; v > w.Version && minus(w.Met, v) < 100; v-- {
			if who := writers[version{w.Key, v}]; who != "" {
				a.lost = append([]string{who}, a.lost...)
			}
		}
		a.lost = unique(a.lost)
		writers[version{w.Key, w.Made}] = f.writer(w.Event)
	}
}

func (f *course) writer(e *event) string {
	if s := f.named[e.Session]; s != nil {
		return s.Client()
	}
	return e.Session
}

// appliedAt is when the resource had applied or refused a write, 0 if nobody knows.
func (f *course) appliedAt(value string) int64 {
	if a := f.applies[value]; a != nil && a.Applied != 0 {
		return a.Applied
	}
	if w := f.wireWrite(value); w != nil {
		return w.Applied
	}
	return 0
}

// wireWrite is the write as its link saw it.
func (f *course) wireWrite(value string) *event {
	for _, w := range f.wires {
		if w.Op == history.OpWrite && w.Value == value && value != "" {
			return w
		}
	}
	return nil
}
