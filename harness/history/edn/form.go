package edn

import "strings"

// kind is what a form is, as far as a history cares.
type kind byte

const (
	symbol  kind = iota // nil, true, numbers and symbols, as they are written
	keyword             // without its colon
	text                // a string or a character, unescaped
	vector              // or a list
	table               // a map: keys and values by turns
	set
)

// form is one value. Its tags are passed over, for what they mean nobody here knows.
type form struct {
	kind  kind
	text  string
	items []form
	line  int // on which it begins, from 1
}

// get is the value of a keyword in a map, or nil.
func (f *form) get(key string) *form {
	for i := 0; i+1 < len(f.items); i += 2 {
		if k := f.items[i]; k.kind == keyword && k.text == key {
			return &f.items[i+1]
		}
	}
	return nil
}

// isNil reports whether a value is absent or nil.
func (f *form) isNil() bool { return f == nil || f.kind == symbol && f.text == "nil" }

// mentions reports whether a keyword is the form, or anywhere in it.
func (f *form) mentions(key string) bool {
	if f == nil {
		return false
	}
	for i := range f.items {
		if f.items[i].mentions(key) {
			return true
		}
	}
	return f.kind == keyword && f.text == key
}

// String is the form on one line, as Clojure might print it.
func (f *form) String() string {
	var parts []string
	for i := range f.items {
		parts = append(parts, f.items[i].String())
	}
	all := strings.Join(parts, " ")
	switch f.kind {
	case keyword:
		return ":" + f.text
	case vector:
		return "[" + all + "]"
	case table:
		return "{" + all + "}"
	case set:
		return "#{" + all + "}"
	}
	return f.text
}
