package keylife

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/resp"
)

// stream receives a server's reports of changes. It has a second connection for commands.
type stream struct {
	eventConn, commandConn *conn
	serverAddr, localAddr  string // remote and local address of commandConn
	done                   chan struct{}

	frozenTime bool // whether the server's clock stops during a script

	runID      string
	startTime  int64             // when the reports began, by Clock
	readTime   int64             // when the state was read
	clock      int64             // the server's clock when the state was read
	clockAhead int64             // how far the server's clock is ahead of Clock
	keys       map[string]*state // the state

	mu        sync.Mutex
	marks     map[string]chan struct{} // by text; closed when the text has been read in a MONITOR line
	markCount int                      // number of marks so far
}

// attach connects to the server and reads its keys. The caller holds the mutex.
func (n *node) attach() (*stream, error) {
	s := &stream{done: make(chan struct{}), marks: map[string]chan struct{}{}, keys: map[string]*state{}}
	err := n.open(s)
	if err == nil {
		err = n.readKeys(s)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("record the keys of %s: %w", n.name, err)
	}
	return s, nil
}

func (n *node) open(s *stream) (err error) {
	if s.commandConn, err = dial(n.addr); err != nil {
		return err
	}
	s.serverAddr, s.localAddr = s.commandConn.RemoteAddr().String(), s.commandConn.LocalAddr().String()
	if err := n.enableEvents(s.commandConn); err != nil {
		return err
	}
	info, err := s.commandConn.do("INFO", "server")
	if err != nil {
		return err
	}
	_, run, _ := strings.Cut(info.Str, "\nrun_id:")
	s.runID = run[:min(len(run), runIDDigits)]
	if s.eventConn, err = dial(n.addr); err != nil {
		return err
	}
	hello, err := s.eventConn.do("HELLO", "3")
	if err != nil {
		return err
	}
	if s.frozenTime, err = checkVersion(hello); err != nil {
		return err
	}
	s.eventConn.SetDeadline(time.Now().Add(answerTimeout))
	defer s.eventConn.SetDeadline(time.Time{})
	if err := s.eventConn.send([]string{"PSUBSCRIBE", eventPattern}, []string{"MONITOR"}); err != nil {
		return err
	}
	for {
		v, err := s.eventConn.next()
		if err != nil {
			return err
		}
		if text, isErr := v.Error(); isErr {
			return errors.New(text)
		}
		if v.Kind == '+' {
			s.startTime = n.recorder.now()
			return nil
		}
	}
}

// runIDDigits is the number of digits of run_id that facts contain to identify a server process.
const runIDDigits = 8

// checkVersion returns an error if the server is too old for PEXPIRETIME. frozenTime reports
// whether the server executes all commands of a script at the start time of the script, as it does
// since version 7.2.
func checkVersion(hello resp.Value) (frozenTime bool, err error) {
	for i := 0; i+1 < len(hello.Items); i += 2 {
		if hello.Items[i].Str != "version" {
			continue
		}
		version := hello.Items[i+1].Str
		var major, minor int
		if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 7 {
			return false, fmt.Errorf("version %s is too old: PEXPIRETIME needs 7.0", version)
		}
		return major > 7 || minor >= 2, nil
	}
	return false, errors.New("the server does not report its version")
}

const notifySetting = "notify-keyspace-events"

// enableEvents makes a server report all key-space events, unless the server already does.
func (n *node) enableEvents(c *conn) error {
	v, err := c.do("CONFIG", "GET", notifySetting)
	if err != nil {
		return err
	}
	if len(v.Items) != 2 {
		return fmt.Errorf("the server has no setting %s", notifySetting)
	}
	setting := v.Items[1].Str
	if strings.Contains(setting, "K") && strings.Contains(setting, "A") {
		return nil
	}
	if _, err := c.do("CONFIG", "SET", notifySetting, setting+"KA"); err != nil {
		return err
	}
	if n.oldSetting == nil {
		n.oldSetting = &setting
	}
	return nil
}

// restoreSetting restores the server's setting. If the server has exited, there is nothing to
// restore. The caller holds the mutex.
func (n *node) restoreSetting() error {
	if n.oldSetting == nil {
		return nil
	}
	c, err := dial(n.addr)
	if err != nil {
		return nil
	}
	defer c.Close()
	if _, err := c.do("CONFIG", "SET", notifySetting, *n.oldSetting); err != nil {
		return fmt.Errorf("restore %s of %s to %q: %w", notifySetting, n.name, *n.oldSetting, err)
	}
	n.oldSetting = nil
	return nil
}

func (s *stream) items(clock func() time.Duration) (items []item, err error) {
	values := s.eventConn.values
	s.eventConn.values = nil
	if len(values) == 0 {
		values, err = s.eventConn.read()
	}
	at := int64(clock())
	for _, v := range values {
		if it, ok := parseItem(v, at); ok {
			items = append(items, it)
		}
	}
	return items, err
}

// isAlive reports whether the server still answers.
func (s *stream) isAlive() bool {
	_, err := s.commandConn.do("PING")
	return err == nil
}

// finishTimeout limits the time for data in transit to arrive. A server that has exited sends no
// more.
const finishTimeout = 50 * time.Millisecond

// finish waits until the reader has read everything.
func (s *stream) finish() {
	s.eventConn.SetReadDeadline(time.Now().Add(finishTimeout))
	<-s.done
}

// drainTimeout limits the time for a server to send all reports at the end of a run.
const drainTimeout = 2 * time.Second

// drain waits until everything that the server has done so far is processed. It returns false on a
// timeout.
func (s *stream) drain(timeout time.Duration) bool {
	mark := make(chan struct{})
	s.mu.Lock()
	s.markCount++
	text := fmt.Sprintf("lockpick: changes up to here, %d", s.markCount)
	s.marks[text] = mark
	s.mu.Unlock()
	if s.commandConn.send([]string{"ECHO", text}) != nil {
		return false
	}
	select {
	case <-mark:
		return true
	case <-s.done:
	case <-time.After(timeout):
	}
	select { // the mark may be in the last line
	case <-mark:
		return true
	default:
		return false
	}
}

// handleMarker handles the MONITOR line of a command that was sent on commandConn.
func (s *stream) handleMarker(args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(args) == 2 && s.marks[args[1]] != nil {
		close(s.marks[args[1]])
		delete(s.marks, args[1])
	}
}

func (s *stream) close() {
	for _, c := range []*conn{s.eventConn, s.commandConn} {
		if c != nil {
			c.Close()
		}
	}
}

// item is one report from a node: a key-space event or a command.
type item struct {
	at    int64 // when the report was read, by Clock
	key   string
	event string // the event's name, for example "set" or "expired"

	args  []string // the command's arguments
	from  string   // the client's address, or scriptAddr
	clock int64    // the node's clock, in nanoseconds since 1970
}

// scriptAddr is the address in MONITOR lines of commands executed by a script.
const scriptAddr = "lua"

// eventPattern matches the key-space events of database 0.
const eventPattern = eventPrefix + "*"

const eventPrefix = "__keyspace@0__:"

// parseItem converts a value received from the node to an item. ok is false if the value is not an
// item.
func parseItem(v resp.Value, at int64) (it item, ok bool) {
	if v.Kind == '>' {
		if len(v.Items) != 4 || v.Items[0].Str != "pmessage" {
			return it, false
		}
		key, isKey := strings.CutPrefix(v.Items[2].Str, eventPrefix)
		return item{at: at, key: key, event: v.Items[3].Str}, isKey
	}
	if v.Kind != '+' {
		return it, false
	}
	it, ok = parseLine(v.Str)
	it.at = at
	return it, ok
}

// parseLine parses a MONITOR line: 1795393203.412202 [0 127.0.0.1:36220] "SET" "k" "v".
func parseLine(line string) (it item, ok bool) {
	head, rest, ok := strings.Cut(line, "] ")
	if !ok {
		return it, false
	}
	stamp, source, ok := strings.Cut(head, " [")
	if !ok {
		return it, false
	}
	seconds, micros, _ := strings.Cut(stamp, ".")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	database, from, ok := strings.Cut(source, " ")
	if !ok || err1 != nil || err2 != nil || database != "0" {
		return it, false
	}
	it.from, it.clock = from, s*1e9+us*1e3
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return it, false
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return it, false
		}
		it.args = append(it.args, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return it, len(it.args) > 0
}

// readScript returns each key with its type, its expiry and, if the type is supported, its value.
// The script is atomic. In the node's reports, the MONITOR line of the script's last command marks
// when the keys were read.
const readScript = `
local all, get = {}, {string = {'GET'}, hash = {'HGETALL'}, list = {'LRANGE', '0', '-1'}}
for i, key in ipairs(redis.call('KEYS', '*')) do
	local kind = redis.call('TYPE', key).ok
	local how, holds = get[kind], ''
	if how then holds = redis.call(how[1], key, unpack(how, 2)) end
	all[i] = {key, kind, redis.call('PEXPIRETIME', key), holds}
end
redis.call('ECHO', ARGV[1])
return all`

// readKeys reads the keys of a server that has already begun to report changes. The keys' state
// includes all changes reported before the script's last line. readKeys leaves later reports
// unprocessed.
func (n *node) readKeys(s *stream) error {
	const text = "lockpick: keys up to here"
	all, err := s.commandConn.do("EVAL_RO", readScript, "0", text)
	if err != nil {
		return err
	}
	for _, v := range all.Items {
		if k := v.Items; len(k) == 4 {
			s.keys[k[0].Str] = newState(k[1].Str, k[2].Int, k[3])
		}
	}
	s.eventConn.SetReadDeadline(time.Now().Add(answerTimeout))
	defer s.eventConn.SetReadDeadline(time.Time{})
	for {
		v, err := s.eventConn.next()
		if err != nil {
			return fmt.Errorf("wait for the end of the script: %w", err)
		}
		it, ok := parseItem(v, n.recorder.now())
		if ok && it.from == scriptAddr && len(it.args) == 2 && it.args[1] == text {
			s.readTime, s.clock, s.clockAhead = it.at, it.clock, it.clock-it.at
			return nil
		}
	}
}

// newState returns a state with a key's type, expiry and value as read from the server.
func newState(kind string, expiry int64, v resp.Value) *state {
	s := &state{kind: kind, expiry: max(expiry, 0)}
	switch kind {
	case "string":
		s.elements = []string{v.Str}
	case "hash", "list":
		s.elements = v.Strings()
	default:
		s.kind = ""
	}
	return s
}

// compareKeys records how each key has changed while the node was not watched. why is the reason,
// or "" if the node did not restart. The caller holds the node's mutex, and there is no reader.
func (n *node) compareKeys(s *stream, why string) {
	all := maps.Clone(n.keys)
	maps.Copy(all, s.keys)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, after := n.keys[key], s.keys[key]
		f := fact{key: key, after: after, bounds: bounds{s.readTime, min(n.lastRead, s.readTime), s.readTime}, clock: s.clock, reason: why}
		f.change = n.unseenChange(key, before, after, s.clock/1e6, why)
		switch {
		case f.change == "":
			n.keys[key] = after // with the actual expiry instead of the replayed one
			continue
		case f.change == history.KeyExpired:
			f.reason = ""
		}
		n.apply(f)
	}
}

// unseenChange returns how a key has changed while the node was not watched.
func (n *node) unseenChange(key string, before, after *state, now int64, why string) history.Change {
	switch {
	case after == nil && before.expiry != 0 && now >= before.expiry:
		return history.KeyExpired
	case why == "" && before != nil && after != nil && after.matches(before):
		return ""
	case why == "":
		return change(before, after)
	case after == nil:
		return history.KeyLost
	case before == nil:
		return history.KeyAppeared
	case after.matches(before):
		return history.KeyKept
	case slices.ContainsFunc(n.pastStates[key], after.matches):
		return history.KeyReverted
	}
	return change(before, after)
}

// sender belongs to one connection from a link to a node. It holds the commands whose MONITOR lines
// have not been read yet.
type sender struct {
	link string

	mu           sync.Mutex
	queue        []sentCommand
	removedCount int // number of commands removed from the queue
	answerCount  int
}

// sentCommand is a command as seen by its link.
type sentCommand struct {
	args       []string
	sentTime   int64 // when the command entered the link
	answerTime int64 // when the link had the answer, or 0
}

// maxQueueLen is the maximum length of a sender's queue. Without a limit, the queue would grow,
// because MONITOR omits some commands, such as AUTH.
const maxQueueLen = 10_000

// Sent records a command before the node receives it.
func (s *sender) Sent(args []string, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == maxQueueLen {
		s.queue, s.removedCount = s.queue[1:], s.removedCount+1
	}
	s.queue = append(s.queue, sentCommand{args: args, sentTime: at})
}

// Answered records the answer to the earliest unanswered command.
func (s *sender) Answered(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.answerCount - s.removedCount; i >= 0 && i < len(s.queue) {
		s.queue[i].answerTime = at
	}
	s.answerCount++
}

// match finds the command in a MONITOR line. It drops the commands before it, because a node
// executes a connection's commands in order and will not report these any more.
func (s *sender) match(args []string) (c sentCommand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.queue {
		if slices.Equal(c.args, args) {
			s.queue, s.removedCount = s.queue[i+1:], s.removedCount+i+1
			return c
		}
	}
	return sentCommand{}
}

// attribute records in src that this sender sent the command.
func (s *sender) attribute(src *cause, args []string, origin int64) {
	src.issuer = s.link
	c := s.match(args)
	if c.args == nil {
		return
	}
	src.sentTime = c.sentTime + origin
	if c.answerTime != 0 {
		src.answerTime = c.answerTime + origin
	}
}

// Sender returns a sender for a link's connection to a node, or nil if the node is not watched.
// from is the connection's local address. The sender expects times in true time since the run
// began.
func (l *Recorder) Sender(link, name, from string) *sender {
	n := l.node(name)
	if n == nil {
		return nil
	}
	s := &sender{link: link}
	n.senders.Store(from, s)
	return s
}
