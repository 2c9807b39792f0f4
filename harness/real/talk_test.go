package real

import (
	"io"
	"strings"
	"testing"
)

// endlessLine simulates the output of a client that never ends its line. For the test, it ends
// after the given number of bytes.
type endlessLine struct{ remaining int }

func (e *endlessLine) Read(b []byte) (int, error) {
	if e.remaining <= 0 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = 'x'
	}
	e.remaining -= len(b)
	return len(b), nil
}

func TestRejectsOverlongLine(t *testing.T) {
	err := clientSession{In: io.Discard, Out: &endlessLine{2 * maxLineBytes}}.run(clientOrder{})
	if err == nil || !strings.Contains(err.Error(), "longer than") || len(err.Error()) > 200 {
		t.Errorf("%.300v", err)
	}
}
