package keylife

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockpick/harness/resp"
)

// stream is what a server tells by, and a connection beside it to ask.
type stream struct {
	main, probe *conn
	server, own string // the probe's addresses: the server's, and its own as that sees it
	done        chan struct{}

	frozen bool // in a script its clock stands still

	run   string
	from  int64             // when it began to tell, by Clock
	at    int64             // when it was read
	clock int64             // and what its clock showed then
	ahead int64             // how far that is ahead of Clock
	found map[string]*state // what it had

	mu     sync.Mutex
	marks  map[string]chan struct{} // closed when the line is there
	marked int                      // of these, all in all
}

// attach connects to the server and reads what it has. The mutex is held.
func (n *node) attach() (*stream, error) {
	s := &stream{done: make(chan struct{}), marks: map[string]chan struct{}{}, found: map[string]*state{}}
	err := n.open(s)
	if err == nil {
		err = n.read(s)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("let %s tell of its keys: %w", n.name, err)
	}
	return s, nil
}

func (n *node) open(s *stream) (err error) {
	if s.probe, err = dial(n.addr); err != nil {
		return err
	}
	s.server, s.own = s.probe.RemoteAddr().String(), s.probe.LocalAddr().String()
	if err := n.prepare(s.probe); err != nil {
		return err
	}
	info, err := s.probe.tell("INFO", "server")
	if err != nil {
		return err
	}
	_, run, _ := strings.Cut(info.Str, "\nrun_id:")
	s.run = run[:min(len(run), runDigits)]
	if s.main, err = dial(n.addr); err != nil {
		return err
	}
	hello, err := s.main.tell("HELLO", "3")
	if err != nil {
		return err
	}
	if s.frozen, err = recent(hello); err != nil {
		return err
	}
	s.main.SetDeadline(time.Now().Add(answerBound))
	defer s.main.SetDeadline(time.Time{})
	if err := s.main.send([]string{"PSUBSCRIBE", pattern}, []string{"MONITOR"}); err != nil {
		return err
	}
	for {
		v, err := s.main.next()
		if err != nil {
			return err
		}
		if text, bad := v.Error(); bad {
			return errors.New(text)
		}
		if v.Kind == '+' {
			s.from = n.lives.now()
			return nil
		}
	}
}

// runDigits is how much of a run_id tells one life from another.
const runDigits = 8

// recent is an error if a server is too old: it has no PEXPIRETIME. From 7.2 on, what a
// script does is all at the instant at which the script began.
func recent(hello resp.Value) (frozen bool, err error) {
	for i := 0; i+1 < len(hello.Items); i += 2 {
		if hello.Items[i].Str != "version" {
			continue
		}
		version := hello.Items[i+1].Str
		var major, minor int
		if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 7 {
			return false, fmt.Errorf("it is version %s, and 7.0 is the first that says when a key expires", version)
		}
		return major > 7 || minor >= 2, nil
	}
	return false, errors.New("it doesn't say which version it is")
}

const notify = "notify-keyspace-events"

// prepare lets a server tell of all events of keys, where it doesn't.
func (n *node) prepare(c *conn) error {
	v, err := c.tell("CONFIG", "GET", notify)
	if err != nil {
		return err
	}
	if len(v.Items) != 2 {
		return fmt.Errorf("it has no setting %s", notify)
	}
	is := v.Items[1].Str
	if strings.Contains(is, "K") && strings.Contains(is, "A") {
		return nil
	}
	if _, err := c.tell("CONFIG", "SET", notify, is+"KA"); err != nil {
		return err
	}
	if n.notify == nil {
		n.notify = &is
	}
	return nil
}

// restore gives the server back the setting that it had. One that has ended has none of
// ours. The mutex is held.
func (n *node) restore() error {
	if n.notify == nil {
		return nil
	}
	c, err := dial(n.addr)
	if err != nil {
		return nil
	}
	defer c.Close()
	if _, err := c.tell("CONFIG", "SET", notify, *n.notify); err != nil {
		return fmt.Errorf("set %s of %s back to %q: %w", notify, n.name, *n.notify, err)
	}
	n.notify = nil
	return nil
}

func (s *stream) items(clock func() time.Duration) (items []item, err error) {
	values := s.main.values
	s.main.values = nil
	if len(values) == 0 {
		values, err = s.main.read()
	}
	at := int64(clock())
	for _, v := range values {
		if it, ok := itemOf(v, at); ok {
			items = append(items, it)
		}
	}
	return items, err
}

// lives says whether the server that it is connected to is still there.
func (s *stream) lives() bool {
	_, err := s.probe.tell("PING")
	return err == nil
}

// finishBound is how long what is still on its way may take: a server that has ended has
// nothing to add.
const finishBound = 50 * time.Millisecond

// finish waits for the reader to have read all there is.
func (s *stream) finish() {
	s.main.SetReadDeadline(time.Now().Add(finishBound))
	<-s.done
}

// drainBound is how long a server may take to tell all at the end of a run.
const drainBound = 2 * time.Second

// drained waits until all is taken that the server has done until now, if it tells in time.
func (s *stream) drained(bound time.Duration) bool {
	mark := make(chan struct{})
	s.mu.Lock()
	s.marked++
	word := fmt.Sprintf("lockpick: all until here, %d", s.marked)
	s.marks[word] = mark
	s.mu.Unlock()
	if s.probe.send([]string{"ECHO", word}) != nil {
		return false
	}
	select {
	case <-mark:
		return true
	case <-s.done:
	case <-time.After(bound):
	}
	select { // it may have been the last that came
	case <-mark:
		return true
	default:
		return false
	}
}

// mark takes a line of the probe's.
func (s *stream) mark(args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(args) == 2 && s.marks[args[1]] != nil {
		close(s.marks[args[1]])
		delete(s.marks, args[1])
	}
}

func (s *stream) close() {
	for _, c := range []*conn{s.main, s.probe} {
		if c != nil {
			c.Close()
		}
	}
}
