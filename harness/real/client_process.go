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

// ClientMain is the main function of a client process: it reads an order from in, runs the client,
// and reports its progress on out. locks maps the name of each lock kind to its implementation.
// After ClientMain returns, the process must exit, with a nonzero status if the error is not nil.
func ClientMain(in io.Reader, out io.Writer, locks map[string]lock.Kind) error {
	w := &clientConn{in: bufio.NewReader(in), out: json.NewEncoder(out), resume: make(chan struct{}), harnessGone: make(chan struct{}), startTime: time.Now()}
	err := w.run(locks)
	if err != nil {
		w.send(clientReport{Error: err.Error(), Broken: errors.Is(err, lock.ErrBroken)})
	}
	return err
}

// clientConn is a client process's end of its connection to the harness.
type clientConn struct {
	in          *bufio.Reader
	resume      chan struct{} // receives a value when the harness sends goLine
	harnessGone chan struct{} // closed when stdin ends
	startTime   time.Time

	outMu sync.Mutex
	out   *json.Encoder

	pointMu sync.Mutex // lets the client wait at one point at a time
}

func (w *clientConn) run(locks map[string]lock.Kind) error {
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
		return fmt.Errorf("create lock: unknown kind %q", o.Spec.Lock.Kind)
	}
	if o.Clocks {
		w.sendClock()
		go wakeTimers()
	}
	go w.listen()
	done := make(chan error, 1)
	go func() { done <- client.Run(context.Background(), o.Spec, w.env(o, kind.New)) }()
	select {
	case err := <-done:
		return err
	case <-w.harnessGone:
		return errors.New("stdin was closed: the harness is gone")
	}
}

func (w *clientConn) env(o clientOrder, factory lock.Factory) client.Env {
	return client.Env{
		Dial:     new(net.Dialer).DialContext,
		Now:      w.now,
		WallNow:  func() time.Time { return time.Now().Round(0) }, // without the monotonic reading
		After:    time.After,
		TrueTime: func() time.Duration { return proc.TrueClock() - o.Origin },
		Emit:     func(e history.Event) { w.send(clientReport{Event: &e}) },
		OnPoint: func(point string) {
			if slices.ContainsFunc(o.Spec.ArmedPoints, func(p client.Point) bool { return p.Name == point }) {
				w.waitAtPoint(point)
			}
		},
		Lock: factory,
	}
}

// listen handles the lines that follow the order.
func (w *clientConn) listen() {
	defer close(w.harnessGone)
	for {
		line, err := w.in.ReadString('\n')
		switch {
		case err == nil && line == goLine:
			w.resume <- struct{}{}
		case err == nil && line == clockLine:
			w.sendClock()
		default:
			return
		}
	}
}

// now returns the time by the monotonic clock. Setting the wall clock does not affect it.
func (w *clientConn) now() time.Time { return w.startTime.Add(time.Since(w.startTime)) }

func (w *clientConn) sendClock() {
	r := &ClockReading{From: proc.TrueClock()}
	r.Wall, r.Now = time.Now().UnixNano(), w.now().UnixNano()
	r.To = proc.TrueClock()
	w.send(clientReport{Clock: r})
}

// wakeTimers wakes the Go runtime every millisecond, which makes it check all timers. Otherwise
// timers would fire late if the process's clock runs fast, because the kernel measures sleeps by
// its own clock.
func wakeTimers() {
	for range time.Tick(time.Millisecond) {
	}
}

func (w *clientConn) waitAtPoint(point string) {
	w.pointMu.Lock()
	defer w.pointMu.Unlock()
	w.send(clientReport{At: point})
	select {
	case <-w.resume:
	case <-w.harnessGone:
		select {} // the process is about to exit; until then, the client must do nothing
	}
}

// send ignores errors: if the harness is gone, stdin has ended too, and run returns.
func (w *clientConn) send(r clientReport) {
	w.outMu.Lock()
	defer w.outMu.Unlock()
	w.out.Encode(r)
}

// A client process and its harness exchange JSON values over the client's stdin and stdout, one per
// line:
//
//	harness                                  client
//	{"spec":{…},"origin":812345678901}  ──►
//	                                    ◄──  {"event":{…}}
//	                                    ◄──  {"at":"after-acquire"}     and waits
//	go                                  ──►
//	clock                               ──►
//	                                    ◄──  {"clock":{…}}              a clock reading
//	                                    ◄──  {"error":"…"}              if the client fails
//	                                    ◄──  {"left":{}}                after its exit (sent by ClientLoop)
//
// The process exits with status 0 when its work is done, and immediately when its stdin ends.

// clientOrder is the first line that the harness sends to a client.
type clientOrder struct {
	Spec   client.Spec   `json:"spec"`
	Origin time.Duration `json:"origin"` // true time zero, by proc.TrueClock
	// Clocks is set if the run may change the client's clocks. The client then starts with a clock
	// reading.
	Clocks bool `json:"clocks,omitempty"`
}

// clientReport is one line of a client's output. Exactly one field is set, except that Broken may
// accompany Error.
type clientReport struct {
	Event  *history.Event `json:"event,omitempty"` // Event.T is true time since the run began
	At     string         `json:"at,omitempty"`    // the point at which the client waits
	Clock  *ClockReading  `json:"clock,omitempty"`
	Error  string         `json:"error,omitempty"`
	Broken bool           `json:"broken,omitempty"` // whether the error is lock.ErrBroken
	Exit   *clientExit    `json:"left,omitempty"`   // sent by ClientLoop after the client's exit
}

func (r clientReport) err() error {
	if r.Broken {
		return &remoteError{r.Error, []error{lock.ErrBroken}} // r.Error already includes ErrBroken's message
	}
	return errors.New(r.Error)
}

// clientExit describes the exit of a client run by ClientLoop.
type clientExit struct {
	Error  string `json:"error,omitempty"`  // "" for exit status 0
	Signal int    `json:"signal,omitempty"` // number of the signal that killed it
}

// ClockReading holds the times that a process's clocks showed at some instant of true time between
// From and To.
type ClockReading struct {
	From time.Duration `json:"from"` // by proc.TrueClock
	To   time.Duration `json:"to"`
	Wall int64         `json:"wall"` // nanoseconds since 1970
	Now  int64         `json:"now"`  // a client's monotonic clock, in nanoseconds; 0 if not read
}

const (
	goLine    = "go\n"    // lets a client continue from its point
	clockLine = "clock\n" // requests a clock reading
)

// clientSession is the harness's end of the connection to a client.
type clientSession struct {
	In             io.Writer                // the client's stdin
	Out            io.Reader                // the client's stdout
	Record         func(history.Event)      // records the client's events
	At             func(point string)       // called at each point; the client waits until it returns
	OnFirstReading func(ClockReading) error // checks the first clock reading
	Clocks         chan ClockReading        // receives the later readings; has capacity 1 and holds the latest
	OnExit         func(clientExit)         // called when ClientLoop reports the client's exit
}

// maxLineBytes limits a line from a client. The lock under test may print to the same stdout.
const maxLineBytes = 16 << 20

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLineBytes:
			return nil, fmt.Errorf("line on stdout is longer than %d bytes: %.60q…", maxLineBytes, line)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// run sends the order and handles reports until the client's output ends. A client that waits at a
// point still answers requests for its clocks.
func (c clientSession) run(o clientOrder) error {
	onFirstReading := c.OnFirstReading
	if err := json.NewEncoder(c.In).Encode(o); err != nil {
		return fmt.Errorf("send order: %w", err)
	}
	var points sync.WaitGroup
	defer points.Wait()
	for lines := bufio.NewReader(c.Out); ; {
		line, err := readLine(lines)
		if err == io.EOF {
			return nil // drop an incomplete line, which a kill has cut off
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
				io.WriteString(c.In, goLine) // fails if the client was killed in the meantime; its stdout then ends
			})
		case r.Clock != nil && onFirstReading != nil:
			if err := onFirstReading(*r.Clock); err != nil {
				return err
			}
			onFirstReading = nil
		case r.Clock != nil:
			select {
			case <-c.Clocks: // drop an old reading that nobody received
			default:
			}
			c.Clocks <- *r.Clock
		case r.Exit != nil:
			c.OnExit(*r.Exit)
			return nil
		case r.Error != "":
			return r.err()
		}
	}
}

// ClientLoop runs clients one after another, for environments such as containers, which are
// expensive to create but start processes cheaply. Each order gets a fresh process, started as soon
// as the previous one has exited. Later lines go to the same process until it exits. After each
// exit, ClientLoop calls afterExit unless it is nil, and then reports the exit. It returns when in
// is closed, or when a process exits before it has received an order.
func ClientLoop(in io.Reader, out, errs io.Writer, program []string, afterExit func()) error {
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
		exit, err := runNext(program, out, errs, lines)
		if exit == nil || err != nil {
			return err
		}
		if afterExit != nil {
			afterExit()
		}
		text, err := json.Marshal(clientReport{Exit: exit})
		if err != nil {
			return err
		}
		// A process killed in the middle of a line leaves the line without a newline.
		if _, err := fmt.Fprintf(out, "\n%s\n", text); err != nil {
			return err
		}
	}
}

// runNext runs one client and returns its exit, or nil once lines is closed.
func runNext(program []string, out, errs io.Writer, lines <-chan string) (*clientExit, error) {
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = out, errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	waitErr := make(chan error, 1)
	go func() { waitErr <- cmd.Wait() }()
	for ordered := false; ; {
		select {
		case line, ok := <-lines:
			if !ok {
				cmd.Process.Kill() // fails if the client has exited
				<-waitErr
				return nil, nil
			}
			// A late line for the previous client must not become the next one's order.
			if ordered = ordered || strings.HasPrefix(line, "{"); ordered {
				io.WriteString(in, line) // fails if the client has exited
			}
		case err := <-waitErr:
			if !ordered {
				return nil, fmt.Errorf("a client exited before it received an order: %v", err)
			}
			if err == nil {
				return &clientExit{}, nil
			}
			result := &clientExit{Error: err.Error()}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				if status, ok := exit.Sys().(interface {
					Signaled() bool
					Signal() syscall.Signal
				}); ok && status.Signaled() {
					result.Signal = int(status.Signal())
				}
			}
			return result, nil
		}
	}
}
