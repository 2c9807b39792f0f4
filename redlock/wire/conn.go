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

// pendingRelease is a release that the node may not have received although it may have received the
// earlier set. until is when the key expires.
type pendingRelease struct {
	key, token string
	until      time.Duration
}

// maxPending limits the pending releases of an unreachable node. Beyond the limit, keys stay until
// they expire.
const maxPending = 1 << 16

// maxBackoff limits the delay after a failed dial.
const maxBackoff = 100 * time.Millisecond

// recordUnanswered records a request that is answered with an error. A release stays pending,
// unless its set was never sent.
func (n *nodeState) recordUnanswered(e entry) {
	d, isRelease := e.asRelease()
	if !isRelease {
		if e.r != nil && isSet(e.r.Op) && n.state != stateConnected && len(n.unsentTokens) < maxPending {
			n.unsentTokens[e.r.Token] = struct{}{}
		}
		return
	}
	if _, ok := n.unsentTokens[d.token]; ok {
		delete(n.unsentTokens, d.token)
	} else if n.state != stateClosed && len(n.pendingReleases) < maxPending {
		n.pendingReleases = append(n.pendingReleases, d)
	}
}

// isSet reports whether an operation can set a key to its token. Other operations, such as an
// extension, say nothing about the set before them: it may have been sent even if they were not.
func isSet(op driver.Op) bool {
	return op == driver.OpSet || op == driver.OpSetFenced || op == driver.OpGrant
}

// Settle implements driver.Settler.
func (n *nodeState) Settle(ctx context.Context) error {
	for {
		pending := n.numPendingReleases()
		if pending == 0 {
			return nil
		}
		select {
		case <-n.opts.After(n.opts.Timeout / 8):
		case <-ctx.Done():
			return fmt.Errorf("%d pending: the node did not answer in time, so the keys remain until they expire", pending)
		case <-n.ctx.Done():
			return errClosed
		}
	}
}

// numPendingReleases counts the releases that were answered with an error although the node had not
// replied.
func (n *nodeState) numPendingReleases() (sum int) {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.pendingReleases {
		if d.until > now {
			sum++
		}
	}
	for _, all := range [][]entry{n.batch.releases, n.inFlight.entries()} {
		for _, e := range all {
			if e.unansweredRelease != nil && e.unansweredRelease.until > now {
				sum++
			}
		}
	}
	return sum
}

// connect connects in the background. The caller must hold the mutex.
func (n *nodeState) connect() {
	n.state = stateDialing
	n.goroutines.Add(1)
	go func() {
		defer n.goroutines.Done()
		for n.connectAndServe() {
			select {
			case <-n.opts.After(min(n.opts.Timeout, maxBackoff)):
			case <-n.ctx.Done():
			}
			if !n.shouldRetryDial() {
				return
			}
		}
	}()
}

// connectAndServe connects and serves the connection until it ends. If connecting fails, it answers
// the waiting requests with an error and returns true.
func (n *nodeState) connectAndServe() (failed bool) {
	c, in, err := n.dial()
	now := n.now()
	n.mu.Lock()
	if n.state == stateClosed {
		n.mu.Unlock()
		if c != nil {
			c.Close()
		}
		return false
	}
	waiting := n.pending
	n.pending = nil
	if err != nil {
		n.state, n.dialErr = stateBackingOff, fmt.Errorf("connect to %s: %w", n, err)
		for _, e := range waiting {
			n.recordUnanswered(e)
		}
		err = n.dialErr
		n.mu.Unlock()
		answerAll(waiting, err)
		return true
	}
	n.state, n.conn, n.rawConn, n.timer.unresponsiveSince = stateConnected, c, nil, 0
	n.id, n.runID = in.id, in.runID
	if s, ok := c.(syscall.Conn); ok {
		n.rawConn, _ = s.SyscallConn()
	}
	clear(n.unsentTokens)
	n.sendPendingReleases(now)
	for _, e := range waiting {
		n.add(e)
	}
	n.mu.Unlock()
	n.Flush()
	n.closeConn(c, n.read(in))
	return false
}

// sendPendingReleases sends the pending releases before any other request.
func (n *nodeState) sendPendingReleases(now time.Duration) {
	for _, d := range n.pendingReleases {
		if d.until > now {
			n.add(entry{unansweredRelease: &d, due: now + n.opts.Timeout})
		}
	}
	n.pendingReleases = nil
	n.closeBatch()
	n.startTimer(now + n.opts.Timeout)
}

// shouldRetryDial reports whether to dial again after a backoff. Only pending releases require
// this; other requests connect when they need to.
func (n *nodeState) shouldRetryDial() bool {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == stateClosed {
		return false
	}
	n.state = stateIdle
	for _, d := range n.pendingReleases {
		if d.until > now {
			n.state = stateDialing
			return true
		}
	}
	n.pendingReleases = nil
	return false
}

// firstDialTimeouts limits the first dial, in multiples of the lock's timeout. It leaves time for
// some round trips and computation. If a packet is lost, the kernel retransmits it after a second
// at the earliest, so a new connection is faster. If the limit turns out too short, the next dial
// may take twice as long.
const firstDialTimeouts = 8

func (n *nodeState) dial() (net.Conn, *replyReader, error) {
	n.dialTimeout = min(max(2*n.dialTimeout, firstDialTimeouts*n.opts.Timeout), n.opts.DialTimeout)
	ctx, cancel := context.WithTimeout(n.ctx, n.dialTimeout)
	defer cancel()
	defer func() {
		if ctx.Err() == nil { // the node accepted or refused the connection
			n.dialTimeout = 0
		}
	}()
	c, err := n.opts.Dial(ctx, n.network, n.opts.Addr)
	if err != nil {
		return nil, nil, err
	}
	if n.opts.TLS != nil {
		cfg := n.opts.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(n.opts.Addr)
		}
		c = tls.Client(c, cfg)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	in := &replyReader{c: c, buf: make([]byte, 32<<10)}
	if err := handshake(ctx, in, n.opts, n.id, n.runID); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, in, nil
}

// handshake authenticates, loads the scripts (a node that does not keep scripts is sent their full
// text each time), and reads the server's run_id and the connection's ID. If the server process is
// still the same, it makes the node kill the previous connection, identified by id and runID.
// Otherwise the node could read requests from that connection and execute them after requests on
// the new one. In a different server process, the same ID could belong to another client's
// connection.
func handshake(ctx context.Context, in *replyReader, o Options, id int64, runID string) error {
	var b []byte
	var names []string // names of the first commands, for errors
	if o.Password != "" || o.Username != "" {
		words := []string{"AUTH", o.Username, o.Password}
		if o.Username == "" {
			words = []string{"AUTH", o.Password}
		}
		b, names = appendCommand(b, words...), append(names, "AUTH")
	}
	if o.DB != 0 {
		b, names = appendCommand(b, "SELECT", strconv.Itoa(o.DB)), append(names, "SELECT")
	}
	if o.ClientName != "" {
		b, names = appendCommand(b, "CLIENT", "SETNAME", o.ClientName), append(names, "CLIENT SETNAME")
	}
	b, names = appendCommand(b, "CLIENT", "ID"), append(names, "CLIENT ID")
	b = appendScript(b, driver.RunID, true, 0, 0)
	for _, s := range driver.Scripts {
		b = appendCommand(b, "SCRIPT", "LOAD", s.Text)
	}
	replies, err := in.exec(b, len(names)+1+len(driver.Scripts))
	if err != nil {
		if o.TLS != nil && !in.received && ctx.Err() != nil {
			err = fmt.Errorf("%w (the server might not use TLS)", err)
		}
		return errors.Join(explainEOF(driver.Advise(err), in, o, id), ctx.Err())
	}
	for i, name := range names {
		if err := replies[i].err; err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	idReply := replies[len(names)-1]
	if in.id = idReply.value; idReply.kind != ':' || in.start < in.end {
		return errors.New("the node's reply to CLIENT ID was not a number, or it sent more replies than expected: is this a Redis server?")
	}
	if r := replies[len(names)]; r.err == nil {
		in.runID = r.text
	}
	if id == 0 || in.runID != runID || in.id <= id {
		return nil
	}
	replies, err = in.exec(appendCommand(nil, "CLIENT", "KILL", "ID", strconv.FormatInt(id, 10)), 1)
	switch {
	case err != nil:
		return errors.Join(err, ctx.Err())
	case replies[0].err != nil:
		return fmt.Errorf("CLIENT KILL: %w", replies[0].err)
	}
	return nil
}

// explainEOF adds the likely cause if the node closed the very first connection without answering.
func explainEOF(err error, in *replyReader, o Options, id int64) error {
	switch {
	case id != 0 || in.received || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
		return err
	case o.TLS == nil:
		return fmt.Errorf("the node closed the connection without an answer: %w (it may require TLS)", err)
	}
	return fmt.Errorf("the node closed the connection without an answer: %w (it may require a client certificate)", err)
}

// closeConn closes c, unless it is closed already, and answers all requests on it with an error.
func (n *nodeState) closeConn(c net.Conn, err error) {
	n.mu.Lock()
	if n.conn != c {
		n.mu.Unlock()
		return
	}
	n.closeBatch()
	unanswered := n.inFlight.entries()
	n.conn, n.rawConn, n.inFlight, n.output = nil, nil, queue{}, nil
	for _, e := range unanswered {
		n.recordUnanswered(e)
	}
	if n.state != stateClosed {
		n.state = stateIdle
		if len(n.pendingReleases) > 0 {
			n.connect()
		}
	}
	n.mu.Unlock()
	c.Close()
	answerAll(unanswered, err)
}

func answerAll(entries []entry, err error) {
	for _, e := range entries {
		if e.r != nil {
			e.r.Collector.Answered(e.r, 0, err)
		}
	}
}

// replyReader reads a node's replies from one connection.
type replyReader struct {
	c                net.Conn
	buf              []byte
	start, end       int
	replies          []reply
	received         bool // at least one byte was received
	itemsLeft        int  // number of replies missing from the current array
	answeredRequests []answeredRequest
	resent           bool  // a request was encoded again and must be flushed
	id               int64 // CLIENT ID of the connection and run_id of the process, from the handshake
	runID            string
}

// answeredRequest is a request with its reply.
type answeredRequest struct {
	r *driver.Request
	reply
}

// fill reads more bytes into the buffer.
func (in *replyReader) fill() error {
	if in.start > 0 {
		in.end = copy(in.buf, in.buf[in.start:in.end])
		in.start = 0
	}
	if in.end == len(in.buf) {
		return fmt.Errorf("the node sent a line of more than %d bytes", len(in.buf))
	}
	k, err := in.c.Read(in.buf[in.end:])
	in.end += k
	if k > 0 {
		in.received = true
		return nil
	}
	return err
}

func (in *replyReader) next() (reply, error) {
	for {
		r, size, err := parse(in.buf[in.start:in.end])
		if err == nil {
			in.start += size
			return r, nil
		}
		if err == errIncomplete {
			err = in.fill()
		}
		if err != nil {
			return reply{}, err
		}
	}
}

// exec writes commands and reads numReplies replies.
func (in *replyReader) exec(commands []byte, numReplies int) (replies []reply, err error) {
	_, err = in.c.Write(commands)
	for len(replies) < numReplies && err == nil {
		var r reply
		r, err = in.next()
		replies = append(replies, r)
	}
	return replies, err
}

// readAvailable reads bytes and returns all complete replies.
func (in *replyReader) readAvailable() ([]reply, error) {
	in.replies = in.replies[:0]
	if err := in.fill(); err != nil {
		return nil, err
	}
	for {
		r, size, err := parse(in.buf[in.start:in.end])
		switch {
		case err == errIncomplete:
			return in.replies, nil
		case err != nil:
			return in.replies, err
		}
		in.start += size
		in.replies = append(in.replies, r)
	}
}

// read answers requests until the connection ends, and returns the reason.
func (n *nodeState) read(in *replyReader) error {
	for {
		replies, err := in.readAvailable()
		n.mu.Lock()
		if n.conn != in.c {
			n.mu.Unlock()
			return net.ErrClosed
		}
		n.timer.unresponsiveSince = 0
		for i := 0; i < len(replies); i++ {
			if badReply := n.handleReply(in, replies[i]); badReply != nil {
				replies, err = nil, badReply
			}
		}
		n.mu.Unlock()
		for _, a := range in.answeredRequests {
			a.r.Collector.Answered(a.r, a.value, a.err)
		}
		in.answeredRequests = in.answeredRequests[:0]
		if err != nil {
			return err
		}
		if in.resent {
			in.resent = false
			n.Flush()
		}
	}
}

var errUnexpectedReply = errors.New("the node sent an unexpected reply")

// handleReply assigns a reply to the request, or group of requests, that it answers.
func (n *nodeState) handleReply(in *replyReader, r reply) error {
	if n.inFlight.len() == 0 {
		return errUnexpectedReply
	}
	numRequests := n.inFlight.first().commandSize
	switch {
	case in.itemsLeft > 0 && r.items == 0:
		in.itemsLeft--
		numRequests = 1
	case in.itemsLeft == 0 && r.items > 1 && r.items == numRequests:
		in.itemsLeft = r.items
		return nil
	case r.items > 0 || numRequests > 1 && r.err == nil || r.err == nil && !r.isReplyTo(n.inFlight.first()):
		return errUnexpectedReply
	case r.err != nil && strings.HasPrefix(r.err.Error(), "NOSCRIPT"):
		n.resend(in, numRequests, r)
		return nil
	}
	for range numRequests {
		if e := n.inFlight.pop(); e.r != nil {
			in.answeredRequests = append(in.answeredRequests, answeredRequest{e.r, r})
		}
	}
	return nil
}

// resend encodes rejected requests again, with the script's full text, because the node no longer
// has its scripts. It skips a set whose release is already in progress, because the set would be
// executed after the release.
func (n *nodeState) resend(in *replyReader, numRequests int, rejection reply) {
	var retried []entry
	for range numRequests {
		e := n.inFlight.pop()
		if _, isRelease := e.asRelease(); isRelease || e.r != nil && !n.isReleased(e.r.Token) {
			retried = append(retried, e)
		} else if e.r != nil {
			in.answeredRequests = append(in.answeredRequests, answeredRequest{e.r, rejection})
		}
	}
	if len(retried) == 0 {
		return
	}
	in.resent = true
	if d, ok := retried[0].asRelease(); !ok && retried[0].r.Op == driver.OpGrant {
		n.output = appendGrants(n.output, retried, true, n.runID)
	} else if !ok {
		n.output = appendStep(n.output, retried[0].r, true, n.runID)
	} else {
		n.output = appendReleases(n.output, len(retried), true)
		for _, e := range retried {
			d, _ = e.asRelease()
			n.output = appendBulk(n.output, d.key)
		}
		for _, e := range retried {
			d, _ = e.asRelease()
			n.output = appendBulk(n.output, d.token)
		}
	}
	// Keep the queue ordered by deadline: later requests must not have earlier deadlines.
	due, rest := retried[0].due, n.inFlight.entries()
	for i := len(rest) - 1; i >= 0 && rest[i].due > due; i-- {
		rest[i].due = due
	}
	for i, e := range retried {
		e.commandSize = len(retried) - i
		n.inFlight.push(e)
	}
}

func appendArray(b []byte, n int) []byte {
	b = strconv.AppendInt(append(b, '*'), int64(n), 10)
	return append(b, '\r', '\n')
}

func appendBulk(b []byte, s string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)), 10)
	b = append(append(b, '\r', '\n'), s...)
	return append(b, '\r', '\n')
}

// appendBulkConcat appends s and suffix as one bulk string.
func appendBulkConcat(b []byte, s, suffix string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)+len(suffix)), 10)
	b = append(append(append(b, '\r', '\n'), s...), suffix...)
	return append(b, '\r', '\n')
}

func appendNumber(b []byte, v int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], v, 10)
	b = strconv.AppendInt(append(b, '$'), int64(len(d)), 10)
	b = append(append(b, '\r', '\n'), d...)
	return append(b, '\r', '\n')
}

func appendCommand(b []byte, words ...string) []byte {
	b = appendArray(b, len(words))
	for _, w := range words {
		b = appendBulk(b, w)
	}
	return b
}

// appendScript appends the start of a command that runs a script. It passes either the script's
// digest or its full text, which the node then keeps.
func appendScript(b []byte, s driver.Script, fullText bool, keys, args int) []byte {
	b = appendArray(b, 3+keys+args)
	if fullText {
		b = appendBulk(append(b, "$4\r\nEVAL\r\n"...), s.Text)
	} else {
		b = appendBulk(append(b, "$7\r\nEVALSHA\r\n"...), s.SHA)
	}
	return appendNumber(b, int64(keys))
}

// appendStep appends a request other than a release. runID identifies the server process; it is ""
// if unknown.
func appendStep(b []byte, r *driver.Request, fullText bool, runID string) []byte {
	switch r.Op {
	case driver.OpSet:
		b = appendBulk(appendBulk(append(b, "*6\r\n$3\r\nSET\r\n"...), r.Key), r.Token)
		return appendNumber(append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...), r.TTL.Milliseconds())
	case driver.OpExtend:
		b = appendBulk(appendBulk(appendScript(b, driver.Extend, fullText, 1, 2), r.Key), r.Token)
		return appendNumber(b, r.TTL.Milliseconds())
	case driver.OpSetFenced:
		b = appendBulkConcat(appendBulk(appendScript(b, driver.SetFenced, fullText, 2, 2), r.Key), r.Key, driver.CountSuffix)
		return appendNumber(appendBulk(b, r.Token), r.TTL.Milliseconds())
	case driver.OpRaiseFence:
		b = appendBulkConcat(appendBulk(appendScript(b, driver.RaiseFence, fullText, 2, 2), r.Key), r.Key, driver.CountSuffix)
		return appendNumber(appendBulk(b, r.Token), r.Count)
	case driver.OpGrant:
		return appendGrant(b, r, fullText, runID)
	case driver.OpAbandon: // requests are in order, so the grant has been executed or never will be
		return appendBulk(appendBulk(appendReleases(b, 1, fullText), r.Key), r.Token)
	case driver.OpIdentify:
		return appendScript(b, driver.Identity, true, 0, 0)
	case driver.OpReady:
		return appendBulk(appendBulk(appendScript(b, driver.Ready, true, 2, 0), driver.RunIDKey), driver.QuarantineKey)
	}
	panic(fmt.Sprintf("wire: unknown operation %d", r.Op))
}

// appendGrants appends several OpGrant requests with the same terms as one command.
func appendGrants(b []byte, grants []entry, fullText bool, runID string) []byte {
	if len(grants) == 0 {
		return b
	}
	terms := grants[0].r.Terms
	if len(grants) == 1 {
		return appendGrant(b, grants[0].r, fullText, runID)
	}
	keys, counted := len(grants), int64(0)
	if terms.Fence {
		keys, counted = 2*keys, 1
	}
	if terms.Quarantine > 0 {
		keys += 2
	}
	b = appendScript(b, driver.Grants, fullText, keys, len(grants)+4)
	for _, e := range grants {
		b = appendBulk(b, e.r.Key)
	}
	if terms.Fence {
		for _, e := range grants {
			b = appendBulkConcat(b, e.r.Key, driver.CountSuffix)
		}
	}
	if terms.Quarantine > 0 {
		b = appendBulk(appendBulk(b, driver.RunIDKey), driver.QuarantineKey)
	}
	for _, e := range grants {
		b = appendBulk(b, e.r.Token)
	}
	return appendBulk(appendNumber(appendNumber(appendNumber(b, terms.TTL.Milliseconds()), counted), terms.Quarantine.Milliseconds()), runID)
}

// appendGrant appends one OpGrant request. It needs no tombstone, because no grant arrives after
// its release.
func appendGrant(b []byte, r *driver.Request, fullText bool, runID string) []byte {
	args, counted := 4, int64(0)
	if runID != "" {
		args = 5
	}
	if r.Fence {
		counted = 1
	}
	b = appendScript(b, driver.Grant, fullText, 5, args)
	b = appendBulk(appendBulkConcat(appendBulk(b, r.Key), r.Key, driver.CountSuffix), r.Key)
	b = appendBulk(appendBulk(appendBulk(b, driver.RunIDKey), driver.QuarantineKey), r.Token)
	b = appendNumber(appendNumber(appendNumber(b, r.TTL.Milliseconds()), counted), r.Quarantine.Milliseconds())
	if runID != "" {
		b = appendBulk(b, runID)
	}
	return b
}

// reply is one reply from a node: an integer, which is above 0 for yes; an error; or the header of
// an array, whose items follow as separate replies.
type reply struct {
	value int64
	err   error
	items int
	text  string
	kind  byte // type byte
}

// isReplyTo reports whether r is a valid reply to e: a status or null for SET, an integer for a
// script.
func (r reply) isReplyTo(e *entry) bool {
	if e.r != nil && e.r.Op == driver.OpSet {
		return r.kind == '+' || r.kind == '$' && r.value == 0
	}
	return r.kind == ':' || e.r == nil && e.unansweredRelease == nil // the operation is no longer known
}

// errIncomplete means that the rest of a reply is still missing.
var errIncomplete = errors.New("incomplete")

// maxBulkLen limits the length of strings in replies. No expected string is longer than a digest.
const maxBulkLen = 1 << 10

// shortString returns b as a string, or "" if b is so short that only its presence matters.
func shortString(b []byte) string {
	if len(b) < 8 {
		return ""
	}
	return string(b)
}

// parse parses the reply at the start of b and returns its length.
func parse(b []byte) (r reply, size int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return reply{}, 0, errIncomplete
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
	case kind == '*' && v > 0 && v <= maxBatch:
		return reply{items: int(v), kind: kind}, size, nil
	case kind == '$' && v == -1:
		return reply{kind: kind}, size, nil
	case kind == '$' && v >= 0 && v <= maxBulkLen:
		if size += int(v) + 2; len(b) < size {
			return reply{}, 0, errIncomplete
		}
		return reply{value: 1, text: shortString(b[end+1 : size-2]), kind: kind}, size, nil
	}
	return reply{}, 0, fmt.Errorf("the node sent %.40q, which is not a valid reply", b[:end-1])
}
