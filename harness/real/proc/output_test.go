package proc

import (
	"fmt"
	"testing"
)

func TestOutputKeepsBothEnds(t *testing.T) {
	for _, piece := range []int{1, 7, outputEndLen, 3*outputEndLen + 1} {
		for _, size := range []int{0, 1, outputEndLen, 2*outputEndLen - 1, 2 * outputEndLen, 2*outputEndLen + 1, 9*outputEndLen + 5} {
			text := make([]byte, size)
			for i := range text {
				text[i] = 'a' + byte(i%26)
			}
			var o Output
			for rest := text; len(rest) > 0; {
				n := min(piece, len(rest))
				o.Write(rest[:n])
				rest = rest[n:]
			}
			want := string(text)
			if dropped := size - 2*outputEndLen; dropped > 0 {
				want = fmt.Sprintf("%s\n… %d bytes dropped …\n%s", text[:outputEndLen], dropped, text[size-outputEndLen:])
			}
			if got := o.String(); got != want {
				t.Errorf("%d bytes in pieces of %d: got %d bytes, want %d", size, piece, len(got), len(want))
			}
		}
	}
}
