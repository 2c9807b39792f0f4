// Package wire is how lockpick calls a part of itself that runs elsewhere, as in a
// container: over that process's stdin and stdout, one JSON value a line.
//
//	Caller                                       Serve
//	{"id":7,"call":"Cut","args":["c1-n1","drop",""]}  ──►
//	                                      ◄──    {"id":7,"results":["PING got no answer"]}
//	                                      ◄──    {"call":"Event","args":[{…}]}
//
// Its nouns are Caller, the end that asks; Server, the end that answers; and Errors,
// the errors by which callers branch, which keep who they are on their way. A call is
// the name of a method, with its arguments and results as JSON has them. Calls are
// answered as each is done, in no order; one without an id is a notice, which nobody
// answers.
//
// Deliberately missing: how the other process comes to be, and what is called.
package real

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// message is a line. One with an id and a call asks, one with an id alone answers, and
// one with a call alone is a notice.
type message struct {
	ID      int64             `json:"id,omitempty"`
	Call    string            `json:"call,omitempty"`
	Args    []json.RawMessage `json:"args,omitempty"`
	Results []json.RawMessage `json:"results,omitempty"`
	Error   string            `json:"error,omitempty"`
	Is      []string          `json:"is,omitempty"` // which of Errors it is
}

func texts(values []any) (all []json.RawMessage, err error) {
	for _, v := range values {
		text, bad := json.Marshal(v)
		if bad != nil {
			return nil, bad
		}
		all = append(all, text)
	}
	return all, nil
}

// Errors are errors by which a caller branches, by names that both ends know.
type callErrors map[string]error

// names lists which of them err is.
func (known callErrors) names(err error) (is []string) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if errors.Is(err, known[name]) {
			is = append(is, name)
		}
	}
	return is
}

// failure is an error that came over the wire.
type failure struct {
	text string
	is   []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.is }

// revive makes the error of a message again.
func (known callErrors) revive(m message) error {
	if m.Error == "" {
		return nil
	}
	f := &failure{text: m.Error}
	for _, name := range m.Is {
		if err := known[name]; err != nil {
			f.is = append(f.is, err)
		}
	}
	return f
}
