package real

import (
	"io"
	"strings"
	"testing"
)

// endlessLine is the output of a client that never ends its line, up to a size that a test can read.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = 'x'
	}
	e.left -= len(b)
	return len(b), nil
}

func TestLineWithoutEndIsRefused(t *testing.T) {
	err := conversation{In: io.Discard, Out: &endless{2 * mostLine}}.hold(clientOrder{})
	if err == nil || !strings.Contains(err.Error(), "longer than") || len(err.Error()) > 200 {
		t.Errorf("%.300v", err)
	}
}
