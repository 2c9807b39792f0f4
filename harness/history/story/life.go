package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// setLife fills in a fact of a key's life.
func setLife(e *history.Event, fields []string, p history.Params) (err error) {
	l, ttl := e.Life, int64(p.TTL)
	words := map[string]*string{"key": &e.Key, "value": &l.Value, "old": &l.Old, "by": &l.By, "command": &l.Command, "why": &l.Why}
	stamps := map[string]*int64{"local": &e.Local, "sent": &e.Sent, "ttl": &ttl, "lo": &l.Lo, "hi": &l.Hi}
	e.Local = p.Epoch + e.T
	for _, kv := range fields {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case words[name] != nil:
			*words[name] = value
		case stamps[name] != nil:
			*stamps[name], err = nanos(value)
		case name == "script":
			l.Script = true
		default:
			err = fmt.Errorf("no field %q of a fact", name)
		}
		if err != nil {
			return err
		}
	}
	if l.By != "" && l.By != history.Harness && !strings.Contains(l.By, ":") {
		l.By += "-" + e.Process
	}
	switch l.What {
	case history.KeySet, history.KeyChanged, history.KeyExpiry, history.KeyAppeared, history.KeyKept, history.KeyReverted:
		l.Expires = e.Local + ttl
	}
	return nil
}

// order numbers each node's facts as they happened.
func order(h *history.History) {
	var facts []*history.Event
	for i := range h.Events {
		if h.Events[i].Life != nil {
			facts = append(facts, &h.Events[i])
		}
	}
	slices.SortStableFunc(facts, func(a, b *history.Event) int { return cmp.Compare(a.T, b.T) })
	seq := map[string]int64{}
	for _, e := range facts {
		seq[e.Process]++
		e.Life.Seq = seq[e.Process]
	}
}
