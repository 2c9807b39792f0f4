package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
)

// decoder decodes lines. Those that appendLine wrote it takes straight from the bytes, at
// a fraction of encoding/json's price. Any other goes to decode, which alone says what is
// wrong with a line; on every line that plain takes, the two agree.
type decoder struct {
	rest []byte // of the line, not read yet; nil once it proved not to be plain
	seen recent
}

// event decodes a line into e, which must be empty.
func (d *decoder) event(line []byte, e *Event) error {
	if d.plain(line, e) {
		return nil
	}
	var err error
	*e, err = decode(line)
	for _, s := range e.texts() {
		*s = d.seen.again(*s)
	}
	if e.Life != nil {
		for _, s := range e.Life.texts() {
			*s = d.seen.again(*s)
		}
	}
	return err
}

// plain decodes a line as appendLine writes it, without params and escapes, or
// says that this is none. The order of the fields is fixed, so that none can be
// there twice; one that is missing is empty, as in encoding/json.
func (d *decoder) plain(line []byte, e *Event) bool {
	var step int64
	d.rest = line
	d.number(`{"n":`, &e.N)
	d.number(`,"t":`, &e.T)
	d.text(`,"process":"`, &e.Process)
	d.text(`,"type":"`, (*string)(&e.Type))
	d.text(`,"op":"`, &e.Op)
	d.text(`,"key":"`, &e.Key)
	d.text(`,"session":"`, &e.Session)
	d.text(`,"token":"`, &e.Token)
	d.number(`,"fence":`, &e.Fence)
	d.number(`,"validUntil":`, &e.ValidUntil)
	d.number(`,"local":`, &e.Local)
	e.Wall = d.next(`,"wall":true`)
	d.number(`,"drift":`, &e.Drift)
	d.text(`,"node":"`, &e.Node)
	d.text(`,"value":"`, &e.Value)
	d.number(`,"version":`, &e.Version)
	d.number(`,"ttl":`, &e.TTL)
	d.number(`,"sent":`, &e.Sent)
	d.number(`,"applied":`, &e.Applied)
	d.number(`,"answered":`, &e.Answered)
	d.number(`,"step":`, &step)
	d.text(`,"cause":"`, &e.Cause)
	d.life(e)
	e.Step = int(step)
	ended := string(d.rest) == "}\n" || string(d.rest) == "}" // a last line may lack its end
	return ended && int64(e.Step) == step && e.check() == nil
}

// next takes a field's name off the line, if that is what comes next.
func (d *decoder) next(name string) bool {
	if len(d.rest) < len(name) || string(d.rest[:len(name)]) != name {
		return false
	}
	d.rest = d.rest[len(name):]
	return true
}

// number reads a field that is a whole number, if it is the next one.
func (d *decoder) number(name string, n *int64) {
	if !d.next(name) {
		return
	}
	b := d.rest
	i, sign := 0, int64(1)
	if len(b) > 0 && b[0] == '-' {
		i, sign = 1, -1
	}
	first, v := i, uint64(0)
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		v = v*10 + uint64(b[i]-'0')
	}
	// Nineteen digits fit into 64 bits; JSON knows no leading zeros.
	if digits := i - first; digits == 0 || digits > 19 || v > math.MaxInt64 || b[first] == '0' && digits > 1 {
		d.rest = nil
		return
	}
	*n, d.rest = sign*int64(v), b[i:]
}

// text reads a field that is a string, if it is the next one.
func (d *decoder) text(name string, s *string) {
	if !d.next(name) {
		return
	}
	for i, c := range d.rest {
		switch {
		case c == '"':
			*s, d.rest = d.seen.of(d.rest[:i]), d.rest[i+1:]
			return
		case c < ' ' || c > '~' || c == '\\':
			d.rest = nil
			return
		}
	}
	d.rest = nil
}

func decode(line []byte) (Event, error) {
	var e Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("not an event: something follows on the same line")
	}
	return e, e.check()
}

func (e *Event) check() error {
	if e.N <= 0 || e.Type == "" || e.Process == "" || e.Op == "" {
		return errors.New("not an event: n, process, type and op are needed")
	}
	if e.Op == OpLife && e.Life == nil {
		return errors.New("not an event: op life without the fact")
	}
	return nil
}

// recent are the strings seen lately, so that events which say the same share it: a token
// stands in a dozen events near each other. A newer one takes the place of an older one, so
// the table stays as large as it is, whatever a file holds.
type recent struct {
	seed  maphash.Seed
	slots []string
}

const slots = 1 << 13

func newRecent() recent {
	return recent{maphash.MakeSeed(), make([]string, slots)}
}

// of returns the string of bytes that may be written over.
func (s *recent) of(b []byte) string {
	slot := &s.slots[maphash.Bytes(s.seed, b)%slots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// again returns a string that is equal.
func (s *recent) again(t string) string {
	slot := &s.slots[maphash.String(s.seed, t)%slots]
	if *slot != t {
		*slot = t
	}
	return *slot
}
