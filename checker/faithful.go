package checker

import (
	"fmt"

	"lockpick/harness/history"
)

// unfaithful says where a history contradicts itself about time: a wire command
// whose stamps are in no order of cause and effect, or a client that does
// something while it was stopped or after it was killed. Then the fault was not
// what the record says, or the stamps are wrong, and neither can be judged by.
//
// The record gives each fault the span in which it was certainly in force: from
// when it was seen to be, until its end was about to begin.
func (in *reading) unfaithful() string {
	stops := map[string][]*fault{}
	for _, f := range in.faults {
		if f.begin != nil && (f.kind == paused || f.kind == killed) {
			stops[f.target] = append(stops[f.target], f)
		}
	}
	if len(stops) == 0 && !in.wired {
		return ""
	}
	for i := range in.events {
		e := &in.events[i]
		if e.Process == history.Nemesis || e.Op == history.OpLife { // a node that is back tells what it has before its end is stamped
			continue
		}
		for _, f := range stops[e.Process] {
			if e.T > f.begin.T && (f.end == nil || e.T < f.end.T) {
				return fmt.Sprintf("%s does something at %s (event %d: %s), and had been stopped since %s (event %d: %s)",
					e.Process, seconds(e.T), e.N, e.Op, seconds(f.begin.T), f.begin.N, f.kind)
			}
		}
		if e.Applied > 0 && e.Sent > e.Applied || e.Answered > 0 && max(e.Sent, e.Applied) > e.Answered {
			return fmt.Sprintf("event %d on %s was sent at %s, applied at %s and answered at %s",
				e.N, e.Process, seconds(e.Sent), seconds(e.Applied), seconds(e.Answered))
		}
	}
	return ""
}
