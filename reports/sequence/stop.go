package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/reports/words"
)

// mostKeys is how many nodes' keys a text tells of.
const mostKeys = 15

// stopped is where the record was stopped, and what was seen then; nil: nowhere.
func (f *facts) stopped() *Stopped {
	if f.stop == nil {
		return nil
	}
	s := &Stopped{At: f.stop.T, Why: f.stop.Cause, Lock: f.stop.Key, Events: numbers(f.stop)}
	slices.SortStableFunc(f.keys, func(a, b *event) int { return cmp.Compare(a.N, b.N) }) // as the nodes are named
	for _, e := range f.keys {
		s.Keys = append(s.Keys, NodeKey{Node: e.Node, Text: f.stands(e)})
		s.Events = append(s.Events, e.N)
	}
	return s
}

// stands says how a key stood on a node.
func (f *facts) stands(e *event) string {
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
func (f *facts) owner(token string) string {
	for _, s := range f.sessions {
		if a := s.acquire(); a.ret != nil && a.ret.Token == token && token != "" {
			return short(s.client) + "'s key"
		}
	}
	for _, e := range f.tries {
		if e.Token == token && token != "" {
			return short(linkClient(e)) + "'s key of another attempt"
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
