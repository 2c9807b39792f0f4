package proc

import (
	"fmt"
	"strings"
	"sync"
)

// keptOutput is how many bytes of an Output's beginning, and of its end, are kept: the
// beginning has the first error, and the end the last one.
const keptOutput = 2000

// Output keeps the beginning and the end of what a program writes, however much that is.
type Output struct {
	mu         sync.Mutex
	head, tail []byte
	written    int64
}

// Write implements io.Writer. It never fails.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(b)
	return len(b), nil
}

// add is Write with the lock held.
func (o *Output) add(b []byte) {
	o.written += int64(len(b))
	n := min(len(b), keptOutput-len(o.head))
	o.head = append(o.head, b[:n]...)
	b = b[n:]
	b = b[max(0, len(b)-keptOutput):]
	o.tail = append(o.tail[max(0, len(o.tail)+len(b)-keptOutput):], b...)
}

// String returns what was kept, and in its place how much was dropped.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := ""
	if n := o.written - int64(len(o.head)+len(o.tail)); n > 0 {
		dropped = fmt.Sprintf("\n… %d bytes dropped …\n", n)
	}
	return strings.TrimSpace(string(o.head) + dropped + string(o.tail))
}
