package real

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"lockpick/harness/history"
)

// conversation is the harness's end of what is said to one client.
type conversation struct {
	In     io.Writer                // the client's stdin
	Out    io.Reader                // its stdout
	Record func(history.Event)      // takes its facts
	At     func(point string)       // is called when it is at a point; it waits until this returns
	Began  func(ClockReading) error // looks at the first reading of its clocks
	Clocks chan ClockReading        // has the latest of the others; room for one
	Left   func(clientExit)         // hears how it ended, if it was in a room and that is still there
}

// mostLine bounds a line from a client, in bytes. A lock under test may print into it.
const mostLine = 16 << 20

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > mostLine:
			return nil, fmt.Errorf("a line on its stdout is longer than %d bytes: %.60q…", mostLine, line)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// hold gives the order and listens until the client has nothing more to say.
// While the client waits at a point it may still be asked for its clocks.
func (c conversation) hold(o clientOrder) error {
	began := c.Began
	if err := json.NewEncoder(c.In).Encode(o); err != nil {
		return fmt.Errorf("send order: %w", err)
	}
	var points sync.WaitGroup
	defer points.Wait()
	for lines := bufio.NewReader(c.Out); ; {
		line, err := readLine(lines)
		if err == io.EOF {
			return nil // what stands without a newline was cut by a kill
		}
		if err != nil {
			return fmt.Errorf("read report: %w", err)
		}
		if len(line) == 1 {
			continue
		}
		var r clientReport
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read report %.100q: %w", line, err)
		}
		switch {
		case r.Event != nil:
			c.Record(*r.Event)
		case r.At != "":
			points.Go(func() {
				c.At(r.At)
				io.WriteString(c.In, goOn) // if it was killed meanwhile, its stdout ends
			})
		case r.Clock != nil && began != nil:
			if err := began(*r.Clock); err != nil {
				return err
			}
			began = nil
		case r.Clock != nil:
			select {
			case <-c.Clocks: // nobody waits for it any more
			default:
			}
			c.Clocks <- *r.Clock
		case r.Left != nil:
			c.Left(*r.Left)
			return nil
		case r.Error != "":
			return r.err()
		}
	}
}
