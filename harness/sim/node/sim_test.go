package node

import (
	"errors"
	"fmt"
	"time"

	"lockpick/harness/resp"
)

var (
	_ Server    = (*simulatedServer)(nil)
	_ restarter = (*simulatedServer)(nil)
	_ disk      = (*simulatedServer)(nil)
	_ clock     = (*simulatedServer)(nil)

	_ dialer = (*simulatedServer)(nil)
)

// simulatedServer is a node on a machine in virtual time. Syncs complete at once.
type simulatedServer struct {
	now        int64 // true time
	clock      *Clock
	disk       *Disk // nil means no disk
	node       *Node // nil means down
	startCount int64
	conns      []*virtualConn
}

// virtualConn is a connection to a simulated node.
type virtualConn struct {
	server  *simulatedServer
	session *Session
	in      resp.Scanner
	values  []resp.Value
}

func (s *simulatedServer) Dial() (serverConn, error) {
	if s.node == nil {
		return nil, errDown
	}
	v := &virtualConn{server: s, session: s.node.Open()}
	s.conns = append(s.conns, v)
	return v, nil
}

func (v *virtualConn) Send(words []string) error {
	out, _ := v.session.Execute([]*resp.Command{{Args: words}}, nil)
	if err := v.receive(out); err != nil {
		return err
	}
	return v.server.flush()
}

func (v *virtualConn) receive(out []byte) error {
	values, err := v.in.Feed(out)
	v.values = append(v.values, values...)
	return err
}

func (v *virtualConn) Next() (resp.Value, error) {
	if len(v.values) == 0 {
		return resp.Value{}, errors.New("no value arrived")
	}
	next := v.values[0]
	v.values = v.values[1:]
	return next, nil
}

func (v *virtualConn) Close() error {
	v.session.Close()
	return nil
}

// deliver delivers the node's pushes to its sessions.
func (s *simulatedServer) deliver() error {
	for _, p := range s.node.TakePushes() {
		for _, v := range s.conns {
			if v.session != p.To {
				continue
			}
			if err := v.receive(p.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// virtualStart is the beginning of virtual time, in Unix nanoseconds.
const virtualStart = 946684800e9

func newSimulated(persistence string) *simulatedServer {
	s := &simulatedServer{}
	s.clock = NewClock(virtualStart, func() int64 { return s.now })
	if persistence != "none" {
		s.disk = NewDisk(Fsync(persistence))
	}
	s.start()
	return s
}

func (s *simulatedServer) start() {
	s.startCount++
	s.node = New(Config{RunID: fmt.Sprintf("%040x", s.startCount), ProcessID: s.startCount, Clock: s.clock, Disk: s.disk})
}

// close drops the node along with its unwritten data.
func (s *simulatedServer) close() {
	s.node.Close()
	s.node, s.conns = nil, nil
}

var errDown = errors.New("it is down")

func (s *simulatedServer) Do(words []string) (resp.Value, error) {
	if s.node == nil {
		return resp.Value{}, errDown
	}
	session := s.node.Open()
	defer session.Close()
	out, _ := session.Execute([]*resp.Command{{Args: words}}, nil)
	var scan resp.Scanner
	values, err := scan.Feed(out)
	if err != nil || len(values) != 1 {
		return resp.Value{}, fmt.Errorf("%q is not a single reply: %w", out, err)
	}
	return values[0], s.flush()
}

// flush does what Redis does before it replies.
func (s *simulatedServer) flush() error {
	switch s.node.Flush() {
	case StartSync, WaitForSync:
		s.disk.Sync()()
		s.node.SyncDone()
	case Exit:
		return errors.New("it exited: its disk is full")
	}
	return s.deliver()
}

// tickInterval is the interval of Redis's periodic tasks.
const tickInterval = 100 * time.Millisecond

func (s *simulatedServer) Wait(d time.Duration) error {
	for d > 0 {
		step := min(d, tickInterval)
		s.now += int64(step)
		d -= step
		if s.node == nil {
			continue
		}
		s.node.Sweep()
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulatedServer) Lag() time.Duration { return 0 }

func (s *simulatedServer) Kill() error {
	if s.node == nil {
		return errDown
	}
	s.close()
	return nil
}

func (s *simulatedServer) Shutdown() error {
	if s.node == nil {
		return errDown
	}
	s.node.Shutdown()
	s.close()
	return nil
}

func (s *simulatedServer) Restart() error {
	if s.node != nil {
		return errors.New("it runs")
	}
	s.start()
	return nil
}

func (s *simulatedServer) LosePower(torn bool) error {
	if s.node == nil {
		return errDown
	}
	s.close()
	if s.disk != nil {
		s.disk.LosePower(torn)
	}
	return nil
}

func (s *simulatedServer) Unsynced() bool {
	return s.disk != nil && (s.disk.Unsynced() > 0 || s.node != nil && s.node.NeedsFlush())
}

// Adjust removes expired keys before it sets the clock back, as Redis would have done by then.
func (s *simulatedServer) Adjust(by time.Duration, rate float64) error {
	if s.node != nil && by < 0 {
		s.node.Sweep()
	}
	s.clock.Adjust(by, rate)
	return nil
}
