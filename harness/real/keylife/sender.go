package keylife

import (
	"slices"
	"sync"
)

// sender is one connection of a link to a node: what was sent there and is not told yet.
type sender struct {
	link string

	mu      sync.Mutex
	queue   []sent
	passed  int // how many are no more in the queue
	answers int
}

// sent is a command as its link saw it.
type sent struct {
	args     []string
	at       int64 // when it entered the link
	answered int64 // when the link had the answer; 0: not yet
}

// mostSent bounds what a connection may have sent that no node tells of, as MONITOR does
// of AUTH.
const mostSent = 10_000

// Sent takes a command that the node is about to have.
func (s *sender) Sent(args []string, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == mostSent {
		s.queue, s.passed = s.queue[1:], s.passed+1
	}
	s.queue = append(s.queue, sent{args: args, at: at})
}

// Answered takes the answer to the first command that had none.
func (s *sender) Answered(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.answers - s.passed; i >= 0 && i < len(s.queue) {
		s.queue[i].answered = at
	}
	s.answers++
}

// told finds the command that a line tells of. A node does what a connection asks for in
// its order: what was sent before and was not told has no line.
func (s *sender) told(args []string) (c sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.queue {
		if slices.Equal(c.args, args) {
			s.queue, s.passed = s.queue[i+1:], s.passed+i+1
			return c
		}
	}
	return sent{}
}

// claim says that a command came from here.
func (s *sender) claim(who *cause, args []string, origin int64) {
	who.by = s.link
	c := s.told(args)
	if c.args == nil {
		return
	}
	who.sent = c.at + origin
	if c.answered != 0 {
		who.answered = c.answered + origin
	}
}

// Sender is of a connection that a link has made to a node from an address; nil: the node
// doesn't tell. Its instants are true time since the run began.
func (l *Lives) Sender(link, name, from string) *sender {
	n := l.node(name)
	if n == nil {
		return nil
	}
	s := &sender{link: link}
	n.senders.Store(from, s)
	return s
}
