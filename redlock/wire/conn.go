package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockpick/redlock/driver"
)

// pendingRelease is a release that the node may not have received, although it may have received the set
// before it. until is the time at which the key has expired.
type debt struct {
	key, token string
	until      time.Duration
}

// maxPending limits the pending releases of an unreachable node. Beyond it, keys that are left behind stay
// until they expire.
const maxDebts = 1 << 16

// maxBackoff limits the delay after a failed attempt to connect.
const maxRest = 100 * time.Millisecond

// recordUnanswered remembers what is needed later about a request that is answered with an error: a release
// stays pending, unless its set was never sent.
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

// isSet reports whether an operation can give a key its token. Other operations, such as extensions, don't
// tell whether the set before them was sent.
func sets(op driver.Op) bool {
	return op == driver.OpSet || op == driver.OpSetFenced || op == driver.OpGrant
}

// Settle implements driver.Settler.
func (n *line) Settle(ctx context.Context) error {
	for {
		owed := n.owed()
		if owed == 0 {
			return nil
		}
		select {
		case <-n.o.After(n.o.Timeout / 8):
		case <-ctx.Done():
			return fmt.Errorf("%d pending: the node did not answer in time, so the keys stay until they expire", owed)
		case <-n.ctx.Done():
			return errClosed
		}
	}
}

// pendingCount returns the number of releases that were answered with an error before the node replied.
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

// connect starts connecting. The caller must hold the mutex.
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

// connectAndServe connects and serves the connection until it ends. If connecting fails, it answers the
// waiting requests with an error and returns true.
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

// sendPendingReleases puts the pending releases before all other requests.
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

// shouldRetryDial reports whether to connect again after a backoff. Only pending releases require that; any
// other request that needs a connection starts one itself.
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

// firstDialTimeouts is the limit of the first dial in multiples of the lock's timeout, which is enough for
// some round trips and computation. If a packet is lost, the kernel retransmits it after a second at the
// earliest, so a new connection is faster. If the limit was too short, the next dial may take twice as long.
const quick = 8

func (n *line) dial() (net.Conn, *replies, error) {
	n.patience = min(max(2*n.patience, quick*n.o.Timeout), n.o.DialTimeout)
	ctx, cancel := context.WithTimeout(n.ctx, n.patience)
	defer cancel()
	defer func() {
		if ctx.Err() == nil { // connected or refused
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

// handshake authenticates, loads the scripts (if the node does not keep them, each is sent in full), and reads
// the server's run_id and the ID of the connection. If the server process is still the same, it makes the
// node kill the previous connection, which has the given id and runID. Otherwise requests still to be
// read from that connection could be executed after those on the new one. In another process, the same ID
// could belong to another client's connection.
func greet(ctx context.Context, in *replies, o Options, id int64, runID string) error {
	var b []byte
	var must []string // names of the first commands, for errors
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
			err = fmt.Errorf("%w (the server may not use TLS)", err)
		}
		return errors.Join(ended(driver.Advise(err), in, o, id), ctx.Err())
	}
	for i, what := range must {
		if err := all[i].err; err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	number := all[len(must)-1]
	if in.id = number.value; number.kind != ':' || in.at < in.have {
		return errors.New("the node did not reply to CLIENT ID with a number, or sent more than it should: is this a Redis server?")
	}
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

// explainEOF adds a likely cause if the node closed the very first connection without an answer.
func ended(err error, in *replies, o Options, id int64) error {
	switch {
	case id != 0 || in.heard || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
		return err
	case o.TLS == nil:
		return fmt.Errorf("the node closed the connection without an answer: %w (it may require TLS)", err)
	}
	return fmt.Errorf("the node closed the connection without an answer: %w (it may require a client certificate)", err)
}

// closeConn closes c, once, and answers all requests on it with an error.
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

// replyReader reads the replies of a node on one connection.
type replies struct {
	c        net.Conn
	buf      []byte
	at, have int
	cut      []reply
	heard    bool // something was received
	items    int  // remaining replies of a command with several requests
	told     []answered
	again    bool  // a request was encoded again and must be flushed
	id       int64 // CLIENT ID of the connection and run_id of the process, from the handshake
	runID    string
}

// answered is a request with its reply.
type answered struct {
	r *driver.Request
	reply
}

// fill reads more bytes.
func (in *replies) fill() error {
	if in.at > 0 {
		in.have = copy(in.buf, in.buf[in.at:in.have])
		in.at = 0
	}
	if in.have == len(in.buf) {
		return fmt.Errorf("the node sent a line of more than %d bytes", len(in.buf))
	}
	k, err := in.c.Read(in.buf[in.have:])
	in.have += k
	if k > 0 {
		in.heard = true
		return nil
	}
	return err
}

// next reads one reply.
func (in *replies) next() (reply, error) {
	for {
		r, size, err := parse(in.buf[in.at:in.have])
		if err == nil {
			in.at += size
			return r, nil
		}
		if err == errShort {
			err = in.fill()
		}
		if err != nil {
			return reply{}, err
		}
	}
}

// exec writes commands and reads the given number of replies.
func (in *replies) ask(commands []byte, replies int) (all []reply, err error) {
	_, err = in.c.Write(commands)
	for len(all) < replies && err == nil {
		var r reply
		r, err = in.next()
		all = append(all, r)
	}
	return all, err
}

// readAvailable reads bytes and returns all complete replies.
func (in *replies) more() ([]reply, error) {
	in.cut = in.cut[:0]
	if err := in.fill(); err != nil {
		return nil, err
	}
	for {
		r, size, err := parse(in.buf[in.at:in.have])
		switch {
		case err == errShort:
			return in.cut, nil
		case err != nil:
			return in.cut, err
		}
		in.at += size
		in.cut = append(in.cut, r)
	}
}

// read answers requests until the connection ends, and returns the reason.
func (n *line) read(in *replies) error {
	for {
		cut, err := in.more()
		n.mu.Lock()
		if n.conn != in.c {
			n.mu.Unlock()
			return net.ErrClosed
		}
		n.timer.silent = 0
		for i := 0; i < len(cut); i++ {
			if wrong := n.take(in, cut[i]); wrong != nil {
				cut, err = nil, wrong
			}
		}
		n.mu.Unlock()
		for _, a := range in.told {
			a.r.To.Answered(a.r, a.value, a.err)
		}
		in.told = in.told[:0]
		if err != nil {
			return err
		}
		if in.again {
			in.again = false
			n.Flush()
		}
	}
}

var errNothing = errors.New("the node sent an unexpected reply")

// handleReply assigns a reply to the request or the group of requests that it answers.
func (n *line) take(in *replies, r reply) error {
	if n.waiting.len() == 0 {
		return errNothing
	}
	same := n.waiting.first().same
	switch {
	case in.items > 0 && r.items == 0:
		in.items--
		same = 1
	case in.items == 0 && r.items > 1 && r.items == same:
		in.items = r.items
		return nil
	case r.items > 0 || same > 1 && r.err == nil || r.err == nil && !r.answers(n.waiting.first()):
		return errNothing
	case r.err != nil && strings.HasPrefix(r.err.Error(), "NOSCRIPT"):
		n.resend(in, same, r)
		return nil
	}
	for range same {
		if e := n.waiting.pop(); e.r != nil {
			in.told = append(in.told, answered{e.r, r})
		}
	}
	return nil
}

// resend encodes requests again, with the script's full text, after the node refused them because it no
// longer knows its scripts. It skips a set whose release is already in progress, because the set would be
// executed after the release.
func (n *line) resend(in *replies, same int, why reply) {
	var again []entry
	for range same {
		e := n.waiting.pop()
		if _, isRelease := e.release(); isRelease || e.r != nil && !n.isReleased(e.r.Token) {
			again = append(again, e)
		} else if e.r != nil {
			in.told = append(in.told, answered{e.r, why})
		}
	}
	if len(again) == 0 {
		return
	}
	in.again = true
	if d, ok := again[0].release(); !ok && again[0].r.Op == driver.OpGrant {
		n.out = grants(n.out, again, true, n.runID)
	} else if !ok {
		n.out = step(n.out, again[0].r, true, n.runID)
	} else {
		n.out = releases(n.out, len(again), true)
		for _, e := range again {
			d, _ = e.release()
			n.out = bulk(n.out, d.key)
		}
		for _, e := range again {
			d, _ = e.release()
			n.out = bulk(n.out, d.token)
		}
	}
	// Keep the deadlines in the queue in order: later requests give up no later than these.
	due, rest := again[0].due, n.waiting.rest()
	for i := len(rest) - 1; i >= 0 && rest[i].due > due; i-- {
		rest[i].due = due
	}
	for i, e := range again {
		e.same = len(again) - i
		n.waiting.push(e)
	}
}

func array(b []byte, n int) []byte {
	b = strconv.AppendInt(append(b, '*'), int64(n), 10)
	return append(b, '\r', '\n')
}

func bulk(b []byte, s string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)), 10)
	b = append(append(b, '\r', '\n'), s...)
	return append(b, '\r', '\n')
}

// appendBulkConcat appends the concatenation of two strings as one bulk string.
func bulks(b []byte, s, more string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)+len(more)), 10)
	b = append(append(append(b, '\r', '\n'), s...), more...)
	return append(b, '\r', '\n')
}

func number(b []byte, v int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], v, 10)
	b = strconv.AppendInt(append(b, '$'), int64(len(d)), 10)
	b = append(append(b, '\r', '\n'), d...)
	return append(b, '\r', '\n')
}

// appendCommand appends a command with these words.
func command(b []byte, words ...string) []byte {
	b = array(b, len(words))
	for _, w := range words {
		b = bulk(b, w)
	}
	return b
}

// appendScript appends the start of a command that runs a script, either by its digest or with its full
// text, which the node then keeps.
func run(b []byte, s driver.Script, whole bool, keys, args int) []byte {
	b = array(b, 3+keys+args)
	if whole {
		b = bulk(append(b, "$4\r\nEVAL\r\n"...), s.Text)
	} else {
		b = bulk(append(b, "$7\r\nEVALSHA\r\n"...), s.SHA)
	}
	return number(b, int64(keys))
}

// appendStep appends a request other than a release. runID is that of the server process; "": unknown.
func step(b []byte, r *driver.Request, whole bool, runID string) []byte {
	switch r.Op {
	case driver.OpSet:
		b = bulk(bulk(append(b, "*6\r\n$3\r\nSET\r\n"...), r.Key), r.Token)
		return number(append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...), r.TTL.Milliseconds())
	case driver.OpExtend:
		b = bulk(bulk(run(b, driver.Extend, whole, 1, 2), r.Key), r.Token)
		return number(b, r.TTL.Milliseconds())
	case driver.OpSetFenced:
		b = bulks(bulk(run(b, driver.SetFenced, whole, 2, 2), r.Key), r.Key, driver.CountSuffix)
		return number(bulk(b, r.Token), r.TTL.Milliseconds())
	case driver.OpRaiseFence:
		b = bulks(bulk(run(b, driver.RaiseFence, whole, 2, 2), r.Key), r.Key, driver.CountSuffix)
		return number(bulk(b, r.Token), r.Count)
	case driver.OpGrant:
		return grant(b, r, whole, runID)
	case driver.OpAbandon: // requests are in order, so the grant was executed before or never will be
		return bulk(bulk(releases(b, 1, whole), r.Key), r.Token)
	case driver.OpIdentify:
		return run(b, driver.Identity, true, 0, 0)
	case driver.OpReady:
		return bulk(bulk(run(b, driver.Ready, true, 2, 0), driver.KnownAs), driver.Quarantine)
	}
	panic(fmt.Sprintf("wire: unknown operation %d", r.Op))
}

// appendGrants appends several OpGrant requests on the same terms as one command.
func grants(b []byte, all []entry, whole bool, runID string) []byte {
	if len(all) == 0 {
		return b
	}
	terms := all[0].r.Terms
	if len(all) == 1 {
		return grant(b, all[0].r, whole, runID)
	}
	keys, counted := len(all), int64(0)
	if terms.Fence {
		keys, counted = 2*keys, 1
	}
	if terms.Quarantine > 0 {
		keys += 2
	}
	b = run(b, driver.Grants, whole, keys, len(all)+4)
	for _, e := range all {
		b = bulk(b, e.r.Key)
	}
	if terms.Fence {
		for _, e := range all {
			b = bulks(b, e.r.Key, driver.CountSuffix)
		}
	}
	if terms.Quarantine > 0 {
		b = bulk(bulk(b, driver.KnownAs), driver.Quarantine)
	}
	for _, e := range all {
		b = bulk(b, e.r.Token)
	}
	return bulk(number(number(number(b, terms.TTL.Milliseconds()), counted), terms.Quarantine.Milliseconds()), runID)
}

// appendGrant appends one OpGrant request. It needs no tombstone, because no grant arrives after its release.
func grant(b []byte, r *driver.Request, whole bool, runID string) []byte {
	args, counted := 4, int64(0)
	if runID != "" {
		args = 5
	}
	if r.Fence {
		counted = 1
	}
	b = run(b, driver.Grant, whole, 5, args)
	b = bulk(bulks(bulk(b, r.Key), r.Key, driver.CountSuffix), r.Key)
	b = bulk(bulk(bulk(b, driver.KnownAs), driver.Quarantine), r.Token)
	b = number(number(number(b, r.TTL.Milliseconds()), counted), r.Quarantine.Milliseconds())
	if runID != "" {
		b = bulk(b, runID)
	}
	return b
}

// reply is a reply of a node: a value, which is above 0 for yes; an error; or the header of an array with
// items elements, which follow as replies of their own.
type reply struct {
	value int64
	err   error
	items int
	text  string
	kind  byte // type byte
}

// answers reports whether r is a valid reply to e: a status or null for SET, an integer for a script.
func (r reply) answers(e *entry) bool {
	if e.r != nil && e.r.Op == driver.OpSet {
		return r.kind == '+' || r.kind == '$' && r.value == 0
	}
	return r.kind == ':' || e.r == nil && e.owed == nil // the operation is not known any more
}

// errIncomplete means that a reply is not complete yet.
var errShort = errors.New("incomplete")

// maxBulk limits the length of a string in a reply. No expected string is longer than a digest.
const maxBulk = 1 << 10

// shortString returns b as a string, or "" if b is so short that only its presence matters.
func word(b []byte) string {
	if len(b) < 8 {
		return ""
	}
	return string(b)
}

// parse parses one reply at the start of b and returns its length.
func parse(b []byte) (r reply, size int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return reply{}, 0, errShort
	}
	if end < 2 || b[end-1] != '\r' {
		return reply{}, 0, fmt.Errorf("the node sent %.40q, which is not RESP2", b[:end])
	}
	kind, text, size := b[0], b[1:end-1], end+1
	if kind == '+' && string(text) == "OK" {
		return reply{value: 1, kind: kind}, size, nil
	}
	if kind == '-' {
		return reply{err: driver.Advise(errors.New(string(text)))}, size, nil
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil:
	case kind == ':':
		return reply{value: v, kind: kind}, size, nil
	case kind == '*' && v > 0 && v <= most:
		return reply{items: int(v), kind: kind}, size, nil
	case kind == '$' && v == -1:
		return reply{kind: kind}, size, nil
	case kind == '$' && v >= 0 && v <= maxBulk:
		if size += int(v) + 2; len(b) < size {
			return reply{}, 0, errShort
		}
		return reply{value: 1, text: word(b[end+1 : size-2]), kind: kind}, size, nil
	}
	return reply{}, 0, fmt.Errorf("the node sent %.40q, which is not a valid reply", b[:end-1])
}
