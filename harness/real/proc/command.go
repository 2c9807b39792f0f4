package proc

import (
	"errors"
	"fmt"

	"lockpick/harness/resp"
)

// Answer is what a server that has a name for messages has answered to a command, as Go
// has it: nil, int64, string or a []any of them. An error reply is an error.
func Answer(name string, args []string, v resp.Value, err error) (any, error) {
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	r := reply(v)
	if err, ok := r.(error); ok {
		return nil, fmt.Errorf("ask %s: %s: %w", name, args[0], err)
	}
	return r, nil
}

// reply is a RESP value as Go has it: nil, int64, string, error or a []any of them.
func reply(v resp.Value) any {
	switch {
	case v.Null:
		return nil
	case v.Kind == '-':
		return errors.New(v.Str)
	case v.Kind == ':':
		return v.Int
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '%':
		items := make([]any, len(v.Items))
		for i, it := range v.Items {
			items[i] = reply(it)
		}
		return items
	}
	return v.Str
}
