package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real/proc"
)

// ClientMain is the main function of a client's process: it reads its order
// from in, runs the client's program, and reports on out. The process must end
// when it returns, and with a status other than 0 if it returns an error. Locks
// are the kinds of lock that it knows.
func ClientMain(in io.Reader, out io.Writer, locks map[string]lock.Kind) error {
	w := &wire{in: bufio.NewReader(in), out: json.NewEncoder(out), goes: make(chan struct{}), ended: make(chan struct{}), began: time.Now()}
	err := w.work(locks)
	if err != nil {
		w.send(clientReport{Error: err.Error(), Broken: errors.Is(err, lock.ErrBroken)})
	}
	return err
}

// wire is the client's end of the protocol.
type wire struct {
	in    *bufio.Reader
	goes  chan struct{} // the harness said go
	ended chan struct{} // the harness is gone
	began time.Time

	sending sync.Mutex
	out     *json.Encoder

	waiting sync.Mutex // at most one point at a time
}

func (w *wire) work(locks map[string]lock.Kind) error {
	line, err := w.in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	var o clientOrder
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	kind, ok := locks[o.Spec.Lock.Kind]
	if !ok {
		return fmt.Errorf("make lock: there is no kind %q", o.Spec.Lock.Kind)
	}
	if o.Clocks {
		w.tellClock()
		go beat()
	}
	go w.listen()
	done := make(chan error, 1)
	go func() { done <- client.Run(context.Background(), o.Spec, w.env(o, kind.New)) }()
	select {
	case err := <-done:
		return err
	case <-w.ended:
		return errors.New("stdin has ended: the harness is gone")
	}
}

func (w *wire) env(o clientOrder, factory lock.Factory) client.Env {
	return client.Env{
		Dial:  new(net.Dialer).DialContext,
		Now:   w.now,
		Wall:  func() time.Time { return time.Now().Round(0) }, // without the monotonic reading
		After: time.After,
		True:  func() time.Duration { return proc.TrueClock() - o.Origin },
		Emit:  func(e history.Event) { w.send(clientReport{Event: &e}) },
		At: func(point string) {
			if slices.ContainsFunc(o.Spec.Armed, func(p client.Point) bool { return p.Name == point }) {
				w.rendezvous(point)
			}
		},
		Lock: factory,
	}
}

// listen waits for what the harness says after the order.
func (w *wire) listen() {
	defer close(w.ended)
	for {
		line, err := w.in.ReadString('\n')
		switch {
		case err == nil && line == goOn:
			w.goes <- struct{}{}
		case err == nil && line == tellClock:
			w.tellClock()
		default:
			return
		}
	}
}

// now is the monotonic clock, as a time that shows it: to set the wall clock must
// not change what is written down of it.
func (w *wire) now() time.Time { return w.began.Add(time.Since(w.began)) }

func (w *wire) tellClock() {
	r := &ClockReading{From: proc.TrueClock()}
	r.Wall, r.Now = time.Now().UnixNano(), w.now().UnixNano()
	r.To = proc.TrueClock()
	w.send(clientReport{Clock: r})
}

// beat makes timers ring in time: the kernel counts a sleep by its own clock, and where the
// process's runs faster, timers would be late. Whenever it wakes, it looks at them.
func beat() {
	for range time.Tick(time.Millisecond) {
	}
}

func (w *wire) rendezvous(point string) {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	w.send(clientReport{At: point})
	select {
	case <-w.goes:
	case <-w.ended:
		select {} // the process ends; until then this client must do nothing more
	}
}

// send ignores errors: when the harness is gone, stdin ends too.
func (w *wire) send(r clientReport) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.out.Encode(r)
}

// A client subprocess and its harness speak over its stdin and stdout, one JSON
// value a line:
//
//	harness                                  client
//	{"spec":{…},"origin":812345678901}  ──►
//	                                    ◄──  {"event":{…}}
//	                                    ◄──  {"at":"after-acquire"}     and it waits
//	go                                  ──►
//	clock                               ──►
//	                                    ◄──  {"clock":{…}}              what its clocks show
//	                                    ◄──  {"error":"…"}              it can't do its part
//	                                    ◄──  {"left":{}}                it has ended: of its room, if it is in one
//
// It ends with exit status 0 when its work is done, and at once when its stdin ends.

// clientOrder is the first line to a client.
type clientOrder struct {
	Spec   client.Spec   `json:"spec"`
	Origin time.Duration `json:"origin"` // true time zero, by proc.TrueClock
	// Clocks says that its clocks may be turned. It then tells first what they show.
	Clocks bool `json:"clocks,omitempty"`
}

// clientReport is a line from a client. One field is set, beside Broken.
type clientReport struct {
	Event  *history.Event `json:"event,omitempty"` // a fact; T is true time since zero
	At     string         `json:"at,omitempty"`    // it is at a point, and waits
	Clock  *ClockReading  `json:"clock,omitempty"` // what its clocks show
	Error  string         `json:"error,omitempty"`
	Broken bool           `json:"broken,omitempty"` // the error is lock.ErrBroken
	Left   *clientExit    `json:"left,omitempty"`   // it has ended, says its room, which stays
}

// err is the error that it reports.
func (r clientReport) err() error {
	if r.Broken {
		return &failure{r.Error, []error{lock.ErrBroken}} // which its text says already
	}
	return errors.New(r.Error)
}

// clientExit is how a client of a ClientLoop ended.
type clientExit struct {
	Error  string `json:"error,omitempty"`  // "": its exit status was 0
	Signal int    `json:"signal,omitempty"` // that ended it
}

// ClockReading is what a process's clocks showed at an instant between two of true time.
type ClockReading struct {
	From time.Duration `json:"from"` // by proc.TrueClock
	To   time.Duration `json:"to"`
	Wall int64         `json:"wall"` // nanoseconds since 1970
	Now  int64         `json:"now"`  // likewise, of a client's monotonic clock; 0: not read
}

const (
	goOn = "go\n" // lets a client leave its point
	// tellClock asks it what its clocks show.
	tellClock = "clock\n"
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

// ClientLoop lets clients run one after the other where to start a process is cheap and to
// make room for it is not, as in a container. Each order is a fresh process's, which
// waits for it from when the one before has ended; what follows an order is said to that
// process until it ends, of which the room tells. cleared, if it is not nil, is called
// whenever one has ended. Room returns when in ends, or a process that has no order.
func ClientLoop(in io.Reader, out, errs io.Writer, program []string, cleared func()) error {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	for {
		left, err := admit(program, out, errs, lines)
		if left == nil || err != nil {
			return err
		}
		if cleared != nil {
			cleared()
		}
		text, err := json.Marshal(clientReport{Left: left})
		if err != nil {
			return err
		}
		// One that was ended in the middle of a line has not ended that.
		if _, err := fmt.Fprintf(out, "\n%s\n", text); err != nil {
			return err
		}
	}
}

// admit runs one client, and says how it has left; nil: there are no lines any more.
func admit(program []string, out, errs io.Writer, lines <-chan string) (*clientExit, error) {
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = out, errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for ordered := false; ; {
		select {
		case line, more := <-lines:
			if !more {
				cmd.Process.Kill() // it may have ended
				<-ended
				return nil, nil
			}
			// What is said to a client that has ended comes late, and is nobody's order.
			if ordered = ordered || strings.HasPrefix(line, "{"); ordered {
				io.WriteString(in, line) // one that has ended hears nothing
			}
		case err := <-ended:
			if !ordered {
				return nil, fmt.Errorf("a client ended before it had an order: %v", err)
			}
			if err == nil {
				return &clientExit{}, nil
			}
			left := &clientExit{Error: err.Error()}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				if is, ok := exit.Sys().(interface {
					Signaled() bool
					Signal() syscall.Signal
				}); ok && is.Signaled() {
					left.Signal = int(is.Signal())
				}
			}
			return left, nil
		}
	}
}
