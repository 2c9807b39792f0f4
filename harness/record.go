package harness

import "lockpick/harness/history"

// record is what the engine writes of the history: events of now, unless they say
// otherwise.
type record struct {
	cluster Cluster
	to      *history.Recorder
}

func (r record) add(ev history.Event) {
	if ev.T == 0 {
		ev.T = int64(r.cluster.Now())
	}
	r.to.Record(ev)
}

func (r record) note(text string) {
	r.add(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpRun, Cause: text})
}
