package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

func array(b []byte, n int) []byte {
	b = strconv.AppendInt(append(b, '*'), int64(n), 10)
	return append(b, '\r', '\n')
}

func bulk(b []byte, s string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)), 10)
	b = append(append(b, '\r', '\n'), s...)
	return append(b, '\r', '\n')
}

// bulks is a bulk string in two parts.
func bulks(b []byte, s, more string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)+len(more)), 10)
	b = append(append(append(b, '\r', '\n'), s...), more...)
	return append(b, '\r', '\n')
}

func number(b []byte, v int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], v, 10)
	b = strconv.AppendInt(append(b, '$'), int64(len(d)), 10)
	b = append(append(b, '\r', '\n'), d...)
	return append(b, '\r', '\n')
}

// command is a command of several words.
func command(b []byte, words ...string) []byte {
	b = array(b, len(words))
	for _, w := range words {
		b = bulk(b, w)
	}
	return b
}

// run begins a command that runs a script: by its digest, or by its whole text, which
// the node keeps.
func run(b []byte, s driver.Script, whole bool, keys, args int) []byte {
	b = array(b, 3+keys+args)
	if whole {
		b = bulk(append(b, "$4\r\nEVAL\r\n"...), s.Text)
	} else {
		b = bulk(append(b, "$7\r\nEVALSHA\r\n"...), s.SHA)
	}
	return number(b, int64(keys))
}

// step is a request that is no release, to the process with a run_id; "": nobody knows it.
func step(b []byte, r *redlock.Request, whole bool, runID string) []byte {
	switch r.Op {
	case redlock.OpSet:
		b = bulk(bulk(append(b, "*6\r\n$3\r\nSET\r\n"...), r.Key), r.Token)
		return number(append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...), r.TTL.Milliseconds())
	case redlock.OpExtend:
		b = bulk(bulk(run(b, driver.Extend, whole, 1, 2), r.Key), r.Token)
		return number(b, r.TTL.Milliseconds())
	case redlock.OpSetFenced:
		b = bulks(bulk(run(b, driver.SetFenced, whole, 2, 2), r.Key), r.Key, driver.CountSuffix)
		return number(bulk(b, r.Token), r.TTL.Milliseconds())
	case redlock.OpRaiseFence:
		b = bulks(bulk(run(b, driver.RaiseFence, whole, 2, 2), r.Key), r.Key, driver.CountSuffix)
		return number(bulk(b, r.Token), r.Count)
	case redlock.OpGrant:
		return grant(b, r, whole, runID)
	case redlock.OpAbandon: // the grant was before it, or will never be
		return bulk(bulk(releases(b, 1, whole), r.Key), r.Token)
	case redlock.OpIdentify:
		return run(b, driver.Identity, true, 0, 0)
	case redlock.OpReady:
		return bulk(bulk(run(b, driver.Ready, true, 2, 0), driver.KnownAs), driver.Quarantine)
	}
	panic(fmt.Sprintf("wire: a request has step %d, which does not exist", r.Op))
}

// grants is OpGrant of several requests on the same terms, which go in one command.
func grants(b []byte, all []entry, whole bool, runID string) []byte {
	if len(all) == 0 {
		return b
	}
	terms := all[0].r.Terms
	if len(all) == 1 {
		return grant(b, all[0].r, whole, runID)
	}
	keys, counted := len(all), int64(0)
	if terms.Fence {
		keys, counted = 2*keys, 1
	}
	if terms.Quarantine > 0 {
		keys += 2
	}
	b = run(b, driver.Grants, whole, keys, len(all)+4)
	for _, e := range all {
		b = bulk(b, e.r.Key)
	}
	if terms.Fence {
		for _, e := range all {
			b = bulks(b, e.r.Key, driver.CountSuffix)
		}
	}
	if terms.Quarantine > 0 {
		b = bulk(bulk(b, driver.KnownAs), driver.Quarantine)
	}
	for _, e := range all {
		b = bulk(b, e.r.Token)
	}
	return bulk(number(number(number(b, terms.TTL.Milliseconds()), counted), terms.Quarantine.Milliseconds()), runID)
}

// grant is OpGrant. It needs no tombstone, for no grant comes after its release.
func grant(b []byte, r *redlock.Request, whole bool, runID string) []byte {
	args, counted := 4, int64(0)
	if runID != "" {
		args = 5
	}
	if r.Fence {
		counted = 1
	}
	b = run(b, driver.Grant, whole, 5, args)
	b = bulk(bulks(bulk(b, r.Key), r.Key, driver.CountSuffix), r.Key)
	b = bulk(bulk(bulk(b, driver.KnownAs), driver.Quarantine), r.Token)
	b = number(number(number(b, r.TTL.Milliseconds()), counted), r.Quarantine.Milliseconds())
	if runID != "" {
		b = bulk(b, runID)
	}
	return b
}

// reply is what a node answers: a value, which is above 0 for yes, or an error; or the
// head of so many items, which are replies and follow.
type reply struct {
	value int64
	err   error
	items int
	text  string
}

// errShort says that a reply is not complete yet.
var errShort = errors.New("incomplete")

// maxBulk bounds a text that a node sends; none that is asked for is longer than a digest.
const maxBulk = 1 << 10

// word is a bulk string of a word's length: those of replies that say yes are of no interest.
func word(b []byte) string {
	if len(b) < 8 {
		return ""
	}
	return string(b)
}

// parse cuts one reply off b, and returns its length.
func parse(b []byte) (r reply, size int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return reply{}, 0, errShort
	}
	if end < 2 || b[end-1] != '\r' {
		return reply{}, 0, fmt.Errorf("the node sent %.40q, which is no RESP2", b[:end])
	}
	kind, text, size := b[0], b[1:end-1], end+1
	if kind == '+' {
		return reply{value: 1}, size, nil
	}
	if kind == '-' {
		return reply{err: driver.Advise(errors.New(string(text)))}, size, nil
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil:
	case kind == ':':
		return reply{value: v}, size, nil
	case kind == '*' && v > 0 && v <= most:
		return reply{items: int(v)}, size, nil
	case kind == '$' && v == -1:
		return reply{}, size, nil
	case kind == '$' && v >= 0 && v <= maxBulk:
		if size += int(v) + 2; len(b) < size {
			return reply{}, 0, errShort
		}
		return reply{value: 1, text: word(b[end+1 : size-2])}, size, nil
	}
	return reply{}, 0, fmt.Errorf("the node sent %.40q, which answers nothing that it was asked", b[:end-1])
}
