package sequence

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// drawExtend notes an extension. Those that came to the same, one after the
// other, are one note at the first of them.
func (b *builder) drawExtend(s *session, c facts.Operation, me int) {
	run := s.alike(c)
	if run == nil {
		return
	}
	last := run[len(run)-1]
	n := Note{Lane: me, At: c.Call.T, Mark: Dot, Events: numbers(c.Call, c.Return, last.Call, last.Return)}
	who, what := short(s.Client()), "extends"
	if len(run) > 1 {
		what += " " + words.Plural(len(run), "time")
	}
	switch c.Outcome() {
	case history.OK:
		until := facts.Deadline(last.Return)
		n.Label = fmt.Sprintf("%s %s, at last until %s", who, what, words.Seconds(until))
		if len(run) == 1 {
			n.Label = fmt.Sprintf("%s %s until %s", who, what, words.Seconds(until))
		}
		b.caption.tell(n.At, who, fmt.Sprintf("extended it %s, until %s", words.Times(len(run)), words.Seconds(until)))
	case history.Fail:
		n.Label = fmt.Sprintf("%s %s: the lock is lost", who, what)
		b.caption.tell(n.At, who, fmt.Sprintf("found at %s that its lock was lost", words.Seconds(n.At)))
	default:
		n.Label = fmt.Sprintf("%s %s in vain", who, what)
		b.caption.tell(n.At, who, fmt.Sprintf("tried to extend it %s from %s on, in vain", words.Times(len(run)), words.Seconds(n.At)))
	}
	b.sheet.note(n)
}

// alike is the extensions from c on that ended as it did, or nil if c is not the
// first of them.
func (s *session) alike(c facts.Operation) []facts.Operation {
	all := slices.DeleteFunc(slices.Clone(s.calls), func(x facts.Operation) bool { return x.Call.Op != history.OpExtend })
	from := slices.Index(all, c)
	if from > 0 && all[from-1].Outcome() == c.Outcome() {
		return nil
	}
	to := from
	for to < len(all) && all[to].Outcome() == c.Outcome() {
		to++
	}
	return all[from:to]
}

// expiry is when a key that was set is due to expire, by the extensions that its
// node agreed to.
func (f *course) expiry(set *event) int64 {
	at := plus(set.Applied, set.TTL)
	for _, e := range sent(f.wires, facts.Sender(set), set.Sent, f.last) {
		if e.Op == history.OpExtend && e.Type == history.OK && e.Node == set.Node && e.Key == set.Key && e.Token == set.Token && e.Applied > 0 {
			at = max(at, plus(e.Applied, cmp.Or(e.TTL, set.TTL)))
		}
	}
	return at
}
