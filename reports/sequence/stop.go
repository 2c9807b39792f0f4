package sequence

import (
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// mostKeys is how many nodes' keys a text tells of.
const mostKeys = 15

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

// owner says whose key has a token.
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

// lines tells of a stop.
func (s *Stopped) lines(width int) []string {
	wide := 0
	for _, k := range s.Keys {
		wide = max(wide, len([]rune(escape(short(k.Node)))))
	}
	out := append([]string{""}, wrap(escape(capital(s.Why)+"."), width, 3)...)
	out = append(out, wrap(escape(fmt.Sprintf("%s on the nodes, read at %s:", short(s.Lock), words.Seconds(s.At))), width, 2)...)
	for i, k := range s.Keys {
		if i == mostKeys {
			out = append(out, fmt.Sprintf("  … and %s more", words.Plural(len(s.Keys)-i, "node")))
			break
		}
		name := escape(short(k.Node))
		out = append(out, words.Fit("  "+name+strings.Repeat(" ", wide-len([]rune(name)))+"  "+escape(k.Text), width))
	}
	return out
}
