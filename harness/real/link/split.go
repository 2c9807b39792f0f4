package link

import (
	"errors"

	"lockpick/harness/resp"
)

// splitter cuts a stream after each message.
type splitter struct {
	part   []byte // of the message that has begun
	broken bool   // it is no RESP
}

// after cuts b after each message that ends in it. What is no RESP passes uncut.
func (s *splitter) after(b []byte) [][]byte {
	var out [][]byte
	rest := append(s.part, b...)
	for len(rest) > 0 && !s.broken {
		_, r, err := resp.Parse(rest)
		if errors.Is(err, resp.ErrShort) {
			break
		}
		if err != nil {
			s.broken = true
			break
		}
		n := len(b) - len(r)
		out, b, rest = append(out, b[:n]), b[n:], r
	}
	if len(b) > 0 {
		out = append(out, b)
	}
	s.part = nil
	if !s.broken {
		s.part = append(s.part, rest...)
	}
	return out
}
