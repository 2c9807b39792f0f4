package sequence

import (
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

type written struct {
	mark  Mark
	label string
	words string // for the caption
	bad   bool
}

// wrote says what became of a session's write: p is the resource's word on it, or nil,
// and at is when the resource had it, or 0.
func (s *session) wrote(c facts.Operation, p *apply, at int64, fencing string) written {
	who, base := short(s.Client()), c.Call.Version
	late := at != 0 && at >= s.until && s.Granted()
	when := display.Seconds(at)
	if late {
		when += ", after " + s.lateness()
	}
	applied := p != nil && p.Type == history.OK || p == nil && c.Outcome() == history.OK
	switch {
	case at == 0:
		return written{label: "no answer", words: fmt.Sprintf("sent a write at %s that is not known to have arrived", display.Seconds(c.Call.T))}
	case !applied:
		why := refusal(fencing, c.Call.Fence, p)
		return written{mark: cross, label: "refused" + why, words: fmt.Sprintf("wrote at %s, and was refused%s", when, why)}
	}
	w := written{mark: dot, label: fmt.Sprintf("accepted: %s writes on version %d", who, base), bad: late,
		words: fmt.Sprintf("wrote at %s, based on version %d", when, base)}
	if p != nil && p.Met == base {
		w.label = fmt.Sprintf("accepted: version %d → %d", base, base+1)
		w.words = fmt.Sprintf("wrote version %d → %d at %s", base, base+1, when)
	}
	if late {
		w.label = "ACCEPTED after " + s.lateness()
	}
	if p != nil && p.Met > base {
		w.bad = true
		victim := fmt.Sprintf("version %d", p.Met)
		if len(p.lost) > 0 {
			victim = versionsLost(p.lost)
		}
		is, was := "is", "was"
		if len(p.lost) > 1 {
			is, was = "are", "were"
		}
		if !late {
			w.label = "ACCEPTED"
		}
		w.label += fmt.Sprintf(", based on version %d: %s %s LOST", base, victim, is)
		w.words += ": " + victim + " " + was + " lost"
	}
	return w
}

// lateness is what a write came after that came too late.
func (s *session) lateness() string {
	switch s.ended {
	case facts.Released:
		return "its release"
	case facts.Died:
		return "its death"
	case facts.Lost:
		return "it was told of its loss"
	}
	return "its lease ended"
}

// refusal says why the resource refused a write with a fencing token.
func refusal(fencing string, fence int64, p *apply) string {
	switch {
	case fencing == "check-and-set":
		return ": its claim was taken over"
	case p != nil && p.Seen > fence:
		return fmt.Sprintf(": its fence %d is below %d", fence, p.Seen)
	}
	return ""
}
