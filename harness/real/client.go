package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real/proc"
)

// Main is the main function of a client's process: it reads its order
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
