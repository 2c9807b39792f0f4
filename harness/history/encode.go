package history

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Lines are the lines of a whole record, as a Recorder writes them, of its events in any order.
func Lines(events []Event) (lines []byte, err error) {
	recorded := make([]*Event, len(events))
	for i := range events {
		recorded[events[i].N-1] = &events[i]
	}
	for _, e := range recorded {
		if lines, err = appendLine(lines, e); err != nil {
			return nil, fmt.Errorf("write history event %d: %w", e.N, err)
		}
	}
	return lines, nil
}

// appendLine appends an event as its JSON line, the very bytes that
// encoding/json writes, at a fraction of its price: a run writes thousands.
func appendLine(b []byte, e *Event) ([]byte, error) {
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, e.N, 10)
	b = append(b, `,"t":`...)
	b = strconv.AppendInt(b, e.T, 10)
	b = appendString(append(b, `,"process":`...), e.Process)
	b = appendString(append(b, `,"type":`...), string(e.Type))
	b = appendString(append(b, `,"op":`...), e.Op)
	b = appendText(b, `,"key":`, e.Key)
	b = appendText(b, `,"session":`, e.Session)
	b = appendText(b, `,"token":`, e.Token)
	b = appendNumber(b, `,"fence":`, e.Fence)
	b = appendNumber(b, `,"validUntil":`, e.ValidUntil)
	b = appendNumber(b, `,"local":`, e.Local)
	if e.Wall {
		b = append(b, `,"wall":true`...)
	}
	b = appendNumber(b, `,"drift":`, e.Drift)
	b = appendText(b, `,"node":`, e.Node)
	b = appendText(b, `,"value":`, e.Value)
	b = appendNumber(b, `,"version":`, e.Version)
	b = appendNumber(b, `,"ttl":`, e.TTL)
	b = appendNumber(b, `,"sent":`, e.Sent)
	b = appendNumber(b, `,"applied":`, e.Applied)
	b = appendNumber(b, `,"answered":`, e.Answered)
	b = appendNumber(b, `,"step":`, int64(e.Step))
	b = appendText(b, `,"cause":`, e.Cause)
	if e.Life != nil {
		b = e.Life.append(append(b, `,"life":`...))
	}
	if e.Params != nil {
		params, err := json.Marshal(e.Params)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}', '\n'), nil
}

// appendNumber and appendText append a field unless it is empty.

func appendNumber(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

// appendString leaves whatever needs thought to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string can always be written
			return append(b, quoted...)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

// readable is the event as a reader will have it: JSON knows no bytes that are
// no text, so they are lost in writing, as is whether an empty list was there.
func (e Event) readable() Event {
	for _, s := range e.texts() {
		valid(s)
	}
	if e.Life != nil && !e.Life.isText() {
		l := *e.Life
		for _, s := range l.texts() {
			valid(s)
		}
		e.Life = &l
	}
	if e.Params != nil {
		var p Params
		if text, err := json.Marshal(e.Params); err == nil && json.Unmarshal(text, &p) == nil {
			e.Params = &p
		}
	}
	return e
}

func (l *Life) isText() bool {
	for _, s := range l.texts() {
		if !utf8.ValidString(*s) {
			return false
		}
	}
	return true
}

func valid(s *string) {
	if !utf8.ValidString(*s) {
		*s = string([]rune(*s))
	}
}

func (e *Event) texts() [9]*string {
	return [9]*string{&e.Process, (*string)(&e.Type), &e.Op, &e.Key, &e.Session, &e.Token, &e.Node, &e.Value, &e.Cause}
}
