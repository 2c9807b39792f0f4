package sequence

import (
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// stopped is where the record was stopped, and what was seen then; nil: nowhere.
func (f *course) stopped() *Stopped {
	if f.Stop == nil {
		return nil
	}
	s := &Stopped{At: f.Stop.T, Why: f.Stop.Cause, Lock: f.Stop.Key, Events: numbers(f.Stop)}
	for _, e := range f.Keys {
		s.Keys = append(s.Keys, NodeKey{Node: e.Node, Text: f.stands(e)})
		s.Events = append(s.Events, e.N)
	}
	return s
}

// stands says how a key stood on a node.
func (f *course) stands(e *event) string {
	switch {
	case e.Type == history.Fail:
		return "no key"
	case e.Type != history.OK:
		return "not seen: " + words.Fit(e.Cause, 60)
	case e.TTL < 0:
		return f.owner(e.Token) + ", without an expiry"
	}
	return fmt.Sprintf("%s, %s left", f.owner(e.Token), words.Span(e.TTL))
}

func (f *course) owner(token string) string {
	for _, s := range f.sessions {
		if a := s.Acquire; a.Return != nil && a.Return.Token == token && token != "" {
			return short(s.Client()) + "'s key"
		}
	}
	for _, e := range f.tries {
		if e.Token == token && token != "" {
			return short(facts.Sender(e)) + "'s key of another attempt"
		}
	}
	return "a key of nobody's, " + words.Fit(token, 12)
}
