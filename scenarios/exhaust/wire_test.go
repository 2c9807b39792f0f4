package exhaust

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/lock/broken"
	reflock "lockpick/harness/lock/redlock"
	"lockpick/harness/lock/redsync"
	"lockpick/harness/resp"
)

// scriptedServers are servers that speak the Redis protocol and follow a script. They answer the
// nth SET with the nth replies, an extension with extendReplies, and every release with success.
// The delay of the replies decides whether a round ends too late.
type scriptedServers struct {
	mu            sync.Mutex
	scripts       resp.Scripts
	knownScripts  map[string]bool // nodes with the SHAs of the scripts they have seen
	replies       [][]byte
	extendReplies []byte
	delay         time.Duration // of a reply
	realTime      bool          // whether replies really take that long, because the lock uses package time
	skew          time.Duration // offset of the lock's clock
	rounds        int
	sets          [MaxNodes]int
	tokens        []string
	requests      []string
	forms         commands // what each request looks like, with 0 as the token
}

// wireTTL is shorter than the drivers' own timeouts.
const (
	wireTTL    = 2500 * time.Millisecond
	wireWindow = wireTTL - time.Duration(drift*float64(wireTTL)) - 2*time.Millisecond
)

// roundTimeout returns how long a round with a missing reply takes: just longer than replies take,
// if that matters.
func (w *scriptedServers) roundTimeout(ownTime bool) time.Duration {
	switch {
	case w.delay == 0:
		return timeout
	case ownTime:
		return w.delay + time.Microsecond
	}
	return time.Microsecond
}

// now is the clock for locks that accept one. It advances during each round, so that a round may
// seem to take longer than any timeout.
func (w *scriptedServers) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew)
}

// beginRound advances the clock at the first request of a round.
func (w *scriptedServers) beginRound(round int) {
	if round >= w.rounds {
		w.rounds = round + 1
		w.skew += w.delay
	}
}

// dial connects to the node whose number addr starts with.
func (w *scriptedServers) dial(_ context.Context, _, addr string) (net.Conn, error) {
	client, server := net.Pipe()
	go w.serve(server, int(addr[0]-'1'))
	return client, nil
}

func (w *scriptedServers) serve(conn net.Conn, node int) {
	defer conn.Close()
	stream, b := resp.NewStream(&w.scripts), make([]byte, 1<<14)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		for _, c := range stream.Request(b[:n], 0) {
			answer, after := w.reply(c, node)
			time.Sleep(after)
			if answer == "" {
				return
			}
			if _, err := conn.Write([]byte(answer)); err != nil {
				return
			}
			stream.Reply([]byte(answer), 0)
		}
	}
}

const extensionRound = 1 << 10

// maxWait is longer than any lock should wait. Then the connection is closed.
const maxWait = 10 * wireTTL

// reply returns a node's reply and how long to delay it. If the reply is "", the node closes the
// connection instead.
func (w *scriptedServers) reply(c *resp.Command, node int) (answer string, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isUnknownScript(c.Args, node) {
		return "-NOSCRIPT No matching script.\r\n", 0
	}
	if strings.EqualFold(c.Args[0], "HELLO") {
		return "-ERR unknown command 'HELLO'\r\n", 0
	}
	letter, plainSet := byte('y'), strings.EqualFold(c.Args[0], "SET")
	switch c.Op {
	case history.OpSet:
		w.record(setArrived, c, node)
		letter = w.replies[min(w.sets[node], len(w.replies)-1)][node]
		w.beginRound(w.sets[node])
		w.sets[node]++
	case history.OpExtend:
		w.record(extendArrived, c, node)
		w.beginRound(extensionRound)
		letter = w.extendReplies[node]
	case history.OpRelease:
		w.record(delArrived, c, node)
	default:
		return "+OK\r\n", 0
	}
	if w.realTime && c.Op != history.OpRelease {
		after = w.delay
	}
	switch {
	case letter == '-':
		return "", maxWait
	case letter == 'y' && plainSet:
		return "+OK\r\n", after
	case letter == 'y':
		return ":1\r\n", after
	case plainSet:
		return "$-1\r\n", after
	}
	return ":0\r\n", after
}

// isUnknownScript reports whether a request uses a script that the node has not seen.
func (w *scriptedServers) isUnknownScript(args []string, node int) bool {
	switch strings.ToUpper(args[0]) {
	case "EVAL":
		sum := sha1.Sum([]byte(args[1]))
		w.knownScripts[fmt.Sprint(node, hex.EncodeToString(sum[:]))] = true
	case "EVALSHA":
		return !w.knownScripts[fmt.Sprint(node, args[1])]
	}
	return false
}

// record records a request, its form, and the first attempt that used its token.
func (w *scriptedServers) record(a action, c *resp.Command, node int) {
	attempt := slices.Index(w.tokens, c.Token)
	if attempt < 0 && c.Token != "" {
		attempt = len(w.tokens)
		w.tokens = append(w.tokens, c.Token)
	}
	w.requests = append(w.requests, describeRequest(string(a), attempt, node))
	form := slices.Clone(c.Args)
	if strings.EqualFold(form[0], "EVALSHA") {
		return // the EVAL before it had the same form
	}
	for i, arg := range form {
		switch {
		case i > 0 && arg == c.Token && c.Token != "":
			form[i] = "0"
		case arg == fmt.Sprint(wireTTL.Milliseconds()):
			form[i] = fmt.Sprint(ttl.Milliseconds())
		}
	}
	w.forms[a] = form
}

// playResult is what a lock does with a script.
type playResult struct {
	acquired bool
	lease    time.Duration // from the start of the first attempt to the deadline, or 0 if the lock reports none
	requests []string
	extend   action // of the extension, if there is one
	forms    commands
}

// play runs a client that uses a lock, and returns what it did.
func (w *scriptedServers) play(t *testing.T, nodes int, lib library) (out playResult) {
	w.knownScripts, w.forms, w.realTime = map[string]bool{}, commands{}, lib.kind == "redsync"
	synctest.Test(t, func(t *testing.T) {
		env := lock.Env{
			Client: "c1", Now: w.now, Wall: w.now, After: time.After, Dial: w.dial,
			Random: func(name string) uint64 { h := fnv.New64a(); h.Write([]byte(name)); return h.Sum64() },
			Settings: lock.Settings{Kind: lib.kind, Mistake: lib.mistake, TTL: wireTTL, Timeout: w.roundTimeout(w.realTime), Drift: drift,
				RetryMin: time.Millisecond, RetryMax: time.Millisecond, Tries: len(w.replies), Options: lib.options},
		}
		if lib.kind == "broken" && w.extendReplies != nil {
			env.Settings.Extends = 1
		}
		for n := range nodes {
			env.Nodes = append(env.Nodes, lock.Node{Name: fmt.Sprintf("n%d", n+1), Addr: fmt.Sprintf("%d:1", n+1)})
		}
		l, err := lib.factory(env)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), maxWait)
		defer cancel()
		delay := w.delay
		if w.extendReplies != nil {
			w.delay = 0
		}
		begin := w.now()
		if w.realTime {
			begin = time.Now()
		}
		h, err := l.Acquire(ctx, "k")
		if out.acquired = err == nil; out.acquired {
			if d := h.Deadline(); !d.IsZero() {
				out.lease = d.Sub(begin)
			}
		}
		if out.acquired && w.extendReplies != nil {
			w.requests, w.delay = nil, delay
			out.extend = extensionResult(h.(lock.Extender).Extend(ctx))
			synctest.Wait() // the extension does not wait for all requests
			out.requests = slices.Clone(w.requests)
		}
		if out.acquired {
			h.Release(ctx)
		}
		time.Sleep(2 * maxWait) // some requests continue in the background
		if out.requests == nil {
			out.requests = w.requests
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	slices.Sort(out.requests)
	out.forms = w.forms
	return out
}

func extensionResult(err error) action {
	switch {
	case err == nil:
		return extendSucceeded
	case errors.Is(err, lock.ErrNotHeld):
		return extendLost
	}
	return extendFailed
}

// library identifies a lock and its settings.
type library struct {
	kind, mistake string
	options       map[string]string
	factory       lock.Factory
}

// delays returns three delays: none, one that lets a round end just in time, and one that is just
// too long.
func delays(window time.Duration) []time.Duration {
	return []time.Duration{0, window - 10*time.Microsecond, window}
}

// window returns how long a client may consider itself the holder. Redsync does not subtract the 2
// ms for the precision of clocks.
func (lib library) window() time.Duration {
	if lib.kind == "redsync" {
		return wireWindow + 2*time.Millisecond
	}
	return wireWindow
}

// findWireDifference counts the cases where a lock differs from the model, and describes the first
// difference. It tries all replies to an attempt and to an extension, and all vote counts in two
// attempts. For five nodes, it tries one combination of replies for each vote count.
func (m *model) findWireDifference(t *testing.T, lib library) (requests commands, cases, numDifferent int, firstDifference string) {
	requests = commands{}
	lease := lib.window()
	report := func(format string, args ...any) {
		if numDifferent++; numDifferent == 1 {
			firstDifference = fmt.Sprintf(format, args...)
		}
	}
	check := func(answers [][]byte, delay time.Duration) {
		cases++
		got := (&scriptedServers{replies: answers, delay: delay}).play(t, m.Nodes, lib)
		for a, form := range got.forms {
			requests[a] = form
		}
		s := &script{replies: answers, elapsed: []time.Duration{delay + window - lease, delay + window - lease}}
		acquired, sentRequests := m.runModel(t, s)
		switch {
		case acquired && got.acquired && len(answers) == 1 && !m.skipElapsedCheck && got.lease != lease:
			report("replies %s after %v: lease of %v from the start of the attempt; specified: %v", answers[0], delay, got.lease, lease)
		case got.acquired != acquired || !slices.Equal(got.requests, sentRequests):
			report("replies %s after %v: %s, sending %s; specified: %s, sending %s", bytes.Join(answers, []byte(", then ")), delay, describeAcquire(got.acquired), countRequests(got.requests), describeAcquire(acquired), countRequests(sentRequests))
		}
	}
	all := allReplies(m.Nodes)
	if m.Nodes > 3 {
		all = repliesByCount(m.Nodes)
	}
	for _, delay := range delays(lease) {
		for _, v := range all {
			check([][]byte{v}, delay)
		}
	}
	for _, first := range repliesByCount(m.Nodes) {
		for _, second := range repliesByCount(m.Nodes) {
			check([][]byte{first, second}, 0)
		}
	}
	for _, delay := range delays(lease) {
		for _, v := range all {
			cases++
			got := (&scriptedServers{replies: [][]byte{[]byte("yyyyy")}, extendReplies: v, delay: delay}).play(t, m.Nodes, lib)
			for a, form := range got.forms {
				requests[a] = form
			}
			if want, _ := m.decide(t, m.withReplies(0, v, delay >= lease, true)); got.extend != want.Action || len(got.requests) != m.Nodes {
				report("replies %s to the extension after %v: %s, sending %s; specified: %s", v, delay, got.extend, countRequests(got.requests), want.Action)
			}
		}
	}
	return requests, cases, numDifferent, firstDifference
}

// countRequests describes how many requests of each kind were sent.
func countRequests(requests []string) string {
	counts := map[string]int{}
	for _, s := range requests {
		counts[s[:strings.LastIndex(s, " to ")]]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[kind], kind))
	}
	return cmp.Or(strings.Join(parts, ", "), "no requests")
}

func describeAcquire(held bool) string {
	if held {
		return "acquires the lock"
	}
	return "does not acquire the lock"
}

func brokenLibrary(mistake string) library { return library{"broken", mistake, nil, broken.New} }

// findNodeRequestDifference describes how a node with a lock's requests differs from the model, or
// returns "".
func (m *model) findNodeRequestDifference(t *testing.T, requests commands) (difference string) {
	for _, a := range []action{setArrived, extendArrived} {
		if requests[a] == nil {
			return fmt.Sprintf("not compared: %s sends only the digest of its script", a)
		}
		if !slices.Contains(requests[a], fmt.Sprint(ttl.Milliseconds())) {
			return fmt.Sprintf("%s does not set a TTL of %v: %s", a, ttl, strings.Join(requests[a][max(len(requests[a])-4, 0):], " "))
		}
	}
	_, difference = m.findNodeDifference(t, requests)
	if strings.Contains(difference, ": node: ERR") {
		return "not compared: its scripts require tokens in their own format"
	}
	return difference
}

// The reference lock behaves as specified when used through its driver. A broken lock agrees with
// the model that has the same mistake, and differs from the model without it.
func TestLocksOnTheWire(t *testing.T) { checkLocksOnTheWire(t, 3) }

func checkLocksOnTheWire(t *testing.T, nodes int) {
	all := []library{{"redlock", "", nil, reflock.New}}
	for _, name := range Mistakes() {
		if name != "fence-from-one-node" { // requires fencing tokens
			all = append(all, brokenLibrary(name))
		}
	}
	for _, lib := range all {
		m := newModel(Scope{Nodes: nodes, Attempts: 2, Extensions: 1, Mistake: lib.mistake}, Reductions{})
		requests, cases, numDifferent, difference := m.findWireDifference(t, lib)
		if numDifferent > 0 {
			t.Errorf("%s %s, %d nodes: %d of %d cases: %s", lib.kind, lib.mistake, nodes, numDifferent, cases, difference)
		}
		node := Scope{Nodes: 1, Attempts: 1, Extensions: 1, Mistake: lib.mistake}
		if node.Check() != nil || m.sharing != shareNever { // one node can't show which clients share a token
			node.Mistake = ""
		}
		if difference := newModel(node, exactReductions).findNodeRequestDifference(t, requests); difference != "" {
			t.Errorf("%s %s: %s", lib.kind, lib.mistake, difference)
		}
		if lib.mistake == "" {
			continue
		}
		_, _, numDifferent, _ = newModel(Scope{Nodes: nodes, Attempts: 2, Extensions: 1}, Reductions{}).findWireDifference(t, lib)
		if numDifferent == 0 && newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1}, exactReductions).findNodeRequestDifference(t, requests) == "" {
			t.Errorf("%s behaves as specified", lib.mistake)
		}
	}
}

// Redsync uses the same value for all attempts of an acquire, and its safety margin is 2 ms smaller
// than specified. Apart from the margin, it agrees with the model that has this mistake.
func TestRedsyncOnTheWire(t *testing.T) { checkRedsyncOnTheWire(t, 3) }

func checkRedsyncOnTheWire(t *testing.T, nodes int) {
	lib := library{"redsync", "", nil, redsync.New}
	m := newModel(Scope{Nodes: nodes, Attempts: 2, Extensions: 1, Mistake: "same-value-for-retries"}, Reductions{})
	requests, cases, numDifferent, difference := m.findWireDifference(t, lib)
	if numDifferent > 0 {
		t.Errorf("%d nodes: %d of %d cases: %s", nodes, numDifferent, cases, difference)
	}
	if difference := newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1}, exactReductions).findNodeRequestDifference(t, requests); difference != "" {
		t.Error(difference)
	}
	correct := newModel(Scope{Nodes: nodes, Attempts: 2, Extensions: 1}, Reductions{})
	if _, _, numDifferent, _ := correct.findWireDifference(t, lib); numDifferent == 0 {
		t.Error("redsync now uses a new value for each attempt: compare it with the model without the mistake")
	}
}
