package facts

import (
	"cmp"

	"lockpick/harness/history"
)

// Write is an entry of the resource's log that is a write, applied or refused. A version
// is the number of writes applied to a key; a read that says otherwise is believed, for
// it is the resource that counts.
type Write struct {
	*history.Event
	Read *history.Event // the last read of its session before, on which it is based; nil: not in the log
	Met  int64          // the version that it met
	Made int64          // the version that it made, if it was applied
	Seen int64          // the largest fencing token that the resource had accepted until then
}

// Writes is the writes of the resource's log, in the order of apply.
func (f *Facts) Writes() []Write {
	type resource struct{ version, fence int64 }
	keys := map[string]*resource{}
	reads := map[string]*history.Event{}
	var all []Write
	for _, e := range f.Log {
		r := keys[e.Key]
		if r == nil {
			r = &resource{}
			keys[e.Key] = r
		}
		applied := e.Type == history.OK
		if e.Cause == history.OpWrite {
			w := Write{Event: e, Read: reads[e.Session], Met: r.version, Seen: r.fence}
			if applied {
				r.version++
				w.Made = r.version
			}
			all = append(all, w)
		} else if applied {
			reads[e.Session], r.version = e, e.Version
		}
		if applied {
			r.fence = max(r.fence, e.Fence)
		}
	}
	return all
}

// Applied is when a log entry was applied, or a node had done what a command asked, as
// far as the record knows; of other events when they happened.
func Applied(e *history.Event) int64 { return cmp.Or(e.Applied, e.T) }
