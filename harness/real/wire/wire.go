// Package wire is how lockpick calls a part of itself that runs elsewhere, as in a
// container: over that process's stdin and stdout, one JSON value a line.
//
//	Caller                                       Serve
//	{"id":7,"call":"cut","args":{…}}      ──►
//	                                      ◄──    {"id":7,"result":{…}}
//	                                      ◄──    {"notice":"event","result":{…}}
//
// Its nouns are Caller, the end that asks; Serve, the end that answers; and Errors,
// the errors by which callers branch, which keep who they are on their way. Calls
// are answered as each is done, in no order; a notice is nobody's answer.
//
// Deliberately missing: how the other process comes to be, and what is called.
package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// message is a line. One with an id and a call asks, one with an id alone answers.
type message struct {
	ID     int64           `json:"id,omitempty"`
	Call   string          `json:"call,omitempty"`
	Notice string          `json:"notice,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Is     []string        `json:"is,omitempty"` // which of Errors it is
}

// Errors are errors by which a caller branches, by names that both ends know.
type Errors map[string]error

// names lists which of them err is.
func (known Errors) names(err error) (is []string) {
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
func (known Errors) revive(m message) error {
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
