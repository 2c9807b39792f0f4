package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// debt is a release that the node has perhaps not got, though it may have got the set
// before it, and until when that can matter.
type debt struct {
	key, token string
	until      time.Duration
}

// maxDebts bounds what is remembered of a node that is away. Beyond it keys that stay
// behind live until they expire.
const maxDebts = 1 << 16

// maxRest bounds for how long nothing is tried where no connection could be made.
const maxRest = 100 * time.Millisecond

// undone remembers of a request that is answered by an error what is needed later: a
// release that is owed, or that a set was never sent, whose release then isn't.
func (n *line) undone(e entry) {
	d, isRelease := e.release()
	if !isRelease {
		if e.r != nil && sets(e.r.Op) && n.state != up && len(n.unsent) < maxDebts {
			n.unsent[e.r.Token] = struct{}{}
		}
		return
	}
	if _, ok := n.unsent[d.token]; ok {
		delete(n.unsent, d.token)
	} else if n.state != closed && len(n.debts) < maxDebts {
		n.debts = append(n.debts, d)
	}
}

// sets says whether a key may have its token by such a request. The other requests of a holder, such as
// extensions, say nothing of whether its set was sent.
func sets(op redlock.Op) bool {
	return op == redlock.OpSet || op == redlock.OpSetFenced || op == redlock.OpGrant
}

// Settle implements redlock.Debtor.
func (n *line) Settle(ctx context.Context) error {
	for {
		owed := n.owed()
		if owed == 0 {
			return nil
		}
		select {
		case <-n.o.After(n.o.Timeout / 8):
		case <-ctx.Done():
			return fmt.Errorf("%d releases are owed, which it did not take in time: their keys stay until they expire", owed)
		case <-n.ctx.Done():
			return errClosed
		}
	}
}

// owed is how many releases the node has not answered whose callers were told so.
func (n *line) owed() (sum int) {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.debts {
		if d.until > now {
			sum++
		}
	}
	for _, all := range [][]entry{n.batch.rel, n.waiting.rest()} {
		for _, e := range all {
			if e.owed != nil && e.owed.until > now {
				sum++
			}
		}
	}
	return sum
}

// connect begins to make a connection. Whoever calls it holds the mutex.
func (n *line) connect() {
	n.state = dialling
	n.running.Add(1)
	go func() {
		defer n.running.Done()
		for n.established() {
			select {
			case <-n.o.After(min(n.o.Timeout, maxRest)):
			case <-n.ctx.Done():
			}
			if !n.again() {
				return
			}
		}
	}()
}

// established makes a connection and serves it to its end. If there was none to be had
// it says so, and has told those who wait.
func (n *line) established() (failed bool) {
	c, in, err := n.dial()
	now := n.now()
	n.mu.Lock()
	if n.state == closed {
		n.mu.Unlock()
		if c != nil {
			c.Close()
		}
		return false
	}
	waiting := n.pending
	n.pending = nil
	if err != nil {
		n.state, n.why = resting, fmt.Errorf("connect to %s: %w", n, err)
		for _, e := range waiting {
			n.undone(e)
		}
		err = n.why
		n.mu.Unlock()
		answer(waiting, err)
		return true
	}
	n.state, n.conn, n.raw, n.timer.silent = up, c, nil, 0
	n.id, n.runID = in.id, in.runID
	if s, ok := c.(syscall.Conn); ok {
		n.raw, _ = s.SyscallConn()
	}
	clear(n.unsent)
	n.pay(now)
	for _, e := range waiting {
		n.add(e)
	}
	n.mu.Unlock()
	n.Flush()
	n.fail(c, n.read(in))
	return false
}

// pay puts the debts in front of all else.
func (n *line) pay(now time.Duration) {
	for _, d := range n.debts {
		if d.until > now {
			n.add(entry{owed: &d, due: now + n.o.Timeout})
		}
	}
	n.debts = nil
	n.closeBatch()
	n.arm(now + n.o.Timeout)
}

// again says whether to try once more after a rest: only what is owed needs it, whoever
// else wants a connection asks for one.
func (n *line) again() bool {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == closed {
		return false
	}
	n.state = idle
	for _, d := range n.debts {
		if d.until > now {
			n.state = dialling
			return true
		}
	}
	n.debts = nil
	return false
}

// quick is how many of the lock's time-outs a connection may take at first: some round trips, and
// reckoning. Where a packet is lost the kernel asks again after a second at the earliest, and whoever
// asks anew is answered sooner. Where that was too little, the next may take twice as long.
const quick = 8

func (n *line) dial() (net.Conn, *replies, error) {
	n.patience = min(max(2*n.patience, quick*n.o.Timeout), n.o.DialTimeout)
	ctx, cancel := context.WithTimeout(n.ctx, n.patience)
	defer cancel()
	defer func() {
		if ctx.Err() == nil { // made, or refused
			n.patience = 0
		}
	}()
	c, err := n.o.Dial(ctx, n.network, n.o.Addr)
	if err != nil {
		return nil, nil, err
	}
	if n.o.TLS != nil {
		cfg := n.o.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(n.o.Addr)
		}
		c = tls.Client(c, cfg)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	in := &replies{c: c, buf: make([]byte, 32<<10)}
	if err := greet(ctx, in, n.o, n.id, n.runID); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, in, nil
}

// greet says who is there, makes the node know the scripts (if it won't keep them they are
// sent whole each time), and asks which process it is and how it calls the connection. It has
// that process end the connection before this one, id and runID: what is still to be read of
// it would come after what is sent here. Another process has none, and may call a stranger's by
// its number.
func greet(ctx context.Context, in *replies, o Options, id int64, runID string) error {
	var b []byte
	var must []string // what each of the first commands is, in an error
	if o.Password != "" || o.Username != "" {
		words := []string{"AUTH", o.Username, o.Password}
		if o.Username == "" {
			words = []string{"AUTH", o.Password}
		}
		b, must = command(b, words...), append(must, "AUTH")
	}
	if o.DB != 0 {
		b, must = command(b, "SELECT", strconv.Itoa(o.DB)), append(must, "SELECT")
	}
	if o.ClientName != "" {
		b, must = command(b, "CLIENT", "SETNAME", o.ClientName), append(must, "CLIENT SETNAME")
	}
	b, must = command(b, "CLIENT", "ID"), append(must, "CLIENT ID")
	b = run(b, driver.RunID, true, 0, 0)
	for _, s := range driver.Scripts {
		b = command(b, "SCRIPT", "LOAD", s.Text)
	}
	all, err := in.ask(b, len(must)+1+len(driver.Scripts))
	if err != nil {
		if o.TLS != nil && !in.heard && ctx.Err() != nil {
			err = fmt.Errorf("%w (it may not speak TLS)", err)
		}
		return errors.Join(ended(driver.Advise(err), in, o, id), ctx.Err())
	}
	for i, what := range must {
		if err := all[i].err; err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	in.id = all[len(must)-1].value
	if r := all[len(must)]; r.err == nil {
		in.runID = r.text
	}
	if id == 0 || in.runID != runID || in.id <= id {
		return nil
	}
	all, err = in.ask(command(nil, "CLIENT", "KILL", "ID", strconv.FormatInt(id, 10)), 1)
	switch {
	case err != nil:
		return errors.Join(err, ctx.Err())
	case all[0].err != nil:
		return fmt.Errorf("CLIENT KILL: %w", all[0].err)
	}
	return nil
}

// ended says more of the first connection, where the node ended that without a word.
func ended(err error, in *replies, o Options, id int64) error {
	switch {
	case id != 0 || in.heard || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
		return err
	case o.TLS == nil:
		return fmt.Errorf("the node ended the connection without a word: %w (it may want TLS)", err)
	}
	return fmt.Errorf("the node ended the connection without a word: %w (it may want a certificate of this client)", err)
}

// fail gives c up, once, and answers all that was asked on it.
func (n *line) fail(c net.Conn, err error) {
	n.mu.Lock()
	if n.conn != c {
		n.mu.Unlock()
		return
	}
	n.closeBatch()
	lost := n.waiting.rest()
	n.conn, n.raw, n.waiting, n.out = nil, nil, queue{}, nil
	for _, e := range lost {
		n.undone(e)
	}
	if n.state != closed {
		n.state = idle
		if len(n.debts) > 0 {
			n.connect()
		}
	}
	n.mu.Unlock()
	c.Close()
	answer(lost, err)
}

func answer(lost []entry, err error) {
	for _, e := range lost {
		if e.r != nil {
			e.r.To.Answered(e.r, 0, err)
		}
	}
}
