package sim

import (
	"bytes"
	"fmt"

	"lockpick/harness/resp"
)

// tokens numbers the values of keys, by their first appearance on a link, where a lock draws
// them from a source that nobody can seed. The numbers stand for them in what is recorded,
// and where dice are named by what a message holds: so a seed has one history. Nodes and
// clients have the values themselves. nil: they are the seed's own.
type tokens map[string]string

// of is the number of a value, or the value.
func (t tokens) of(value string) string {
	if number, known := t[value]; known {
		return number
	}
	return value
}

// note numbers the tokens of commands, and returns a request's bytes with the numbers in
// their place.
func (t tokens) note(payload []byte, commands []*resp.Command) []byte {
	if t == nil {
		return payload
	}
	for _, c := range commands {
		if c.Token != "" && t[c.Token] == "" {
			t[c.Token] = fmt.Sprintf("token-%d", len(t)+1)
		}
		for _, word := range c.Args {
			payload = t.replace(payload, word)
		}
	}
	return payload
}

// hide returns a reply's bytes with the numbers in the tokens' place.
func (t tokens) hide(payload []byte, answers []*resp.Command) []byte {
	if t == nil {
		return payload
	}
	for _, c := range answers {
		payload = t.hideValue(payload, c.Reply)
	}
	return payload
}

func (t tokens) hideValue(payload []byte, v resp.Value) []byte {
	for _, item := range v.Items {
		payload = t.hideValue(payload, item)
	}
	return t.replace(payload, v.Str)
}

func (t tokens) replace(payload []byte, word string) []byte {
	if number, known := t[word]; known {
		return bytes.ReplaceAll(payload, []byte(word), []byte(number))
	}
	return payload
}
