package harness

import (
	"reflect"
	"testing"

	"lockpick/harness/history"
)

func TestKeysAreReadWhateverStandsThere(t *testing.T) {
	type stand struct {
		typ   history.Type
		token string
		left  int64
	}
	for name, row := range map[string]struct {
		reply any
		want  stand
	}{
		"a key":      {[]any{"abc", int64(1500)}, stand{history.OK, "abc", 1.5e9}},
		"for ever":   {[]any{"abc", int64(-1)}, stand{history.OK, "abc", -1}},
		"no key":     {[]any{nil, int64(-2)}, stand{history.Fail, "", 0}},
		"no answer":  {nil, stand{history.Info, "", 0}},
		"an oddment": {[]any{"abc"}, stand{history.Info, "", 0}},
	} {
		var got stand
		got.typ, got.token, got.left = stands(row.reply)
		if !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}
